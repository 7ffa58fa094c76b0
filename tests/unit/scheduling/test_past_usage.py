"""Past use: how it is counted and forgotten, and how it bends what is divided."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.scheduling.policy import Policy, UsageRule
from jupyter_gq.scheduling.quota.fair_share import QueueClaim, divide
from jupyter_gq.scheduling.quota.past_usage import NO_PAST, DecayedUsage, add_entry_cost, advance, past_of
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from tests.builders import Cluster, a_job

DAY = Seconds(86_400)
GPU = 1000


def start(**seconds):
    return DecayedUsage(at=Instant(0.0), seconds=seconds, known_at=Instant(0.0))


def test_half_is_forgotten_after_a_half_life():
    assert advance(start(a=100.0), {}, Instant(DAY), DAY).seconds == pytest.approx({"a": 50.0})


def test_what_is_held_for_a_moment_counts_as_gpu_seconds():
    assert advance(start(), {"a": 2500}, Instant(1.0), DAY).seconds["a"] == pytest.approx(2.5, rel=1e-4)


@given(st.lists(st.floats(1, 50_000), min_size=1, max_size=8))
def test_it_does_not_matter_how_often_one_looks(steps):
    """Safety: a service that looks every second counts as one that was asleep."""
    often = start(a=1000.0)
    for step in steps:
        often = advance(often, {"a": 500}, Instant(often.at + step), DAY)
    once = advance(start(a=1000.0), {"a": 500}, often.at, DAY)
    assert often.seconds == pytest.approx(once.seconds)


def test_what_is_held_for_ever_is_all_of_the_pool():
    cluster = Cluster().node("n", 4).queue("a", 0).queue("b", 0)
    usage = advance(start(), {"a": 3 * GPU, "b": GPU}, Instant(100 * DAY), DAY)
    found = past_of(cluster.with_usage(usage.known).snapshot(), UsageRule(half_life=DAY, weight=0.5))
    assert found.counts == Fraction(1, 2)
    assert found.parts == {"a": Fraction(3, 4), "b": Fraction(1, 4)}


def test_what_is_known_changes_in_steps():
    """Otherwise two queues at the same level would take one GPU from each other in every cycle."""
    usage = advance(start(), {"a": GPU}, Instant(DAY / 20), DAY)
    assert usage.known == {}
    usage = advance(usage, {"a": GPU}, Instant(DAY / 10), DAY)
    assert usage.known == usage.seconds != {}
    later = advance(usage, {"b": GPU}, Instant(DAY / 10 + 60), DAY)
    assert later.known == usage.known != later.seconds


def test_a_burst_of_starts_costs_at_once():
    usage = start()
    for _ in range(10):
        usage = add_entry_cost(usage, "a", 500, Seconds(60))
    assert usage.seconds == {"a": 300.0}
    assert add_entry_cost(usage, "a", 500, Seconds(0)) is usage


def test_a_queue_has_used_what_those_below_it_have_used():
    cluster = Cluster().node("n", 1).queue("top").queue("a", parent="top").queue("b", parent="top")
    found = past_of(
        cluster.with_usage({"a": 0.1 * DAY, "b": 0.2 * DAY, "gone": 9.0}).snapshot(), UsageRule(half_life=DAY)
    )
    assert found.parts["top"] == pytest.approx(found.parts["a"] + found.parts["b"], abs=1e-5)
    assert set(found.parts) == {"top", "a", "b"}


def test_without_a_half_life_nothing_is_remembered():
    snapshot = Cluster().node("n").queue("a").with_usage({"a": 1.0}).snapshot()
    assert past_of(snapshot, UsageRule()) is NO_PAST
    assert past_of(snapshot, UsageRule(half_life=DAY, weight=0)) is NO_PAST


def claim(past=Fraction(0), **fields):
    return QueueClaim(**{"quota": 0, "demand": 100 * GPU, "past": past, **fields})


def test_who_has_used_more_gets_less():
    """w = 1/2 each: 1/2 + (1/2 - 3/4) = 1/4 beside 1/2 + (1/2 - 1/4) = 3/4."""
    assert divide(8 * GPU, [claim(Fraction(3, 4)), claim(Fraction(1, 4))], Fraction(1)) == [2 * GPU, 6 * GPU]


def test_how_much_it_counts_is_adjustable():
    """k = 1/2: 3/8 beside 5/8."""
    assert divide(8 * GPU, [claim(Fraction(3, 4)), claim(Fraction(1, 4))], Fraction(1, 2)) == [3 * GPU, 5 * GPU]


def test_a_part_is_not_negative():
    assert divide(8 * GPU, [claim(Fraction(1)), claim(), claim()], Fraction(1)) == [0, 4 * GPU, 4 * GPU]


def test_the_guarantee_is_not_bent():
    claims = [claim(Fraction(1), quota=3 * GPU), claim(quota=1 * GPU)]
    assert divide(8 * GPU, claims, Fraction(10)) == [3 * GPU, 5 * GPU]


def test_weights_still_count():
    claims = [claim(weight=3), claim(weight=1)]
    assert divide(8 * GPU, claims, Fraction(1)) == [6 * GPU, 2 * GPU]


def test_what_others_do_not_want_goes_to_those_who_used_much():
    claims = [claim(Fraction(1, 2)), claim(demand=1 * GPU)]
    assert divide(8 * GPU, claims, Fraction(1)) == [7 * GPU, 1 * GPU]


def test_a_cycle_divides_by_it():
    cluster = Cluster().node("n", 4).queue("a", 0).queue("b", 0)
    cluster.add(*(a_job(f"{q}{i}", q) for q in "ab" for i in range(4))).with_usage({"a": 3 * DAY})
    for half_life, expected in ((None, [2 * GPU, 2 * GPU]), (DAY, [1 * GPU, 3 * GPU])):
        index = ClusterIndex(cluster.snapshot(), Policy(usage=UsageRule(half_life=half_life)))
        index.accounts.divide()
        assert [index.accounts.of(q).fair_share for q in "ab"] == expected
