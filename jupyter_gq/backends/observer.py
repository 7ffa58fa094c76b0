"""Observing the runs of a backend one by one, so that a run that cannot be observed hides no other."""

import logging
from collections.abc import Callable
from dataclasses import replace

from jupyter_gq.domain.amount import Instant

from .protocol import Observation, Phase

log = logging.getLogger(__name__)


class RunObserver:
    """An observer of runs that keeps the last observation of each, for the time in which a run cannot be observed."""

    def __init__(self) -> None:
        self._last: dict[tuple[str, int], Observation] = {}
        #: The failure of each run that cannot be observed, so that the same failure is logged once.
        self._failures: dict[tuple[str, int], str] = {}

    def observe(self, key: tuple[str, int], since: Instant, look: Callable[[], Observation]) -> Observation:
        """Return what `look` returns; if that fails, log the failure and return the last observation with a sentence.

        `key` is the workload and the number of its run. A run that was never observed counts as starting since `since`.
        """
        try:
            seen = look()
        except Exception as error:  # the defect or the damaged file of one run must not hide the others
            if self._failures.get(key) != repr(error):
                log.exception(
                    "run %d of %s cannot be observed and is left as it is",
                    key[1],
                    key[0],
                    extra={"workload": key[0], "run": key[1]},
                )
            self._failures[key] = repr(error)
            starting = Observation(workload=key[0], run=key[1], phase=Phase.STARTING, since=since)
            told = f"It cannot be observed ({error}), so it is left as it is. Your administrator finds more in the log."
            return replace(self._last.get(key, starting), sentence=told)
        self._failures.pop(key, None)
        self._last[key] = seen
        return seen

    def last(self, key: tuple[str, int]) -> Observation | None:
        """Return the last observation of a run; None before the first one."""
        return self._last.get(key)

    def forget(self, key: tuple[str, int]) -> None:
        """Drop the remembered observation and failure of a run."""
        self._last.pop(key, None)
        self._failures.pop(key, None)
