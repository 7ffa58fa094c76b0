"""The places that a victim search clears, the cheapest first, and the order in which its victims may go."""

from dataclasses import replace
from random import Random

import pytest

from jupyter_gq.domain.workload import Request, Workload
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Shrink
from jupyter_gq.scheduling.evict import victim_search
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import NOW, Cluster, a_job, a_node, evicted, running

NODES = 6


def full_nodes(random: Random) -> tuple[Allocations, list[Workload]]:
    """Nodes of four devices with jobs of different sizes on all devices but a few, and these jobs in any order."""
    cluster, jobs = Cluster().queue("borrower").queue("owner", 4 * NODES), list[Workload]()
    for node in range(NODES):
        cluster.node(f"n{node}", devices=4)
        free = [f"n{node}-{number}" for number in range(random.randint(3, 4))]
        while free:
            count = random.choice((1, 1, 2, 3))
            taken, free = free[:count], free[count:]
            job = replace(a_job(f"j{len(jobs)}", "borrower"), request=Request(devices=len(taken)))
            jobs.append(running(job, *taken))
    allocations = begin_cycle(ClusterIndex(cluster.add(*jobs).snapshot(), Policy()), NOW).allocations
    random.shuffle(jobs)
    return allocations, jobs


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("devices", [2, 3, 4])
def test_places_come_by_the_number_of_victims_and_then_by_the_last_of_them(seed, devices):
    allocations, jobs = full_nodes(Random(seed))
    wanted = replace(a_job("wide", "owner"), request=Request(devices=devices))
    expected = []
    for node in range(NODES):
        there = [job for job in jobs if job.placement[0].node == f"n{node}"]
        needed = victim_search._needed_for_one_task(allocations, wanted, there, 1)
        if needed:
            expected.append((len(needed), max(jobs.index(job) for job in needed), f"n{node}", needed))
    expected.sort(key=lambda entry: entry[:3])
    found = [needed for needed, _ in victim_search._places_by_cost(allocations, wanted, jobs)]
    assert found == [needed for *_, needed in expected]
    assert found


def test_victims_go_in_an_order_in_which_the_rights_to_gpus_and_to_cores_are_enough():
    """`wide` has a right to the GPU of `single` as long as `e` is above its quota, and to the cores of `large` at last.

    To have it, `sibling` goes too, which leaves its GPU to `d`.
    """
    cluster = Cluster()
    cluster.nodes = [replace(a_node(name, 3), cpu_milli=4000) for name in ("n0", "n1")]
    for name, quota, cores in (("d", 3, 2000), ("a", 3, 2000), ("b", 0, 1000)):
        cluster.queue(name, quota, cpu_quota=cores, parent=None if name == "d" else "d")
    for name, quota, cores in (("e", 3, 2000), ("f", 3, 1000), ("g", 0, 3000)):
        cluster.queue(name, quota, cpu_quota=cores, parent=None if name == "e" else "e")

    def job(name, queue, gpus=1, **fields):
        found = a_job(name, queue, gpus, **fields)
        return replace(found, request=replace(found.request, cpu_milli=1000))

    cluster.add(
        running(job("single", "g"), "n0-1", since=238),
        running(job("other", "g", priority=1), "n1-1", since=261),
        running(job("large", "f", tasks=3, min_members=1, elastic=True), "n1-0", "n0-0", "n0-2", since=242),
        running(job("sibling", "b"), "n1-2", since=300),
        job("wide", "a", 3),
    )
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert evicted(decision) == ["sibling", "single"]
    assert [len(each.placement) for each in decision.instructions if isinstance(each, Shrink)] == [2]
