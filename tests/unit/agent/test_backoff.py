"""Attempts at a service that is away become rarer, and not all at the same moment."""

from jupyter_gq.agent.backoff import Backoff


def test_each_wait_is_twice_the_one_before_up_to_the_most():
    backoff = Backoff(lambda: 1.0, first=1, most=5)
    assert [backoff.next() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert backoff.next() == 1


def test_chance_takes_at_most_half_of_it():
    assert [Backoff(lambda at=at: at, first=4).next() for at in (0.0, 0.5, 1.0)] == [2, 3, 4]
