"""The table of `jupyter-gq doctor --nodes`: what each node of a cluster can do, and what to install or set for more.

Rules
-----
- Each sentence once: it names the nodes that it is about, and all of them only if they are few.
- Untrusted words: names and sentences come from agents, so control characters are left out.
"""

from collections.abc import Iterator, Sequence

from jupyter_gq.client.models import NodeAbility, NodeDescription
from jupyter_gq.domain.plain_text import strip_controls

from .printing.tables import format_table

#: The most nodes that a sentence names.
_MOST_NAMES = 5
_OLD_AGENT = (
    "Its agent is of an older release, which does not tell what the node can do. Update the DaemonSet of the agents."
)
_UNHEARD = (
    "No agent has reported since the service was started. Look at the pod of the agent on the node; without one, set "
    "agent.enabled: true in the chart."
)
_SILENT = "Its agent does not report any more. Look at the pod of the agent on the node."
_NO_GPU = (
    "The node offers no GPU to the cluster, so nothing with a GPU starts there. Look whether its driver and its device "
    "plugin run; if it has no GPU, take it out of the pool."
)
_WAITS = "Its agent waits for the driver or the kubelet, and cannot tell more at the moment."
#: Sentences by the node that they are about; a section of the text.
_Said = dict[str, list[str]]


def find_trouble(nodes: Sequence[NodeDescription]) -> list[str]:
    """Return the names of the nodes that take no new share, or of which it is not known what they can do."""
    return [each.node for each in nodes if each.obstacle or each.abilities is None or each.offered == 0]


def format_nodes(nodes: Sequence[NodeDescription], *, width: int | None) -> list[str]:
    """Return the lines of the table, and below it the findings and the advice, each sentence once."""
    if not nodes:
        return ["No node of any pool offers a GPU."]
    columns = list(dict.fromkeys(ability.name for node in nodes for ability in node.abilities or ()))
    header = ["NODE", "POOL", "AGENT", "GPUS", *(column.upper() for column in columns)]
    rows = [[*_describe_agent(node), *(_state_of(node, column) for column in columns)] for node in nodes]
    found: _Said = {}
    advice: _Said = {}
    for node in nodes:
        for sentence in _find_sentences(node):
            found.setdefault(sentence, []).append(node.node)
        for sentence in dict.fromkeys(_advise(node)):
            advice.setdefault(sentence, []).append(node.node)
    unverified = any(ability.state == "unverified" for node in nodes for ability in node.abilities or ())
    return [
        *format_table([header, *rows], (3,), width=width),
        *_format_section("Found:", found, len(nodes)),
        *_format_section("For more:", advice, len(nodes)),
        *(["", "unverified: not tried on hardware by any release."] if unverified else []),
    ]


def _describe_agent(node: NodeDescription) -> list[str]:
    """Return the first cells of a node's row."""
    agent = node.agent if node.agent != "reporting" else node.release or "older release"
    known = node.agent != "unheard" or node.offered == 0
    return [node.node, node.pool, agent, str(node.gpus) if known else "?"]


def _state_of(node: NodeDescription, name: str) -> str:
    return next((ability.state for ability in node.abilities or () if ability.name == name), "?")


def _find_sentences(node: NodeDescription) -> Iterator[str]:
    """Yield what was found on a node, but for what its advice says as well."""
    for ability in node.abilities or ():
        if ability.found and ability.found != ability.advice:
            yield _label(ability, ability.found)


def _advise(node: NodeDescription) -> Iterator[str]:
    """Yield what to do for more on a node."""
    if node.offered == 0:
        yield _NO_GPU
    if node.agent == "unheard":
        if node.offered != 0:
            yield _UNHEARD
        return
    if node.agent == "silent":
        yield _SILENT
    if node.abilities is None:
        yield _WAITS if node.release else _OLD_AGENT
    said = {sentence for ability in node.abilities or () for sentence in (ability.found, ability.advice)}
    for ability in node.abilities or ():
        if ability.advice:
            yield _label(ability, ability.advice)
    for name, sentence in node.missing.items():
        if sentence not in said:
            yield strip_controls(f"{name}: {sentence}")


def _label(ability: NodeAbility, sentence: str) -> str:
    return strip_controls(f"{ability.name}: {sentence}")


def _format_section(title: str, said: _Said, total: int) -> list[str]:
    """Return a section with each sentence and the nodes that it is about; no lines without a sentence."""
    if not said:
        return []
    return ["", title, *(f"  {sentence} ({_name_nodes(nodes, total)})" for sentence, nodes in said.items())]


def _name_nodes(nodes: Sequence[str], total: int) -> str:
    """Return the nodes of a sentence, such as "all 500 nodes", "n1, n2" or "n1, n2, n3, n4, n5 and 12 more"."""
    if len(nodes) == total and total > 1:
        return f"all {total} nodes"
    named = ", ".join(strip_controls(node) for node in nodes[:_MOST_NAMES])
    more = len(nodes) - _MOST_NAMES
    return f"{named} and {more} more" if more > 0 else named
