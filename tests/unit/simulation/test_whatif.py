"""One thing is changed, and all else stays."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import SHARE_LABEL, NewNodes
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Leaving, Stop, TaskPlacement
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import PlacementStrategy, Policy
from jupyter_gq.simulation.whatif import InvalidChange, apply_change, with_nodes
from tests.builders import NOW, Cluster, a_job, a_node, admitted, cordoned, drained


def after(assignment):
    job = a_job("j", "vision", 2)
    job = replace(job, request=replace(job.request, cpu_milli=4000, memory=MiB(1024), models=("H100",)))
    snapshot = Cluster().node("box", 4).queue("vision", 4, cpu_limit=8000).add(job).snapshot()
    (queue,), (job,) = (found := apply_change(snapshot, Policy(), assignment)[0]).queues, found.workloads
    return queue, job.request


@pytest.mark.parametrize(
    ("assignment", "field", "value"),
    [
        ("queue.vision.quota_cpus=16", "cpu_quota", 16_000),
        ("queue.vision.limit_cpus=none", "cpu_limit", None),
        ("queue.vision.quota_memory=2 GiB", "memory_quota", 2048),
        ("queue.vision.limit_memory=512Mi", "memory_limit", 512),
    ],
)
def test_a_queue_gets_other_bounds_of_cpu_and_memory(assignment, field, value):
    assert getattr(after(assignment)[0], field) == value


def test_other_gpus_leave_the_rest_of_the_request_alone():
    _, request = after("job.j.gpus=0.5")
    assert (request.milli, request.cpu_milli, request.memory, request.models) == (500, 4000, 1024, ("H100",))


def test_a_job_gets_gpu_memory_in_place_of_gpus():
    snapshot = Cluster().node("box", 4).queue("vision", 4).add(a_job("j", "vision", 2)).snapshot()
    half = snapshot.nodes[0].devices[0].memory // 2
    (job,) = apply_change(snapshot, Policy(), f"job.j.gpu_memory={half}Mi")[0].workloads
    assert (job.request.devices, job.request.milli, job.request.device_memory) == (1, 500, half)
    assert (job.state, job.placement) == (State.PENDING, ())


def test_a_job_gets_other_cpu_memory_and_model():
    assert after("job.j.cpus=0.5")[1].cpu_milli == 500
    assert after("job.j.memory=3")[1].memory == 3072
    assert after("job.j.gpu_model=A100")[1].models == ("A100",)
    assert after("job.j.gpu_model=none")[1].models == ()


def test_what_is_no_amount_is_refused():
    with pytest.raises(InvalidChange, match=r"job\.j\.cpus cannot be 'four': .* amount of CPU cores"):
        after("job.j.cpus=four")


@pytest.mark.parametrize("shares", [True, False])
def test_a_part_of_a_device_goes_where_devices_can_be_shared_and_whole_devices_anywhere(shares):
    cluster = Cluster().node("new", 4).node("old", 4).queue("vision", 8).add(a_job("whole", "vision", 1))
    part = a_job("part", "vision", "0.5")
    if shares:
        cluster.nodes[1] = replace(cluster.nodes[1], labels=dict([SHARE_LABEL]))
        part = replace(part, request=replace(part.request, node_labels=(("zone", "a"), SHARE_LABEL)))
    snapshot = cluster.add(part).snapshot()

    def labels(assignment):
        return {w.id: w.request.node_labels for w in apply_change(snapshot, Policy(), assignment)[0].workloads}

    zone = (("zone", "a"),) if shares else ()
    label = (SHARE_LABEL,) if shares else ()
    assert labels("job.part.gpus=1")["part"] == zone
    assert labels("job.part.gpus=0.25")["part"] == (*zone, *label)
    assert labels("job.part.cpus=1")["part"] == (*zone, *label)
    assert labels("job.whole.gpus=0.5")["whole"] == label


def test_a_new_node_takes_work_where_the_one_that_it_is_like_does_not():
    cluster = Cluster().node("a", 2).node("b", 2).queue("q", 8).add(*(a_job(f"j{i}", "q", 2) for i in range(3)))
    cluster.nodes[1] = cordoned(cluster.nodes[1])
    *_, new = (snapshot := with_nodes(cluster.snapshot(), 1, 4)).nodes
    assert (new.closed, new.draining, all(device.healthy for device in new.devices)) == ("", False, True)
    assert admitted(run_cycle(snapshot, Policy(), NOW)) == ["j0", "j1", "j2"]


def test_a_new_node_has_no_draining_device_if_the_one_that_it_is_like_has_one():
    cluster = Cluster().node("a", 1).queue("q", 8).add(a_job("j", "q", 2))
    cluster.nodes[0] = drained(cluster.nodes[0], 0)
    *_, new = (snapshot := with_nodes(cluster.snapshot(), 1, 2)).nodes
    assert [(device.healthy, device.draining) for device in new.devices] == [(True, False)] * 2
    assert admitted(run_cycle(snapshot, Policy(), NOW)) == ["j"]


def test_a_new_node_has_all_of_the_room_of_the_one_that_it_is_like():
    cluster = Cluster().node("a", 2).queue("q", 8)
    others = {"cpu_by_others": 1000, "memory_by_others": MiB(40)}
    cluster.nodes[0] = replace(cordoned(cluster.nodes[0]), cpu_milli=3000, memory=MiB(60), **others)
    *_, new = with_nodes(cluster.snapshot(), 1, 4).nodes
    assert (new.cpu_milli, new.memory, new.cpu_by_others, new.memory_by_others) == (8000, 200, 0, 0)


def test_a_new_node_is_rather_like_one_that_takes_work():
    cluster = Cluster().node("a", 2).node("b", 2)
    cluster.nodes = [replace(cluster.nodes[0], labels={"rack": "1"}), cordoned(cluster.nodes[1])]
    assert with_nodes(cluster.snapshot(), 1, 2).nodes[-1].labels == {"rack": "1"}


def test_where_there_is_no_node_a_new_one_is_like_those_that_the_cluster_would_add():
    like = replace(a_node("new", 8), cpu_milli=64_000)
    empty = replace(Cluster().snapshot(), new_nodes=(NewNodes(pool="train", like=like, count=4),))
    (new,) = with_nodes(empty, 1, 8).nodes
    assert (len(new.devices), new.devices[0].pool, new.cpu_milli) == (8, "train", 64_000)
    there = Cluster().node("a", 2).snapshot()
    assert with_nodes(replace(there, new_nodes=empty.new_nodes), 1, 4).nodes[-1].cpu_milli is None


def test_a_job_that_is_restarted_keeps_no_place():
    """Neither the one that it held, nor the tasks that leave, nor what was kept for it."""
    task = TaskPlacement(node="box", devices=("box-0", "box-1"))
    stop = Stop(reason=EvictReason.NODE_EMPTIED, sentence="", by=None, at=NOW, requeue=True)
    job = replace(
        a_job("j", "vision", 2),
        state=State.STOPPING,
        placement=(task,),
        leaving=(Leaving(task=task, stop=stop),),
        reserved=(task,),
        nominated=True,
    )
    snapshot = Cluster().node("box", 4).queue("vision", 4).add(job).snapshot()
    (restarted,) = apply_change(snapshot, Policy(), "job.j.gpus=1")[0].workloads
    kept = (restarted.placement, restarted.leaving, restarted.reserved, restarted.nominated)
    assert kept == ((), (), (), False)


@pytest.mark.parametrize(("fractions", "value"), [(None, "spread"), (PlacementStrategy.PACK, "none")])
def test_a_setting_is_read_by_its_type_and_not_by_its_present_value(fractions, value):
    before = Policy(fraction_placement=fractions, reserve_after=None)
    _, after = apply_change(Cluster().snapshot(), before, f"policy.fraction_placement={value}")
    assert after.fraction_placement == (None if value == "none" else PlacementStrategy.SPREAD)
    _, after = apply_change(Cluster().snapshot(), after, "policy.reserve_after=60")
    _, after = apply_change(Cluster().snapshot(), after, "policy.reservations=0")
    assert (after.reserve_after, after.reservations) == (60, 0)


@pytest.mark.parametrize("wrong", [{"reservations": -1}, {"reclaim_margin": 0.9}])
def test_no_policy_has_a_number_that_is_too_small(wrong):
    with pytest.raises(ValueError, match="expected"):
        Policy(**wrong)
