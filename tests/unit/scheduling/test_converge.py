"""A limit lowered under running work: what can be paused goes, newest first; what cannot stays."""

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.policy import Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, apply, evicted, running, stopped


def test_the_newest_goes_until_the_limit_holds():
    cluster = Cluster().node("n", 3).queue("q", 0, limit=1)
    cluster.add(*[running(a_job(f"j{i}", "q"), f"n-{i}", since=i) for i in range(3)])
    decision = run_cycle(cluster.snapshot(), Policy(), NOW)
    assert evicted(decision) == ["j2", "j1"]
    assert {i.reason for i in decision.instructions} == {EvictReason.QUOTA_LOWERED}
    assert decision.instructions[0].sentence.startswith("Paused: the limit of q was lowered to 1 GPU.")
    after = stopped(apply(cluster.snapshot(), decision))
    assert run_cycle(after, Policy(), NOW).instructions == ()


def test_a_limit_above_is_obeyed_too_and_other_queues_are_left_alone():
    cluster = Cluster().node("n", 3).queue("d", 0, limit=1).queue("d/a", parent="d").queue("e")
    cluster.add(*[running(a_job(f"a{i}", "d/a"), f"n-{i}", since=i) for i in range(2)])
    cluster.add(running(a_job("e", "e"), "n-2", since=99))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["a1"]


def test_a_notebook_keeps_what_it_was_entitled_to():
    cluster = Cluster().node("n", 1, pool="build").fixed(ann="0.25")
    cluster.add(running(a_notebook("ann", "0.5"), "n-0"))
    assert run_cycle(cluster.snapshot(), Policy(), NOW).instructions == ()


def test_a_lowered_quota_alone_evicts_nobody():
    cluster = Cluster().node("n", 1).queue("q", 0).add(running(a_job("j", "q"), "n-0"))
    assert run_cycle(cluster.snapshot(), Policy(), NOW).instructions == ()


def test_what_a_team_borrows_goes_before_what_another_team_is_entitled_to():
    """The limit of the department was lowered to the sum of its teams' quotas."""
    cluster = Cluster().node("n", 3).queue("d", 2, limit=2).queue("d/a", 1, parent="d").queue("d/b", 1, parent="d")
    cluster.add(*(running(a_job(f"a{i}", "d/a"), f"n-{i}", since=i) for i in range(2)))
    cluster.add(running(a_job("b", "d/b"), "n-2", since=99))
    assert evicted(run_cycle(cluster.snapshot(), Policy(), NOW)) == ["a1"]
