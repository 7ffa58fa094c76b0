"""What a cluster lacks for a workload: refused with numbers, or said while it waits."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MiB, parse_memory
from jupyter_gq.domain.cluster import Topology
from jupyter_gq.domain.errors import NeverFits
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.workload import Request, TaskGroup, TopologyConstraint
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.preview.admission import check_fits
from jupyter_gq.scheduling.wording import describe_memory
from tests.builders import NOW, Cluster, a_job, a_node, running, why
from tests.explanations import explained

WHERE = Topology(name="where", levels=("rack",))
IN_RACK = TopologyConstraint(topology="where", required="rack")


def cluster():
    """Two racks of two nodes with two GPUs, 8 cores and 32 GiB each."""
    made = Cluster().queue("q", 8)
    for name in ("a1", "a2", "b1", "b2"):
        node = a_node(name, 2)
        made.nodes.append(replace(node, cpu_milli=8000, memory=MiB(32 * 1024), labels={"rack": name[0], "disk": "ssd"}))
    return made


def snapshot(made):
    return replace(made.snapshot(), topologies=(WHERE,))


def job(name="j", tasks=1, topology=None, **request):
    request.setdefault("devices", 1)
    return replace(a_job(name, "q", tasks=tasks), request=Request(**request), topology=topology)


@pytest.mark.parametrize("asked", [{"cpu_milli": 500}, {"memory": MiB(500)}])
def test_nobody_is_told_to_ask_for_nothing_or_less(asked):
    made = Cluster().queue("q", 8)
    node = a_node("bare", 2)
    made.nodes.append(replace(node, cpu_milli=0, memory=MiB(0)))
    with pytest.raises(NeverFits, match=r"Ask your administrator: there is none\.$"):
        check_fits(snapshot(made), job(**asked))


@pytest.mark.parametrize(
    ("workload", "sentence"),
    [
        (
            job(cpu_milli=16_000),
            "You asked for 16 CPU cores beside 1 GPU on one node, but no such node of the pool train has more than "
            "8 CPU cores. Ask for 8 CPU cores or less.",
        ),
        (
            job(devices=0, memory=MiB(64 * 1024)),
            "You asked for 64 GiB of memory, but no such node of the pool train has more than 32 GiB. "
            "Ask for 32 GiB or less.",
        ),
        (
            job(models=("H100", "H200")),
            "You asked for 1 GPU on one node, of the model H100 or H200, but no node of the pool train has that; "
            "it has A100-40GB. Ask for A100-40GB.",
        ),
        (
            job(device_memory=MiB(80 * 1024)),
            "You asked for 80 GiB of GPU memory, but no node of the pool train has it; the largest GPU has 39.06 GiB. "
            "Ask for 39.06 GiB or less.",
        ),
        (
            job(node_labels=(("disk", "hdd"),)),
            "You asked for 1 GPU on one node with disk=hdd, but no node of the pool train that has the rest has that. "
            "Ask your administrator which labels there are.",
        ),
        (
            job(tasks=5, cpu_milli=8000),
            "You asked for 5 tasks of 1 GPU and 8 CPU cores that start together, but the pool train has room for 4 of "
            "them. Ask for 4 tasks or less.",
        ),
        (
            job(tasks=5, topology=IN_RACK),
            "You asked for 5 tasks of 1 GPU in one rack, but no rack of the pool train has room for more than 4 of "
            "them. Ask for 4 tasks or less, or do not require one rack.",
        ),
        (
            job(topology=TopologyConstraint(topology="where", required="room")),
            "You asked for tasks in one room of the topology where, but it has the levels rack. Ask your administrator "
            "which there are.",
        ),
        (
            job(topology=TopologyConstraint(topology="nowhere", required="rack")),
            "You asked for tasks in one rack of the topology nowhere, but there is no such topology. Ask your "
            "administrator which there are.",
        ),
    ],
)
def test_what_can_never_fit_is_refused_with_the_numbers(workload, sentence):
    with pytest.raises(NeverFits) as refused:
        check_fits(snapshot(cluster()), workload)
    assert str(refused.value) == sentence


def test_what_fits_an_empty_cluster_is_not_refused():
    fine = job(tasks=4, topology=IN_RACK, cpu_milli=4000, memory=MiB(1024), models=("A100-40GB",))
    check_fits(snapshot(cluster()), fine)
    check_fits(snapshot(cluster()), job(device_memory=MiB(40_000), node_labels=(("disk", "ssd"),)))


def test_unlike_tasks_that_do_not_go_together_are_refused():
    large = TaskGroup(name="large", request=Request(devices=2), tasks=2, min_members=2, topology=IN_RACK)
    more = TaskGroup(name="more", request=Request(devices=1), tasks=3, min_members=3, topology=IN_RACK)
    all_cores = replace(more, tasks=1, min_members=1, request=Request(devices=1, cpu_milli=8000))
    whole = [replace(all_cores, name=f"whole{number}") for number in range(2)]
    check_fits(snapshot(cluster()), replace(job(), groups=(large, more)))
    with pytest.raises(NeverFits, match=r"cannot take all of them at once"):
        check_fits(snapshot(cluster()), replace(job(), groups=(large, replace(more, tasks=2, min_members=2), *whole)))


def test_it_says_that_it_is_cpu_that_is_short():
    made = cluster()
    for node in ("a1", "a2", "b1", "b2"):
        made.add(running(replace(job(f"on-{node}", cpu_milli=6000), owner="bob"), f"{node}-0"))
    decision = explained(snapshot(made.add(job("new", cpu_milli=4000))), Policy(), NOW)
    found = why(decision, "new").why
    assert found.reason is PendingReason.NO_CPU_OR_MEMORY
    assert reveal(found.sentence).startswith(
        "Waiting: q uses 4 of its 8 guaranteed GPUs and no node with 1 GPU idle has 4 CPU cores free; bob's on-"
    )


def test_it_says_that_no_rack_has_room():
    made = cluster()
    made.add(*(running(replace(job(name), preemptible=False), f"{name}1-0") for name in "ab"))
    decision = explained(snapshot(made.add(job("new", tasks=4, topology=IN_RACK))), Policy(), NOW)
    found = why(decision, "new").why
    assert found.reason is PendingReason.NO_DOMAIN
    assert reveal(found.sentence).startswith(
        "Waiting: q uses 2 of its 8 guaranteed GPUs and 6 GPUs are idle, at most 3 of them in one rack; ann's "
    )


def test_a_rack_that_is_too_small_is_said_while_it_waits():
    found = why(explained(snapshot(cluster().add(job("new", tasks=5, topology=IN_RACK))), Policy(), NOW), "new").why
    assert found.reason is PendingReason.NO_DEVICE
    assert found.sentence == (
        "Waiting: it needs 5 tasks of 1 GPU in one rack, but no rack of the pool train has room for more than 4 of "
        "them at present."
    )


def test_who_is_told_the_most_that_there_is_may_ask_for_it():
    """15.626 GiB is 15.62 and not 15.63."""
    assert describe_memory(16_001) == "15.62 GiB"
    assert parse_memory(describe_memory(16_001)) <= 16_001


def test_a_job_whose_only_device_takes_no_work_says_so():
    made = cluster()
    lost = made.nodes[0]
    made.nodes[0] = replace(lost, devices=(replace(lost.devices[0], healthy=False), lost.devices[1]))
    waiting = job(only_devices=(lost.devices[0].id,))
    decision = run_cycle(made.add(waiting).snapshot(), Policy(), NOW)
    sentence = reveal(why(decision, "j").why.sentence)
    assert "the GPU on which the job was paused" in sentence
    assert sentence.endswith("but that GPU takes no new work at present.")
