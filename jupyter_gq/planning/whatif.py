"""`jupyter-gq whatif`: change quotas, jobs, settings or nodes of a written state, and show what would happen."""

import argparse
import re
from pathlib import Path

from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.wording import describe_duration, describe_workload
from jupyter_gq.simulation.differences import differences
from jupyter_gq.simulation.durations import Durations
from jupyter_gq.simulation.forecast import Horizon, forecast
from jupyter_gq.simulation.whatif import InvalidChange, apply_change, with_nodes, without_node

from .files import load_state

#: Further ahead nobody would believe it.
AHEAD = Horizon(ends=2000)
_NODES = re.compile(r"(?P<count>[1-9]\d{0,4})x(?P<devices>[1-9]\d{0,2})(:(?P<pool>.+))?")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq whatif`."""
    parser.add_argument(
        "state", type=Path, metavar="SNAPSHOT.json", help="state file, written by `jupyter-gq snapshot`"
    )
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="PATH=VALUE",
        dest="assignments",
        help="change queue.NAME.FIELD, job.ID.FIELD or policy.FIELD, such as queue.vision.quota=8; may be repeated",
    )
    parser.add_argument(
        "--add-nodes",
        metavar="COUNTxGPUS[:POOL]",
        help="add nodes like the node of the pool whose device has the most memory, such as 2x8",
    )
    parser.add_argument(
        "--remove-node", action="append", default=[], metavar="NAME", help="remove a node; may be repeated"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print to which workloads something else would happen after the changes, and when they would start; return 0.

    Raises `CommandRefused` if there is no change, or a change or the state file cannot be used.
    """
    if not (arguments.assignments or arguments.add_nodes or arguments.remove_node):
        raise CommandRefused("Nothing is changed: give --set, --add-nodes or --remove-node.")
    state = load_state(arguments.state).state
    snapshot, policy = state.snapshot, state.policy
    try:
        for assignment in arguments.assignments:
            snapshot, policy = apply_change(snapshot, policy, assignment)
        for name in arguments.remove_node:
            snapshot = without_node(snapshot, name)
        if arguments.add_nodes:
            count, devices, pool = _nodes(arguments.add_nodes)
            snapshot = with_nodes(snapshot, count, devices, pool)
    except InvalidChange as error:
        raise CommandRefused(str(error)) from None
    before = run_cycle(state.snapshot, state.policy, state.at)
    after = run_cycle(snapshot, policy, state.at)
    waits = _waits(state.snapshot, state.policy, state.at), _waits(snapshot, policy, state.at)
    found = differences(snapshot, before, after)
    names = {workload.id: describe_workload(workload) for workload in snapshot.workloads}
    for each in found:
        print_plain(f"{each.workload} ({names[each.workload]})")
        print_plain(f"  now:   {each.before}{waits[0].get(each.workload, '')}")
        print_plain(f"  then:  {each.after}{waits[1].get(each.workload, '')}")
    print(
        f"{len(found)} of {len(snapshot.workloads)} workloads are treated otherwise." if found else "Nothing changes."
    )
    return 0


def _waits(snapshot: Snapshot, policy: Policy, now: Instant) -> dict[str, str]:
    """Return a sentence on the expected start of each pending workload that does not start now, by id."""
    expected = forecast(snapshot, policy, now, Durations().expected, horizon=AHEAD)
    return {name: _in_words(wait) for name, wait in expected.items() if wait is None or wait > 0}


def _in_words(wait: Seconds | None) -> str:
    """Return a sentence, with a space before it, on an expected wait in seconds; None = no start can be foreseen."""
    if wait is None:
        return " Expected to start: cannot be seen."
    return f" Expected to start in about {describe_duration(wait)}."


def _nodes(text: str) -> tuple[int, int, str | None]:
    """Return count, devices and pool of the text of `--add-nodes`.

    Raise `CommandRefused` if the text has another form.
    """
    match = _NODES.fullmatch(text)
    if match is None:
        raise CommandRefused(
            f"--add-nodes {quoted(text)}: write COUNTxGPUS or COUNTxGPUS:POOL, such as 2x8 or 2x8:train."
        )
    return int(match["count"]), int(match["devices"]), match["pool"]
