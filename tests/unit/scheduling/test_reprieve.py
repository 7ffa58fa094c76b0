"""Victims whose preemptor got no place in the end stay, unless other work has itself the right to their places."""

from dataclasses import replace

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Request, TaskPlacement
from jupyter_gq.scheduling.admit.start import try_nominate
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict, Reserve, Shrink
from jupyter_gq.scheduling.evict.reprieve import reprieve_victims
from jupyter_gq.scheduling.idle.lending import resume_notebooks
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import NOW, Cluster, a_job, a_notebook, evicted, running


def cores(job, count=1, **request):
    return replace(job, request=replace(job.request, cpu_milli=1000 * count, **request))


def crowd() -> Cluster:
    """Elastic and other jobs of queues without a quota, on all devices and all processors of two nodes.

    Queue `e` is guaranteed all GPUs, but one processor only, and `d` two.
    """
    cluster = Cluster().node("m", 4).node("n", 2)
    cluster.nodes = [replace(node, cpu_milli=1000 * len(node.devices)) for node in cluster.nodes]
    cluster.queue("d", 0, over_quota_weight=2, cpu_quota=2000).queue("d/a", 0, parent="d", over_quota_weight=0)
    cluster.queue("d/b", 0, parent="d").queue("e", 6, cpu_quota=1000)
    grows = {"tasks": 2, "min_members": 1, "elastic": True, "priority": 1}
    late, early = a_job("late", "d/b", **grows), a_job("early", "d/a", submitted=3, **grows)
    cluster.add(running(cores(late), "m-2", "n-1", since=369))
    cluster.add(running(cores(a_job("rigid", "d/a", submitted=1, priority=1)), "m-1", since=130))
    host = replace(cores(a_job("host", "d/a", submitted=2)), request=Request(devices=0, cpu_milli=1000))
    host = running(host, since=250)
    cluster.add(replace(host, placement=(TaskPlacement(node="m", devices=()),)))
    return cluster.add(running(cores(early), "n-0", "m-0", since=101))


def test_nobody_is_stopped_for_work_that_lost_its_place_nor_for_what_only_fits_into_the_room():
    """`wide` would be stopped for one of its own victims; `host-only` has no right to the processors of two victims."""
    cluster = crowd()
    fixed = {"preemptible": False}
    only = replace(a_job("host-only", "e", submitted=4, **fixed), request=Request(devices=0, cpu_milli=2000))
    cluster.add(only, cores(a_job("narrow", "e", submitted=5, **fixed)))
    cluster.add(cores(a_job("wide", "e", 4, submitted=6, priority=1)))
    told = run_cycle(cluster.snapshot(), Policy(consolidate=False), NOW).instructions
    assert [(each.workload, each.by) for each in told if isinstance(each, Evict | Shrink)] == [("late", "narrow")]


def test_a_larger_run_does_not_stay_beside_what_its_smaller_one_left_room_for_under_a_limit():
    """`wide` would go on with one of its two tasks; with both, `entitled` exceeds the limit of the department."""
    cluster = Cluster().node("m", 1).node("n", 1).node("o", 2).queue("d", "2.25", limit=3)
    cluster.queue("d/a", "0.25", parent="d").queue("d/b", 2, parent="d")
    cluster.add(running(a_job("wide", "d/a", "0.7", tasks=2, min_members=1, priority=1), "m-0", "n-0"))
    cluster.add(a_job("junior", "d/a", submitted=1), a_job("entitled", "d/b", 2, submitted=2))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["wide"]


def test_earlier_work_of_the_queue_inherits_the_place_of_a_lost_preemptor():
    """`narrow` may reclaim; `tasks`, of a higher priority, need too many processors for that, and get the place."""
    cluster = Cluster().node("m", 4).queue("own", 4, cpu_quota=2000).queue("other", 0)
    cluster.nodes = [replace(node, cpu_milli=5000) for node in cluster.nodes]
    borrows = a_job("borrows", "other", tasks=2, min_members=1, elastic=True)
    cluster.add(running(cores(borrows), "m-3", "m-2", since=62), running(cores(a_job("runs", "own")), "m-1", since=11))
    cluster.add(cores(a_job("tasks", "own", tasks=3, submitted=5, priority=1)))
    cluster.add(cores(a_job("narrow", "own", 3, submitted=6)))
    told = run_cycle(cluster.snapshot(), Policy(consolidate=False), NOW).instructions
    assert [each.workload for each in told if isinstance(each, Evict | Shrink)] == ["borrows"]
    assert [each.workload for each in told if isinstance(each, Reserve) and each.nominated] == ["tasks"]


def test_work_beside_a_victim_that_stays_keeps_the_place_that_it_may_borrow():
    """`intruder` has no right to the victim's GPU, and `borrower` is on the GPU that a notebook has lent."""
    notebook = replace(running(a_notebook("ann", 1, suspendable=True), "n-0"), state=State.SUSPENDED)
    cluster = Cluster().node("n", 2).fixed("train", ann="1").queue("q", 1).queue("z", 0)
    cluster.add(notebook, running(a_job("victim", "z"), "n-1"), a_job("preemptor", "q"))
    cluster.add(a_job("intruder", "z"), a_job("borrower", "z"))
    index = ClusterIndex(cluster.snapshot(), Policy())
    state = begin_cycle(index, NOW)
    allocations, evictions = state.allocations, state.evictions
    resume_notebooks(index, allocations, state.reservations, evictions)
    victim = index.workloads["victim"]
    allocations.release(victim)
    evictions.evict(victim, EvictReason.RECLAIMED, "preemptor", "Paused.")
    assert try_nominate(allocations, allocations.pending["intruder"])
    assert try_nominate(allocations, allocations.pending["borrower"])
    reprieve_victims(state.inputs, allocations, state.reservations, evictions)
    assert (list(evictions.evicted), list(allocations.nominated)) == ([], ["borrower"])


def test_a_notebook_within_its_quota_keeps_a_place_of_a_queue_that_is_above_its_own():
    """The victims of a lost preemptor bring `z` above its quota by one GPU, which is that of the notebook."""
    cluster = Cluster().node("n", 2).fixed("train", ann="1").queue("q", 0).queue("z", 1)
    cluster.add(running(a_job("first", "z"), "n-0"), running(a_job("second", "z"), "n-1"))
    cluster.add(a_job("preemptor", "q"), a_notebook("ann", 1))
    index = ClusterIndex(cluster.snapshot(), Policy())
    state = begin_cycle(index, NOW)
    allocations, evictions = state.allocations, state.evictions
    for name in ("first", "second"):
        allocations.release(index.workloads[name])
        evictions.evict(index.workloads[name], EvictReason.RECLAIMED, "preemptor", "Paused.")
    place = index.workloads["second"].placement
    assert allocations.nominate_at(allocations.pending["nb-ann"], place)
    reprieve_victims(state.inputs, allocations, state.reservations, evictions)
    assert (list(evictions.evicted), allocations.nominated) == (["second"], {"nb-ann": place})


def test_a_replica_does_not_go_for_work_of_its_own_queue_when_its_preemptor_gets_no_place():
    """`wants` needs the room of a replica and cores of `rigid`; `newer` of their queue would get most of that room."""
    cluster = Cluster().node("n", 3).queue("d", "2.5").queue("d/a", 1, parent="d").queue("d/b", "1.5", parent="d")
    cluster.nodes = [replace(node, cpu_milli=2000) for node in cluster.nodes]
    grows = {"min_members": 1, "elastic": True}
    cluster.add(running(a_job("wide", "d/b", "0.3", tasks=2, **grows), "n-0", "n-0", since=928))
    cluster.add(running(cores(a_job("host", "d/a", "0.25", submitted=1)), "n-1", since=929))
    half = Request(devices=1, milli_per_device=500, cpu_milli=500)
    rigid = a_job("rigid", "d/b", submitted=2, priority=1)
    cluster.add(running(replace(rigid, request=replace(rigid.request, cpu_milli=500)), "n-2", since=931))
    cluster.add(a_job("newer", "d/b", "0.7", tasks=2, submitted=3))
    cluster.add(replace(a_job("wants", "d/a", tasks=3, min_members=2, submitted=4), request=half))
    assert run_cycle(cluster.snapshot(), Policy(), NOW).instructions == ()
