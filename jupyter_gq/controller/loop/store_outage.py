"""How long the store has been away, and for how long that is borne."""

from collections.abc import Callable

from jupyter_gq.domain.errors import StoreAway, StoreUnavailable


class Absence:
    """Counts from the first question without an answer to the first with one."""

    def __init__(self, most: float | None = None, elapsed: Callable[[], float] = lambda: 0.0) -> None:
        """`most`: in seconds; None = it is borne for ever, where no other service could do better.

        `elapsed`: a clock that nobody sets.
        """
        self._most, self._elapsed = most, elapsed
        self._since: float | None = None

    def bear(self, error: StoreUnavailable) -> None:
        """It did not answer. Raises `StoreAway` when that has been so for too long."""
        now = self._elapsed()
        if self._since is None:
            self._since = now
        if self._most is not None and now >= self._since + self._most:
            raise StoreAway(error, now - self._since) from error

    def is_over(self) -> None:
        """It has answered."""
        self._since = None
