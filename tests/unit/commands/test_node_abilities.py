"""`jupyter-gq doctor --nodes` says each sentence once, however many nodes it is about."""

from jupyter_gq.client.models import NodeAbility, NodeDescription
from jupyter_gq.commands.node_abilities import find_trouble, format_nodes

DRIVER = NodeAbility(name="driver", state="works", found="NVIDIA's driver is of version 580.", advice="")
OFF = NodeAbility(name="persistence", state="off", found="It is off.", advice="Run nvidia-persistenced.")
NO_END = NodeAbility(name="end programs", state="missing", found="Set endPrograms.", advice="Set endPrograms.")


def a_node(name, *abilities, **fields):
    told = {"agent": "reporting", "age": 1.0, "release": "1.2", "gpus": 8, "obstacle": "", "missing": {}}
    return NodeDescription(**{"node": name, "pool": "a100", "abilities": list(abilities), **told, **fields})


def test_sentence_about_500_nodes_is_said_once():
    nodes = [a_node(f"n{number}", DRIVER, OFF) for number in range(500)]
    lines = format_nodes(nodes, width=None)
    assert lines[0].split() == ["NODE", "POOL", "AGENT", "GPUS", "DRIVER", "PERSISTENCE"]
    assert lines[1].split() == ["n0", "a100", "1.2", "8", "works", "off"]
    assert lines[501:] == [
        "",
        "Found:",
        "  driver: NVIDIA's driver is of version 580. (all 500 nodes)",
        "  persistence: It is off. (all 500 nodes)",
        "",
        "For more:",
        "  persistence: Run nvidia-persistenced. (all 500 nodes)",
    ]


def test_sentence_names_a_few_nodes_and_counts_the_others():
    nodes = [a_node(f"n{number}", DRIVER if number else OFF) for number in range(8)]
    lines = format_nodes(nodes, width=None)
    assert "  driver: NVIDIA's driver is of version 580. (n1, n2, n3, n4, n5 and 2 more)" in lines
    assert "  persistence: Run nvidia-persistenced. (n0)" in lines
    assert lines[1].split()[-2:] == ["off", "?"]


def test_what_a_finding_says_already_is_not_said_again():
    lines = format_nodes(
        [a_node("n", NO_END, missing={"signal": "Set endPrograms.", "visible": "No numbers."})], width=None
    )
    assert [line for line in lines if "endPrograms" in line] == ["  end programs: Set endPrograms. (n)"]
    assert "  visible: No numbers. (n)" in lines


def test_nodes_that_tell_nothing_are_named_with_the_reason():
    unknown = {"abilities": None, "missing": {}}
    nodes = [
        a_node("old", release="", **unknown),
        a_node("waits", **unknown),
        a_node("silent", DRIVER, agent="silent", obstacle="It is silent."),
        a_node("never", agent="unheard", release="", age=None, gpus=0, obstacle="No report.", **unknown),
    ]
    text = "\n".join(format_nodes(nodes, width=None))
    assert "of an older release, which does not tell what the node can do" in text
    assert "waits for the driver" in text
    assert "does not report any more" in text
    assert "No agent has reported since the service was started" in text
    assert find_trouble(nodes) == ["old", "waits", "silent", "never"]
    assert find_trouble([a_node("fine", DRIVER), a_node("lost", DRIVER, obstacle="Its driver is lost.")]) == ["lost"]


def test_node_that_offers_no_gpu_is_told_apart_from_one_without_an_agent():
    """Also one whose driver shows GPUs: without a device plugin, nothing starts there."""
    unknown = {"agent": "unheard", "release": "", "age": None, "gpus": 0, "obstacle": "No report.", "abilities": None}
    bare = a_node("bare").model_copy(update={**unknown, "offered": 0})
    unplugged = a_node("unplugged", DRIVER, offered=0)
    text = "\n".join(format_nodes([bare, unplugged, a_node("fine", DRIVER, offered=8)], width=None))
    assert "offers no GPU to the cluster, so nothing with a GPU starts there" in text
    assert "(bare, unplugged)" in text
    assert "No agent has reported" not in text, "an agent would not help"
    assert find_trouble([bare, unplugged, a_node("old service")]) == ["bare", "unplugged"]


def test_words_of_an_agent_cannot_falsify_a_line():
    evil = NodeAbility(name="x\x1b[2J", state="works\n", found="a\nb\x07", advice="c\r")
    text = "\n".join(format_nodes([a_node("n\n", evil)], width=None))
    assert not set(text) & set("\x1b\x07\r")
    assert "  x: a b (n )" in text


def test_cluster_without_gpus_is_said():
    assert format_nodes([], width=80) == ["No node of any pool offers a GPU."]
