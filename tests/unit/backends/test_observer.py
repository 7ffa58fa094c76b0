"""A run that cannot be observed hides no other run, and stays as it was seen last."""

import logging

from jupyter_gq.backends.observer import RunObserver
from jupyter_gq.backends.protocol import Observation, Phase
from jupyter_gq.domain.amount import Instant

KEY = ("job-1", 1)
SEEN = Observation(workload="job-1", run=1, phase=Phase.RUNNING, since=Instant(5.0), pids=(7,))


def fails() -> Observation:
    raise RecursionError("too deep")


def test_a_run_that_fails_stays_as_it_was_seen_last_and_is_logged_once(caplog):
    observer = RunObserver()
    assert observer.observe(KEY, Instant(1.0), lambda: SEEN) == SEEN
    with caplog.at_level(logging.ERROR):
        for _ in range(3):
            seen = observer.observe(KEY, Instant(1.0), fails)
    assert (seen.phase, seen.pids) == (Phase.RUNNING, (7,))
    assert "too deep" in seen.sentence
    assert [record.message for record in caplog.records] == ["run 1 of job-1 cannot be observed and is left as it is"]
    assert observer.observe(KEY, Instant(1.0), lambda: SEEN) == SEEN


def test_a_run_that_was_never_observed_counts_as_starting():
    seen = RunObserver().observe(KEY, Instant(1.0), fails)
    assert (seen.phase, seen.since) == (Phase.STARTING, 1.0)
