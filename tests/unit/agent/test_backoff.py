"""The backoff doubles up to its maximum, and a random part spreads the attempts of many agents."""

from jupyter_gq.agent.backoff import ExponentialBackoff


def test_wait_doubles_up_to_the_maximum_until_a_success():
    backoff = ExponentialBackoff(lambda: 1.0, first=1, longest=5)
    assert [backoff.next() for _ in range(5)] == [1, 2, 4, 5, 5]
    backoff.reset()
    assert backoff.next() == 1


def test_random_part_takes_at_most_half_of_the_wait():
    assert [ExponentialBackoff(lambda at=at: at, first=4).next() for at in (0.0, 0.5, 1.0)] == [2, 3, 4]
