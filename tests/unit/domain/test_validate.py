"""A snapshot that contradicts itself is refused with the object and what was expected."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import Instant, MiB, MilliGpu, Seconds
from jupyter_gq.domain.cluster import NewNodes, Topology
from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.validate import check
from jupyter_gq.domain.workload import Backoff, Kind, Request, TaskGroup, TaskPlacement, TopologyConstraint
from tests.builders import Cluster, a_job, a_node, a_queue, running, stopping

GOOD = (
    Cluster()
    .node("box", 2)
    .queue("top", 2)
    .queue("vision", 1, parent="top")
    .queue("nlp", 1, parent="top")
    .add(
        running(a_job("half", "vision", "0.5"), "box-0"),
        running(a_job("other", "nlp", "0.5"), "box-0"),
        stopping(running(a_job("gang", "nlp", "0.5", tasks=2, min_members=1), "box-1", "box-1")),
        a_job("waits", "vision", 2),
    )
    .snapshot()
)


def job(name):
    return next(w for w in GOOD.workloads if w.id == name)


def with_job(name, **fields):
    changed = [replace(w, **fields) if w.id == name else w for w in GOOD.workloads]
    return replace(GOOD, workloads=tuple(changed))


def with_queues(*queues, drop=()):
    kept = [queue for queue in GOOD.queues if queue.name not in drop]
    return replace(GOOD, queues=(*kept, *queues))


def at(node, *devices, group=""):
    return (TaskPlacement(node=node, devices=devices, group=group),)


def group(name, **fields):
    fields = {"request": Request(devices=1), "tasks": 1, "min_members": 1, **fields}
    return TaskGroup(name=name, **fields)


MORE = NewNodes(pool="train", like=a_node("new", 8), count=2)
RACK = Topology(name="hall", levels=("block", "rack"))

BAD = [
    (with_job("half", request=Request(devices=1, milli_per_device=MilliGpu(600))),
     "1.1 of the device 'box-0' is given away, to 'half', 'other'; at most 1 was expected."),
    (replace(GOOD, nodes=(*GOOD.nodes, a_node("box"))), "there are two of the node 'box'; each was expected once."),
    (replace(GOOD, nodes=(*GOOD.nodes, replace(a_node("b2", 1), devices=a_node("box").devices))),
     "there are two of the device 'box-0'; each was expected once."),
    (replace(GOOD, nodes=(*GOOD.nodes, replace(a_node("b2"), memory=MiB(-1)))),
     "the node 'b2' has memory = -1; 0 or more was expected."),
    (replace(GOOD, nodes=(*GOOD.nodes, a_node("b2", memory=-5))), "the device 'b2-0' has memory = -5"),
    (with_job("waits", backoff=Backoff(until=Instant(0), pause=Seconds(-1), times=1, sentence="")),
     "the workload 'waits' has backoff.pause = -1; 0 or more was expected."),
    (replace(GOOD, unobserved=(Kind.TRAINING, Kind.TRAINING)),
     "there are two of the unobserved kind <Kind.TRAINING: 'TRAINING'>; each was expected once."),
    (replace(GOOD, launch_capacity={Kind.TRAINING: -1}),
     "the launch capacity has of TRAINING = -1; 0 or more was expected."),
    (replace(GOOD, new_nodes=(MORE, MORE)), "there are two of the pool with new nodes, 'train'"),
    (replace(GOOD, new_nodes=(replace(MORE, count=-1),)), "the entry of new nodes of the pool 'train' has count = -1"),
    (replace(GOOD, new_nodes=(replace(MORE, pool="other"),)), "has the device 'new-0' of the pool 'train'"),
    (replace(GOOD, topologies=(RACK, RACK)), "there are two of the topology 'hall'"),
    (with_queues(a_queue("vision")), "there are two of the queue 'vision'"),
    (with_queues(a_queue("x", parent="nope")),
     "the queue 'x' is below 'nope'; expected one of the queues that there are: 'nlp', 'top', 'vision', 'x'."),
    (with_queues(a_queue("x", parent="top", pool="build")),
     "the queue 'x' uses the pool 'build', but 'top' above it uses 'train'; one pool was expected in a whole subtree."),
    (with_queues(a_queue("top", parent="nlp"), drop=("top",)),
     "is above itself (vision -> ..."),
    (with_queues(a_queue("x", parent="x")), "the queue 'x' is above itself (x -> x); a tree was expected."),
    (with_queues(replace(a_queue("x"), quota=MilliGpu(-1))), "the queue 'x' has quota = -1; 0 or more was expected."),
    (with_queues(replace(a_queue("x"), limit=MilliGpu(-1))), "has limit = -1"),
    (with_queues(a_queue("x", reclaim_min_runtime=Seconds(-3))), "has reclaim_min_runtime = -3"),
    (replace(GOOD, usage={"nlp": -1.0}), "the past use has of 'nlp' = -1.0"),
    (with_job("waits", queue="nope"),
     "the workload 'waits' is in the queue 'nope'; expected one of the queues that there are: 'nlp', 'top', 'vision'."),
    (with_job("half", queue="nope"), "the workload 'half' is in the queue 'nope'"),
    (replace(GOOD, workloads=(*GOOD.workloads, job("waits"))), "there are two of the workload 'waits'"),
    (with_job("waits", min_members=2), "the workload 'waits' has min_members = 2; 1 to its 1 tasks was expected."),
    (with_job("waits", min_members=0), "has min_members = 0"),
    (with_job("waits", request=Request(devices=-1)), "the workload 'waits' has devices = -1"),
    (with_job("waits", request=Request(devices=1, milli_per_device=MilliGpu(1500))),
     "asks for 1500 thousandths of each device; 1 to 1000 was expected."),
    (with_job("waits", topology=TopologyConstraint(topology="hall")),
     "the workload 'waits' is placed by the topology 'hall'; there are no topologies."),
    (replace(with_job("waits", topology=TopologyConstraint(topology="hall", required="row")), topologies=(RACK,)),
     "placed by the level 'row'; expected one of the levels of the topology 'hall' that there are: 'block', 'rack'."),
    (with_job("waits", groups=(group("a", parent="b"),)), "the group 'a' of the workload 'waits' is below 'b'"),
    (with_job("waits", groups=(group("a"), group("a"))), "there are two of the group of the workload 'waits', 'a'"),
    (with_job("waits", groups=(group("a", min_members=2),)), "has min_members = 2; 0 to its 1 tasks was expected."),
    (with_job("waits", groups=(group("a", parent="b"), group("b", parent="a"))), "is above itself (a -> b -> a)"),
    (with_job("waits", placement=at("box", "box-0")),
     "the workload 'waits' is PENDING and has a place on 'box'; none was expected."),
    (with_job("half", placement=()), "the workload 'half' is RUNNING with 0 places; 1 to 1 were expected."),
    (with_job("half", placement=at("box")), "holds these devices for a task: none; 1 different ones were expected."),
    (with_job("half", placement=at("gone", "box-0")),
     "the workload 'half' has a task on the node 'gone'; expected one of the nodes that there are: 'box'."),
    (with_job("half", placement=at("box", "b9")),
     "has a task on the node 'box' with the device 'b9'; expected one of the devices of that node that there are:"),
    (with_job("half", groups=(group("a"),), placement=at("box", "box-0", group="z")), "has a task of the group 'z'"),
]  # fmt: skip


def test_a_good_snapshot_passes():
    check(GOOD)
    check(GOOD, live=True)


@pytest.mark.parametrize(("snapshot", "sentence"), BAD)
def test_a_contradiction_is_named_with_what_was_expected(snapshot, sentence):
    with pytest.raises(InvalidSnapshot) as refusal:
        check(snapshot)
    assert sentence.removesuffix("(vision -> ...") in str(refusal.value)


def test_device_memory_is_counted_as_the_part_that_it_makes_of_the_device():
    def sharing(memory):
        return with_job("other", request=Request(devices=1, device_memory=MiB(memory)))

    check(sharing(20_000))
    with pytest.raises(InvalidSnapshot, match=r"1\.01 of the device 'box-0' is given away"):
        check(sharing(20_001))


def test_what_is_suspended_has_given_up_its_bytes():
    snapshot = with_job("half", state=State.SUSPENDED, request=Request(devices=1, milli_per_device=MilliGpu(900)))
    check(snapshot)


def test_a_live_service_may_have_lost_the_queue_the_node_and_the_device_of_running_work():
    for snapshot in (
        with_job("half", placement=at("gone", "box-0")),
        with_job("half", placement=at("box", "b9")),
        replace(with_job("half", queue="old"), vanished=("old",)),
        replace(with_job("waits", queue="old"), vanished=("old",)),
    ):
        check(snapshot, live=True)
    with pytest.raises(InvalidSnapshot):
        check(with_job("half", queue="old"), live=True)
