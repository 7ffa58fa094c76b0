"""Laws of a cluster that has come to rest: what must follow, whatever happens to it then.

Safety: what never happens. Liveness: what happens in the end.
"""

from collections.abc import Callable
from dataclasses import replace

from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, admitted, anything_stops, apply, cordoned, later, stopped, without
from tests.property import laws
from tests.property.histories import settle


def what_was_evicted_starts_again_when_the_others_are_gone(snapshot: Snapshot, policy: Policy) -> None:
    """Liveness. Seniority kept: each workload alone on the cluster starts, if its queue allows it at all."""
    for workload in snapshot.workloads:
        if workload.state is not State.PENDING:
            continue
        decision = run_cycle(replace(snapshot, workloads=(workload,)), policy, NOW)
        reasons = {entry.why.reason for entry in decision.pending}
        assert admitted(decision) == [workload.id] or reasons <= {
            PendingReason.QUEUE_LIMIT,
            PendingReason.NON_PREEMPTIBLE_OVER_QUOTA,
            PendingReason.NO_DEVICE,
        }


def those_named_as_in_the_way_really_are(snapshot: Snapshot, policy: Policy, decision: Decision) -> None:
    """Safety. Without them, and with nobody else wanting anything, work starts.

    If nobody is named, nothing would help. It may start only once idle notebooks have given their shares to the work
    that waits for them. Not asked of work behind work that is to get the share of an idle notebook.
    Where cores count, not asked while any work is to get the share of an idle notebook, whose cores may be enough for
    two, nor of work for which devices are gathered, which may need cores of others too, nor of
    nodes with devices of several pools: work of another pool, whose cores may be needed, is not named.
    """
    waiting = {entry.workload for entry in decision.pending}
    awaited = [entry for entry in decision.pending if entry.why.reason is PendingReason.WAITS_FOR_IDLE]
    awaits, idle = {entry.workload for entry in awaited}, {name for entry in awaited for name in entry.why.blockers}
    counts_host = any((node.cpu_milli, node.memory) != (None, None) for node in snapshot.nodes)
    mixed = any(len({device.pool for device in node.devices}) > 1 for node in snapshot.nodes)
    for entry in decision.pending:
        if entry.why.reason not in (PendingReason.NO_FREE_DEVICE, PendingReason.FRAGMENTED, PendingReason.RESERVED):
            continue
        if awaits & {*entry.why.blockers} or (
            counts_host and (awaits or mixed or "seconds_waited" in entry.why.numbers)
        ):
            continue
        assert entry.why.blockers, entry
        others = waiting - {entry.workload}
        now = _rigid(without(snapshot, *entry.why.blockers, *others))
        then = _rigid(without(snapshot, *entry.why.blockers, *idle, *(others - awaits)))
        assert any(entry.workload in admitted(run_cycle(rest, policy, NOW)) for rest in (now, then)), entry


def _rigid(snapshot: Snapshot) -> Snapshot:
    """The same, but what holds devices wants no more."""
    return replace(snapshot, workloads=tuple(replace(w, elastic=w.elastic and not w.holds) for w in snapshot.workloads))


def when_the_time_named_has_passed_somebody_gives_way(snapshot: Snapshot, policy: Policy, decision: Decision) -> None:
    """Liveness. Who waits for a least run time names when it is over: then something happens."""
    for entry in decision.pending:
        if entry.why.reason is PendingReason.MIN_RUNTIME:
            seconds = entry.why.numbers["seconds_left"]
            assert seconds > 0
            assert run_cycle(later(snapshot, seconds), policy, NOW).instructions


def whatever_can_be_paused_leaves_a_node_that_is_emptied(snapshot: Snapshot, policy: Policy, node: Node) -> None:
    """Safety. And nothing goes there."""
    nodes = tuple(cordoned(each) if each is node else each for each in snapshot.nodes)
    _is_left(snapshot, nodes, policy, lambda task: task.node == node.name)


def whatever_can_be_paused_leaves_a_device_out_of_service(
    snapshot: Snapshot, policy: Policy, which: int, how: str
) -> None:
    """Safety. And nothing goes there.

    The device is drained, or the configuration gives it to a pool that no queue of these has (`how`: drained, moved).
    """
    devices = [device for node in snapshot.nodes for device in node.devices]
    device = devices[which % len(devices)]
    out = replace(device, healthy=False, draining=True) if how == "drained" else replace(device, pool="other")
    nodes = tuple(
        replace(node, devices=tuple(out if each is device else each for each in node.devices))
        for node in snapshot.nodes
    )
    _is_left(snapshot, nodes, policy, lambda task: device.id in task.devices)


def _is_left(
    snapshot: Snapshot, nodes: tuple[Node, ...], policy: Policy, is_there: Callable[[TaskPlacement], bool]
) -> None:
    """With these nodes, only what cannot be paused stays at a place, and nothing comes."""
    before = {w.id for w in snapshot.workloads if any(map(is_there, w.placement))}
    after = settle(replace(snapshot, nodes=nodes), policy)
    left = {w.id: w for w in after.workloads if any(map(is_there, w.placement))}
    assert left.keys() <= before
    assert not any(workload.preemptible for workload in left.values())


def other_bounds_hold_in_the_end_without_taking_what_is_entitled(
    snapshot: Snapshot, policy: Policy, queues: tuple[Queue, ...]
) -> None:
    """Liveness. Whatever is lowered under running work: limits hold in the end, as far as anything can go.

    The cluster comes to rest. What goes for a limit is above the quota of its own queue, or else nothing of that
    queue's is.
    """
    snapshot = replace(snapshot, queues=queues)
    for _ in range(40):
        decision = run_cycle(snapshot, policy, NOW)
        laws.entitled_work_goes_last(snapshot, decision, policy)
        snapshot = apply(snapshot, decision)
        if not decision.instructions and not anything_stops(snapshot):
            break
        snapshot = stopped(snapshot)
    assert not decision.instructions, "the cluster does not come to rest"
    laws.only_what_cannot_go_is_above_a_limit(snapshot, policy)
