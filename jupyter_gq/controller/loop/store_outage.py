"""The time for which the store has not answered, and the longest time that is allowed."""

from collections.abc import Callable

from jupyter_gq.domain.errors import StoreAway, StoreUnavailable


class StoreOutage:
    """The outage of the store: it lasts from the first question without an answer to the next answer."""

    def __init__(self, most: float | None = None, elapsed: Callable[[], float] = lambda: 0.0) -> None:
        """Start without an outage; `most` is the longest allowed one in seconds, None = any length.

        None is for a service that no other one can replace. `elapsed` is a monotonic clock in seconds.
        """
        self._most, self._elapsed = most, elapsed
        self._since: float | None = None

    def record_failure(self, error: StoreUnavailable) -> None:
        """Record that the store did not answer; raise `StoreAway` once the outage has lasted for `most` seconds."""
        now = self._elapsed()
        if self._since is None:
            self._since = now
        if self._most is not None and now >= self._since + self._most:
            raise StoreAway(error, now - self._since) from error

    def end(self) -> None:
        """Record that the store has answered, which ends the outage."""
        self._since = None
