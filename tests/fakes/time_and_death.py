"""Time that stands still, names that are counted, and the death of the service at a chosen place."""

import asyncio
from typing import Any

from jupyter_gq.domain.amount import Instant


class FixedClock:
    """Stands still until it is moved."""

    def __init__(self, now: float = 1_000_000.0) -> None:
        self._now = now
        self._elapsed, self._awake = 0.0, 500.0

    def now(self) -> Instant:
        return Instant(self._now)

    def elapsed(self) -> float:
        """What waits inside a request or a loop waits in real time, too."""
        return asyncio.get_running_loop().time() + self._elapsed

    def awake(self) -> float:
        return self._awake

    def forward(self, seconds: float) -> None:
        self.sleep(seconds)
        self._awake += seconds

    def sleep(self, seconds: float) -> None:
        """The machine sleeps: the time passes, and nobody can do anything in it."""
        self.set(seconds)
        self._elapsed += seconds

    def set(self, seconds: float) -> None:
        """Somebody sets the wall clock forward, or back."""
        self._now += seconds


class ServiceKilled(BaseException):
    """`kill -9` of the service at this very instant; no `except Exception` sees it."""


class Fuse:
    """Burns down by one at each place where the service could be killed; at zero it is."""

    def __init__(self) -> None:
        self.left: int | None = None

    def light(self, places: int) -> None:
        self.left = places

    def burn(self) -> None:
        if self.left is None:
            return
        self.left -= 1
        if self.left < 0:
            self.left = None
            raise ServiceKilled


def counting(prefix: str = "") -> Any:
    """A factory of ids in order, in place of random ones."""
    count = iter(range(1, 1_000_000))
    return lambda: f"{prefix}{next(count)}"
