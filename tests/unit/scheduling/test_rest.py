"""Processors and memory of nodes: limits and quotas of queues, beside those of GPUs."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import NeverFits
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.scheduling.admit.start import try_admit
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.preview.admission import check_fits
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import begin_cycle
from tests.builders import NOW, Cluster, a_job, acts, admitted, evicted, running, why
from tests.outlooks import preview


def needs(job, cores=0, memory=0):
    return replace(job, request=replace(job.request, cpu_milli=1000 * cores, memory=MiB(memory)))


def cluster(cores=8, memory=100, devices=0, **vision):
    found = Cluster().node("box", devices).queue("vision", 4, **vision).queue("nlp", 4, cpu_quota=0, memory_quota=0)
    found.nodes[0] = replace(found.nodes[0], cpu_milli=1000 * cores, memory=MiB(memory))
    return found


def decide(found):
    return run_cycle(found.snapshot(), Policy(), NOW)


def test_a_queue_does_not_exceed_its_limit_of_processors():
    found = cluster(cpu_limit=3000)
    found.add(*(needs(a_job(f"j{i}", "vision", 0, submitted=i), cores=2) for i in range(2)))
    decision = decide(found)
    assert admitted(decision) == ["j0"]
    assert why(decision, "j1").why.reason is PendingReason.QUEUE_LIMIT
    assert why(decision, "j1").why.sentence == (
        "Waiting: the limit of vision is 3 CPU cores, of which it uses 2 CPU cores, and this needs 2 CPU cores."
    )


def test_nor_of_memory():
    found = cluster(memory_limit=MiB(50))
    found.add(*(needs(a_job(f"j{i}", "vision", 0, submitted=i), memory=30) for i in range(2)))
    decision = decide(found)
    assert admitted(decision) == ["j0"]
    assert why(decision, "j1").why.sentence == (
        "Waiting: the limit of vision is 50 MiB of memory, of which it uses 30 MiB, and this needs 30 MiB."
    )


@pytest.mark.parametrize(("limit", "starts"), [(1000, 0), (2000, 2), (3000, 3), (8000, 4)])
def test_work_without_gpus_that_may_start_smaller_gets_no_more_than_the_limit_allows(limit, starts):
    found = cluster(cpu_limit=limit)
    found.add(needs(a_job("j", "vision", 0, tasks=4, min_members=2), cores=1))
    assert sum(len(each.placement) for each in decide(found).instructions) == starts


def test_what_another_queue_uses_above_its_quota_is_taken_back_for_work_that_needs_it():
    found = cluster(cores=4)
    found.add(running(needs(a_job("borrows", "nlp", 0), cores=4)), needs(a_job("wants", "vision", 0), cores=1))
    (instruction,) = acts(decide(found))
    assert (instruction.workload, instruction.sentence) == (
        "borrows",
        "Paused: vision needed its 1 CPU core back. Continues by itself when there is room for it.",
    )


def test_a_queue_that_says_nothing_of_them_is_never_above():
    found = cluster(cores=4)
    found.add(running(needs(a_job("there", "vision", 0), cores=4)), needs(a_job("wants", "nlp", 0), cores=1))
    assert decide(found).instructions == ()


def test_the_taker_stays_within_its_own_quota():
    found = cluster(cores=4, cpu_quota=1000)
    found.add(running(needs(a_job("borrows", "nlp", 0), cores=4)), needs(a_job("wants", "vision", 0), cores=2))
    assert decide(found).instructions == ()


def test_what_needs_only_gpus_takes_no_processors_back():
    found = cluster(cores=4, devices=1)
    found.add(running(needs(a_job("borrows", "nlp", 0), cores=4)), a_job("wants", "vision", 1))
    assert evicted(decide(found)) == []


def test_what_can_never_fit_is_refused():
    found = cluster(cpu_limit=3000)
    with pytest.raises(NeverFits, match="the limit of vision is 3 CPU cores"):
        check_fits(found.snapshot(), needs(a_job("j", "vision", 0), cores=4))


def test_what_others_take_at_present_is_not_held_against_what_is_asked_for():
    found = cluster(cores=8)
    found.nodes[0] = replace(found.nodes[0], cpu_by_others=4000, memory_by_others=MiB(28))
    check_fits(found.snapshot(), needs(a_job("j", "vision", 0), cores=12, memory=128))
    with pytest.raises(NeverFits, match="no such node of the pool train has more than 12 CPU cores"):
        check_fits(found.snapshot(), needs(a_job("j", "vision", 0), cores=13))
    found.add(needs(a_job("j", "vision", 0), cores=12))
    assert "no such node of the pool train has more than 8 CPU cores" in why(decide(found), "j").why.sentence


@pytest.mark.parametrize(
    ("tasks", "changes", "fits"),
    [
        (2, {"cores": 4, "memory": 50}, True),
        (2, {"cores": 5}, False),
        (2, {"memory": 51}, False),
        (3, {"cores": 1}, False),
    ],
)
def test_all_tasks_have_to_fit_together(tasks, changes, fits):
    job = needs(a_job("j", "vision", 1, tasks=tasks), **changes)
    if fits:
        check_fits(cluster(devices=2).snapshot(), job)
    else:
        with pytest.raises(NeverFits, match="room for"):
            check_fits(cluster(devices=2).snapshot(), job)


def test_a_preview_says_what_of_cpu_and_memory_may_be_taken_back():
    found = cluster(devices=1, cpu_quota=3000, memory_quota=MiB(50))
    found.add(running(needs(a_job("there", "vision", 0), cores=2, memory=40)))
    start = "Starts now, {} over your queue's quota; may be paused when nlp needs its GPUs back."

    def told(cores, memory):
        return preview(found.snapshot(), Policy(), NOW, needs(a_job("j", "vision", 0), cores, memory)).sentence

    assert told(1, 10) == "Starts now, within the quota."
    assert told(2, 10) == start.format("1 CPU core")
    assert told(4, 20) == start.format("3 CPU cores and 10 MiB of memory")


def test_a_cycle_takes_back_what_it_counted():
    found = cluster(cpu_limit=3000)
    found.add(*(needs(a_job(f"j{i}", "vision", 0, submitted=i), cores=2) for i in range(2)))
    index = ClusterIndex(found.snapshot(), Policy())
    state = begin_cycle(index, NOW)
    assert try_admit(state.allocations, state.allocations.pending["j0"])
    assert index.accounts.of("vision").host_lasting == (2000, 0)
    state.undo()
    assert index.accounts.of("vision").host_lasting == index.accounts.of("vision").host_used == (0, 0)
