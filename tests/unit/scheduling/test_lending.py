"""What idle notebooks lend, to whom, and how they get it back."""

from dataclasses import replace

import pytest

from jupyter_gq.controller.drains import mark_drained
from jupyter_gq.controller.offered_nodes import without_devices
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict, Reserve, Resume, Suspend, Warn
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import (
    NOW,
    Cluster,
    a_job,
    a_node,
    a_notebook,
    a_queue,
    acts,
    admitted,
    apply,
    evicted,
    idle,
    running,
    stopped,
    stopping,
    why,
)


def decide(snapshot):
    return run_cycle(snapshot, Policy(consolidate=False), NOW)


def sleeping(busy=False, gpus="0.5", **fields):
    """Ann's notebook holds half of a device, or as much as is said, suspended."""
    notebook = replace(running(a_notebook("ann", gpus), "n-0"), suspendable=True, state=State.SUSPENDED, **fields)
    return replace(idle(notebook, 4000, busy=busy), state=State.SUSPENDED)


def shared():
    """One device: ann's fixed quota of a half, and two queues."""
    return Cluster().node("n", 1).fixed("train", ann="0.5").queue("q", "0.5").queue("z", 0)


def test_an_idle_share_is_lent_before_anybody_is_disturbed():
    cluster = shared().add(
        replace(idle(running(a_notebook("ann", "0.5"), "n-0"), 4000), suspendable=True),
        running(a_job("borrower", "z", "0.5"), "n-0"),
        a_job("entitled", "q", "0.5", owner="bob"),
    )
    decision = decide(cluster.snapshot())
    (suspend,) = acts(decision)
    assert (type(suspend), suspend.workload, suspend.by) == (Suspend, "nb-ann", "entitled")
    assert "variables of kernels that still run" in suspend.sentence
    assert admitted(decide(apply(cluster.snapshot(), decision))) == ["entitled"]


@pytest.mark.parametrize(("eves", "taken"), [(4000, "nb-eve"), (3999, "nb-ann")])
def test_the_longest_idle_share_is_lent_first_and_of_equals_the_largest(eves, taken):
    """Either would do for the job that waits."""
    cluster = Cluster().node("n", 2).fixed("train", ann="0.5", eve="1").queue("q", "0.5")
    idlers = [(a_notebook("ann", "0.5"), 4000), (a_notebook("eve", "1"), eves)]
    for place, (notebook, seconds) in enumerate(idlers):
        cluster.add(replace(idle(running(notebook, f"n-{place}"), seconds), suspendable=True))
    cluster.add(running(a_notebook("dan", "0.5"), "n-0"), a_job("waits", "q", "0.5", owner="bob"))
    (suspend,) = acts(decide(cluster.snapshot()))
    assert (type(suspend), suspend.workload) == (Suspend, taken)


@pytest.mark.parametrize(
    ("notebook", "taken"),
    [
        (idle(running(a_notebook("ann", "0.5", suspendable=True), "n-0"), 100), ["borrower"]),
        (idle(running(a_notebook("ann", "0.5"), "n-0"), 4000), ["borrower"]),
        (idle(running(a_notebook("ann", "0.5", suspendable=True), "n-0"), 4000, busy=True), ["borrower"]),
    ],
    ids=["idle too short", "not suspendable", "busy"],
)
def test_a_share_that_is_in_use_is_not_lent(notebook, taken):
    cluster = shared().add(notebook, running(a_job("borrower", "z", "0.5"), "n-0"), a_job("entitled", "q", "0.5"))
    assert evicted(decide(cluster.snapshot())) == taken


def test_only_what_can_be_taken_back_starts_on_a_lent_share():
    cluster = shared().add(sleeping(), running(a_job("here", "q", "0.5", preemptible=False), "n-0"))
    fixed = cluster.add(replace(a_job("fixed", "z", "0.5"), preemptible=False))
    fixed.queues[-1] = replace(fixed.queues[-1], quota=500)
    decision = decide(fixed.snapshot())
    assert admitted(decision) == []
    entry = why(decision, "fixed").why
    assert entry.reason is PendingReason.RESERVED
    assert reveal(entry.sentence) == (
        "Waiting: 0.5 GPU is free, but reserved for ann's server (0.5 GPU), which may be used again at any moment."
    )
    cluster.workloads[-1] = a_job("borrower", "z", "0.5")
    assert admitted(decide(cluster.snapshot())) == ["borrower"]


def test_a_notebook_that_is_used_again_gets_its_bytes_back_at_once_where_it_was():
    decision = decide(shared().add(sleeping(busy=True), a_job("borrower", "z", "0.75")).snapshot())
    assert [(type(i), i.workload, i.placement[0].devices) for i in decision.instructions] == [
        (Resume, "nb-ann", ("n-0",))
    ]


def on_cores(workload, milli):
    return replace(workload, request=replace(workload.request, cpu_milli=milli))


OUT_OF_SERVICE = {
    "in service": lambda node: node,
    "drained": lambda node: mark_drained([node], {"n-0"})[0],
    "its node drained": lambda node: mark_drained([node], {"n"})[0],
    "in no pool": lambda node: replace(
        node, devices=(replace(node.devices[0], pool="", healthy=False, withheld=True),)
    ),
}


@pytest.mark.parametrize("how", OUT_OF_SERVICE.values(), ids=OUT_OF_SERVICE)
@pytest.mark.parametrize("cores", [None, 1000])
def test_a_notebook_comes_back_also_to_a_device_that_takes_nothing_new(how, cores):
    """Nor does it need a second time the cores that it has kept."""
    cluster = shared().add(on_cores(sleeping(busy=True), 700), running(a_job("borrower", "z", "0.75"), "n-0"))
    snapshot = cluster.snapshot()
    snapshot = replace(snapshot, nodes=tuple(replace(how(node), cpu_milli=cores) for node in snapshot.nodes))
    leaving = decide(snapshot)
    assert evicted(leaving) == ["borrower"]
    rest = stopped(apply(snapshot, leaving))
    following = decide(rest)
    assert [(type(each), each.workload) for each in following.instructions] == [(Resume, "nb-ann")]
    assert decide(apply(rest, following)).instructions == ()


@pytest.mark.parametrize("drained", [{}, {"n-0"}, {"n"}], ids=["in service", "drained", "its node drained"])
@pytest.mark.parametrize("how", ["lost", "taken"])
def test_a_notebook_does_not_come_back_to_a_device_that_is_lost_or_that_something_else_holds(how, drained):
    snapshot = shared().add(sleeping(busy=True)).snapshot()
    (node,) = snapshot.nodes
    if how == "lost":
        node = replace(node, devices=(replace(node.devices[0], healthy=False),))
    (node,) = mark_drained([node], drained)
    if how == "taken":
        (node,) = without_devices([node], {"n-0"})
    assert decide(replace(snapshot, nodes=(node,))).instructions == ()


def test_who_borrowed_gives_way_and_nobody_snatches_the_room():
    cluster = shared().add(
        sleeping(busy=True),
        running(a_job("entitled", "q", "0.5"), "n-0", since=5),
        running(a_job("borrower", "z", "0.5"), "n-0", since=1),
        a_job("thief", "q", "0.25", submitted=-500),
    )
    cluster.queues[2] = replace(cluster.queues[2], quota=750)
    snapshot = cluster.snapshot()
    decision = decide(snapshot)
    assert [(i.workload, i.reason, i.by) for i in decision.instructions if isinstance(i, Evict)] == [
        ("borrower", EvictReason.RECLAIMED, "nb-ann")
    ]
    after = apply(snapshot, decision)
    assert decide(after).instructions == ()
    following = decide(stopped(after))
    assert [type(i) for i in following.instructions] == [Resume]
    assert decide(apply(stopped(after), following)).instructions == ()


def test_who_waits_for_a_lent_place_gives_way_as_well_and_loses_it():
    """`entitled` is to get the place that a borrower has just left; carol's server would fit beside it."""
    cluster = Cluster().node("n", 1).fixed("train", ann="1", carol="0.5").queue("q", "0.5")
    cluster.add(
        sleeping(busy=True, gpus="1"),
        a_job("entitled", "q", "0.5", reserved=(TaskPlacement(node="n", devices=("n-0",)),), nominated=True),
        a_notebook("carol", "0.5"),
    )
    assert decide(cluster.snapshot()).instructions == (
        Resume(workload="nb-ann", placement=(TaskPlacement(node="n", devices=("n-0",)),)),
        Reserve(workload="entitled", placement=()),
    )


def test_who_waits_for_the_rest_of_a_lent_device_keeps_it():
    """`entitled` waits for `leaving`, which has the half of the device that is not the notebook's."""
    cluster = Cluster().node("n", 1).fixed("train", ann="0.5").queue("q", "0.5").queue("z", 0)
    cluster.add(
        sleeping(busy=True),
        stopping(running(a_job("leaving", "z", "0.5"), "n-0")),
        a_job("entitled", "q", "0.5", reserved=(TaskPlacement(node="n", devices=("n-0",)),), nominated=True),
    )
    assert [type(each) for each in decide(cluster.snapshot()).instructions] == [Resume]


def test_the_place_of_a_notebook_that_cannot_come_back_yet_is_given_to_nobody_who_would_stay():
    cluster = Cluster().node("n", 1).fixed("train", ann="1", carol="0.5", dora="0.5")
    cluster.add(sleeping(busy=True, gpus="1"), running(a_notebook("carol", "0.5"), "n-0"), a_notebook("dora", "0.5"))
    assert decide(cluster.snapshot()).instructions == ()


def test_who_waits_for_a_lent_place_keeps_it_if_the_notebook_cannot_come_back_yet():
    cluster = Cluster().node("n", 1).fixed("train", ann="1", carol="0.5").queue("q", "0.5")
    cluster.add(
        sleeping(busy=True, gpus="1"),
        running(a_notebook("carol", "0.5"), "n-0"),
        a_job("entitled", "q", "0.5", reserved=(TaskPlacement(node="n", devices=("n-0",)),), nominated=True),
        a_job("thief", "q", "0.5", submitted=-500),
    )
    assert admitted(decide(cluster.snapshot())) == ["entitled"]


def test_replicas_of_a_borrower_that_gives_way_are_not_released_twice():
    """`wide` needs all of n-1, of which the borrower's second replica has one half and `other` the other half."""
    cluster = Cluster().node("n", 2).fixed("train", ann="0.5").queue("q", 1).queue("z", 0)
    borrower = replace(a_job("borrower", "z", "0.5", tasks=2), min_members=1, elastic=True)
    cluster.add(
        sleeping(busy=True),
        running(borrower, "n-0", "n-1", since=1),
        running(a_job("taken", "q", "0.5", preemptible=False), "n-0"),
        running(a_job("other", "z", "0.5"), "n-1", since=2),
    )
    cluster.queues[1] = replace(cluster.queues[1], quota=1500)
    decision = decide(cluster.add(a_job("wide", "q", 1)).snapshot())
    assert sorted(evicted(decision)) == ["borrower", "other"]


def test_a_borrower_is_told_of_the_notebook_although_other_work_gets_the_rest_of_its_device():
    cluster = Cluster().node("n", 1).fixed("train", ann="0.5").queue("q", "0.5").queue("z", 0)
    cluster.add(sleeping(busy=True), running(a_job("borrower", "z", 1), "n-0"), a_job("entitled", "q", "0.5"))
    decision = decide(cluster.snapshot())
    assert [(i.workload, i.by) for i in decision.instructions if isinstance(i, Evict)] == [("borrower", "nb-ann")]


def test_the_place_that_is_kept_for_a_suspended_notebook_takes_no_second_time_the_cores_that_the_notebook_has_kept():
    """Carol's server cannot give a place back, so it starts beside the kept one."""
    cluster = Cluster().node("n", 2).fixed("train", ann="0.5", carol="1")
    cluster.nodes = [replace(node, cpu_milli=4000) for node in cluster.nodes]
    cluster.add(on_cores(sleeping(), 2500), on_cores(a_notebook("carol", "1"), 1000))
    assert admitted(decide(cluster.snapshot())) == ["nb-carol"]


@pytest.mark.parametrize("how", ["drained", "lost"])
def test_the_devices_in_service_of_a_suspended_notebook_are_kept_while_others_of_it_are_not(how):
    """Carol's server would get the second device, and ann's notebook could not come back when the first one can."""
    cluster = Cluster().node("n", 2).fixed("train", ann="2", carol="1")
    notebook = replace(running(a_notebook("ann", 2), "n-0", "n-1"), suspendable=True, state=State.SUSPENDED)
    snapshot = cluster.add(notebook, a_notebook("carol", "1")).snapshot()
    (node,) = snapshot.nodes
    if how == "drained":
        (node,) = mark_drained([node], {"n-0"})
    else:
        node = replace(node, devices=(replace(node.devices[0], healthy=False), node.devices[1]))
    decision = decide(replace(snapshot, nodes=(node,)))
    assert decision.instructions == ()
    assert why(decision, "nb-carol").why.reason is PendingReason.RESERVED


def test_a_suspended_notebook_is_not_named_to_work_that_may_borrow_from_it():
    cluster = shared().add(sleeping(), running(a_job("borrower", "q", 1), "n-0"), a_job("waits", "z", "0.5"))
    cluster.queues[2] = replace(cluster.queues[2], quota=1000)
    assert why(decide(cluster.snapshot()), "waits").why.blockers == ("borrower",)


def test_a_suspended_notebook_is_not_named_to_work_that_would_fit_beside_it():
    """Carol's older server is in the way of the new one, wherever ann's is suspended."""
    cluster = Cluster().node("n", 2).fixed("train", ann="0.5", carol="0.5")
    cluster.add(sleeping(), running(a_notebook("carol", "0.5", "old"), "n-1"), a_notebook("carol", "0.5"))
    assert why(decide(cluster.snapshot()), "nb-carol").why.blockers == ("nb-carolold",)


def test_of_two_places_that_are_kept_on_a_device_only_those_are_named_that_leave_too_little_room():
    """Ann's server could stay suspended: with the borrower and erin's older server gone, half of the device is left."""
    cluster = Cluster().node("n", 1).fixed("train", ann="0.5", erin="1").queue("q", 1)
    older, newer = (a_notebook("erin", "0.5", name=name, submitted=-5000) for name in ("older", "newer"))
    older = replace(older, reserved=(TaskPlacement(node="n", devices=("n-0",)),))
    cluster.add(sleeping(), running(a_job("borrower", "q"), "n-0"), older, newer)
    assert why(decide(cluster.snapshot()), "nb-erinnewer").why.blockers == ("borrower", "nb-erinolder")


def test_a_notebook_comes_back_beside_a_borrower_of_another_one_that_stays_away():
    """Half of the device is free for bob's quarter; ann's notebook, which is older, keeps its half from nobody here."""
    cluster = Cluster().node("n", 1).fixed("train", ann="0.5", bob="0.25").queue("z", 0)
    bob = replace(running(a_notebook("bob", "0.25"), "n-0"), suspendable=True)
    bob = replace(idle(bob, 4000, busy=True), state=State.SUSPENDED)
    cluster.add(sleeping(), bob, running(a_job("borrower", "z", "0.5"), "n-0"))
    assert [(type(each), each.workload) for each in decide(cluster.snapshot()).instructions] == [(Resume, "nb-bob")]


@pytest.mark.parametrize("saves", [True, False])
def test_a_notebook_comes_back_from_the_job_that_came_last_and_not_from_the_one_beside_which_it_fits(saves):
    """`owner` had the other half before the notebook lent its own, whether or not it saves its state."""
    cluster = shared().queue("y", "0.5").add(sleeping(busy=True))
    owner = running(a_job("owner", "q", "0.5"), "n-0", since=1)
    cluster.add(replace(owner, checkpointed_at=NOW if saves else None))
    cluster.add(running(a_job("borrower", "y", "0.5"), "n-0", since=500))
    assert evicted(decide(cluster.snapshot())) == ["borrower"]


def test_the_job_that_came_last_goes_also_while_a_third_one_stops_there_for_another_reason():
    """Without `leaving`, both others would fit beside the notebook, and the one that saves its state loses least."""
    cluster = Cluster().node("n", 1).fixed("train", ann="0.4").queue("q", 0).add(sleeping(busy=True, gpus="0.4"))
    leaving, owner = (running(a_job(name, "q", "0.3"), "n-0", since=1) for name in ("leaving", "owner"))
    cluster.add(stopping(leaving), replace(owner, checkpointed_at=NOW))
    cluster.add(running(a_job("borrower", "q", "0.3"), "n-0", since=500))
    assert evicted(decide(cluster.snapshot())) == ["borrower"]


def test_a_notebook_comes_back_at_once_beside_a_borrower_that_goes_for_both():
    """Ann's notebook waits for the second device; bob's fits already beside what goes for both of them."""
    cluster = Cluster().node("n", 2).fixed("train", ann="1", bob="0.5").queue("z", 0)
    ann, bob = (replace(running(a_notebook(who, "0.5"), "n-0"), suspendable=True) for who in ("ann", "bob"))
    both = replace(ann.request, devices=2)
    ann = replace(ann, request=both, placement=(TaskPlacement(node="n", devices=("n-0", "n-1")),))
    cluster.add(*(replace(idle(each, 4000, busy=True), state=State.SUSPENDED) for each in (ann, bob)))
    cluster.add(running(a_job("whole", "z"), "n-1"), running(a_job("quarter", "z", "0.25"), "n-0"))
    decision = decide(cluster.snapshot())
    assert [(type(each), each.workload) for each in decision.instructions] == [
        (Resume, "nb-bob"),
        (Evict, "whole"),
        (Evict, "quarter"),
    ]


def test_a_notebook_that_has_the_cores_is_named_although_it_could_be_suspended_and_keep_them():
    cluster = shared().add(on_cores(running(a_notebook("ann", "0.5", suspendable=True), "n-0"), 3000))
    cluster.nodes = [replace(node, cpu_milli=4000) for node in cluster.nodes]
    decision = decide(cluster.add(on_cores(a_job("waits", "q", "0.5"), 2000)).snapshot())
    assert why(decision, "waits").why.blockers == ("nb-ann",)


def test_a_recorded_place_on_a_lent_device_is_not_for_work_that_could_not_give_it_back():
    """Carol's server has waited long for the half that bob's server still had; a quarter of it is lent."""
    cluster = Cluster().node("n", 1).fixed("train", ann="0.25", bob="0.5", carol="0.5")
    waits = replace(a_notebook("carol", "0.5"), reserved=(TaskPlacement(node="n", devices=("n-0",)),))
    cluster.add(sleeping(gpus="0.25"), running(a_notebook("bob", "0.5"), "n-0"), waits)
    assert admitted(run_cycle(cluster.snapshot(), Policy(reserve_after=495), NOW)) == []


def test_a_suspended_notebook_is_named_for_the_cores_that_it_keeps():
    cluster = shared().add(on_cores(sleeping(), 3000))
    cluster.nodes = [replace(node, cpu_milli=4000) for node in cluster.nodes]
    entry = why(decide(cluster.add(on_cores(a_job("waits", "q", "0.5"), 2000)).snapshot()), "waits").why
    assert (entry.reason, entry.blockers) == (PendingReason.NO_CPU_OR_MEMORY, ("nb-ann",))


def test_work_for_which_cores_are_kept_is_named_rather_than_a_suspended_notebook():
    """With dora's server gone, two and a half cores are free, of which two are kept for `first`."""
    cluster = Cluster().node("n", 2).fixed("train", ann="0.5", dora="0.25").queue("z", 0, limit=1)
    cluster.nodes = [replace(node, cpu_milli=5000) for node in cluster.nodes]
    cluster.add(on_cores(sleeping(), 2500), on_cores(running(a_notebook("dora"), "n-1"), 2500))
    place = (TaskPlacement(node="n", devices=("n-1",)),)
    first, second = (on_cores(a_job(name, "z", "0.25"), milli) for name, milli in (("first", 2000), ("second", 1000)))
    cluster.add(replace(first, reserved=place), second)
    decision = run_cycle(cluster.snapshot(), Policy(consolidate=False, reserve_after=495), NOW)
    assert why(decision, "second").why.blockers == ("nb-dora", "first")


def test_an_idle_notebook_that_would_be_stopped_is_warned_for_the_cores_that_it_would_keep_if_suspended():
    """Carol's server fits beside ann's on the device, but not on the node."""
    notebook = on_cores(running(a_notebook("ann", "0.5", suspendable=True), "n-0"), 3000)
    cluster = Cluster().node("n", 1).fixed("train", ann="0.5", carol="0.5")
    cluster.nodes = [replace(node, cpu_milli=4000) for node in cluster.nodes]
    decision = decide(cluster.add(idle(notebook, 4000), on_cores(a_notebook("carol", "0.5"), 2000)).snapshot())
    assert [(type(each), each.workload, each.by) for each in acts(decision)] == [(Warn, "nb-ann", "nb-carol")]


def test_recorded_places_are_compared_only_with_the_notebooks_on_their_devices():
    """The ledger is asked for no more with each notebook that has lent other devices."""
    lenders = tuple(
        replace(sleeping(), id=f"nb{i}", placement=(TaskPlacement(node="n", devices=("n-0",)),)) for i in "ab"
    )
    waits = replace(a_job("waits", "q", preemptible=False), reserved=(TaskPlacement(node="n", devices=("n-1",)),))
    snapshot = Snapshot(
        nodes=(a_node("n", 2),), queues=(a_queue("q", 1), a_queue("build/ann", 1)), workloads=(*lenders, waits)
    )
    index = ClusterIndex(snapshot, Policy())
    begin_cycle(index, NOW)
    assert index.ledger.mark() == 1  # the nomination


def test_a_borrower_gives_way_also_where_the_node_was_renamed_since_the_notebook_started():
    notebook = sleeping(busy=True)
    notebook = replace(notebook, placement=tuple(replace(task, node="old") for task in notebook.placement))
    decision = decide(shared().add(notebook, running(a_job("borrower", "z", 1), "n-0")).snapshot())
    assert evicted(decision) == ["borrower"]


@pytest.mark.parametrize("named", ["expire_at", "promised_until", "kept_until"])
def test_a_time_that_the_owner_was_told_holds_although_the_notebook_was_idle_for_long(named):
    """Also if the warning was withdrawn meanwhile."""

    def told(seconds):
        notebook = replace(idle(running(a_notebook("bob", 1), "n-0"), 9999), suspendable=True)
        notebook = replace(notebook, activity=replace(notebook.activity, **{named: NOW + seconds}))
        cluster = Cluster().node("n", 1).fixed(bob=1).queue("q", 1).add(notebook, a_job("train", "q", 1))
        return decide(cluster.snapshot())

    assert not [each for each in acts(told(1)) if isinstance(each, Suspend)]
    assert [type(each) for each in acts(told(0))] == [Suspend]


@pytest.mark.parametrize(("sampled", "lent"), [(-5, False), (-4, True)])
def test_a_warned_share_is_lent_only_on_a_report_from_after_the_time_named(sampled, lent):
    """A cell that began in the last seconds of the countdown is in no earlier report, and keeps the share."""
    notebook = idle(running(a_notebook("bob", 1), "n-0"), 9999, expire_at=NOW - 4, sampled_at=NOW + sampled)
    cluster = Cluster().node("n", 1).fixed(bob=1).queue("q", 1)
    cluster.add(replace(notebook, suspendable=True), a_job("train", "q", 1))
    assert [type(each) for each in acts(decide(cluster.snapshot()))] == ([Suspend] if lent else [])
