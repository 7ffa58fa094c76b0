"""Which requests have the same hash, so that one counts as the other's repetition."""

import pytest

from jupyter_gq.controller.requests.request_hash import hash_request

from .world import a_submission


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ({"gpus": "0.50"}, {"gpus": 0.5}),
        ({"gpus": 1}, {"gpus": "1"}),
        ({"cpus": "2", "memory": "2 GiB"}, {"cpus": 2.0, "memory": "2048 MiB"}),
        ({"gpu_memory": 8}, {"gpu_memory": "8 GiB"}),
    ],
)
def test_an_amount_that_is_written_otherwise_makes_no_other_request(first, second):
    assert hash_request(a_submission(**first)) == hash_request(a_submission(**second))
    assert hash_request(a_submission(**first, tasks=2)) != hash_request(a_submission(**second))


def test_a_request_keeps_its_hash_from_release_to_release():
    """A hash that changes here refuses the retries of an update: it needs another number of its way then."""
    known = "1:c808860292833f5dfc72d09c8e1d0152caea944b6441dea7bed8c371e3ac285f"
    assert hash_request(a_submission()) == known
