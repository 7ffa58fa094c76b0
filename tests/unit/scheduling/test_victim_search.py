"""The places that a victim search clears: the cheapest first, although only those are examined that can be next."""

from dataclasses import replace
from random import Random

import pytest

from jupyter_gq.domain.workload import Request, Workload
from jupyter_gq.scheduling.evict import victim_search
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import NOW, Cluster, a_job, running

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
