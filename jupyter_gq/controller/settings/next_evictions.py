"""The running work that the first cycle after a change of the settings would stop or pause."""

from collections.abc import Iterator
from dataclasses import replace

from jupyter_gq.client.state import LiveState
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict, Shrink

from .config import Settings


def find_next_evictions(after: Settings, state: LiveState) -> Iterator[str]:
    """Yield a line for each workload that the next cycle stops, pauses or shrinks with `after` and not without it.

    The cycles run on the work and the devices in `state`. Devices that only `after` puts into a pool are left out.
    """
    now = _find_victims(state.snapshot, state)
    then = _find_victims(_with_settings(after, state), replace(state, policy=after.policy))
    workloads = {workload.id: workload for workload in state.snapshot.workloads}
    for name, sentence in then.items():
        if name not in now:
            yield f"{_describe(workloads[name])}. {sentence}"


def _find_victims(snapshot: Snapshot, state: LiveState) -> dict[str, str]:
    """Return the sentence for the owner of each workload that a cycle would evict or shrink, by workload id."""
    decision = run_cycle(snapshot, state.policy, state.at)
    return {each.workload: each.sentence for each in decision.instructions if isinstance(each, Evict | Shrink)}


def _with_settings(after: Settings, state: LiveState) -> Snapshot:
    """Return the snapshot of `state` with the queues and pools of `after`."""
    snapshot = state.snapshot
    queues = after.queues({user: frozenset(groups) for user, groups in state.groups.items()})
    used = {device for work in snapshot.workloads for task in work.held_places for device in task.devices}
    named = {workload.queue for workload in snapshot.workloads}
    return replace(
        snapshot,
        nodes=after.nodes(snapshot.nodes, used),
        queues=queues,
        vanished=tuple(sorted(named.difference(queue.name for queue in queues))),
    )


def _describe(workload: Workload) -> str:
    """Return the workload as a sentence names it, such as "ann's job digits in vision" or "bob's server"."""
    if workload.kind is Kind.NOTEBOOK:
        return f"{workload.owner}'s server {workload.name}".rstrip()
    return f"{workload.owner}'s job {workload.name or workload.id} in {workload.queue}"
