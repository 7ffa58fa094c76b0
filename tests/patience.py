"""How long tests wait for real processes: deadlines that follow the speed of the machine.

Deadlines are written in seconds of a quiet machine with processors that are fast enough. `slowness()` is the factor for
this machine at this moment. A wait ends when its condition holds, so a long deadline costs time only when a test fails.
Times of the product, such as a lease or a grace time, are settings and do not follow the machine.
"""

import asyncio
import functools
import os
import time
from collections.abc import Callable
from typing import Any

#: Seconds for everything that has no reason for another number.
PATIENCE = 120.0
#: Seconds of processor time for the sample where the deadlines were chosen.
_REFERENCE = 0.025
#: Seconds after which the machine is measured anew.
_LOOKS_AGAIN = 5.0
#: Above this factor the machine is regarded as stuck.
_SLOWEST = 30.0


def slowness() -> float:
    """Return how much slower than a quiet, fast machine this one is at the moment: from 1 to 30."""
    return _slowness_in(int(_clock() / _LOOKS_AGAIN))


@functools.lru_cache(maxsize=1)
def _slowness_in(_period: int) -> float:
    return compute_slowness(os.getloadavg()[0] / count_processors(), _sample(), _fewest_seconds())


def compute_slowness(load: float, sample: tuple[float, float], fastest: float) -> float:
    """Return the factor for a machine.

    `load`: programs that want to run, for each processor. `sample`: seconds of processor time that a sample took, and
    those that passed. `fastest`: seconds of processor time of the fastest sample.
    """
    spent, passed = sample
    crowd = max(1.0, load, passed / spent)
    return min(_SLOWEST, crowd * max(1.0, fastest / _REFERENCE))


def scaled(seconds: float) -> float:
    """Return the seconds that this machine needs at the moment for what a quiet, fast one does in `seconds`."""
    return seconds * slowness()


class Deadline:
    """A deadline that begins now, in seconds of a quiet machine; while the machine is slow it moves away.

    `promised`: seconds before it that do not follow the machine, because a setting of the product decides them.
    """

    def __init__(self, seconds: float = PATIENCE, *, promised: float = 0.0) -> None:
        self.seconds, self.promised = seconds, promised
        self._began = _clock()

    def is_over(self) -> bool:
        """Return whether the time is over. The machine is looked at only when it would be over on a quiet one."""
        waited = self.waited() - self.promised
        return waited > self.seconds and waited > scaled(self.seconds)

    def waited(self) -> float:
        """Return the seconds since the beginning."""
        return _clock() - self._began

    def describe(self, what: str | Callable[[], str]) -> str:
        """Return the message for the failure of a wait for `what` (a text, or a function that returns one)."""
        told = what() if callable(what) else what
        return f"not seen within {self.waited():.0f} s (on a quiet machine {self.promised + self.seconds:g} s): {told}"


def until(condition: Callable[[], Any], what: Any = "", seconds: float = PATIENCE, every: float = 0.05) -> Any:
    """Return the first true answer of `condition()`; fail with `what` (a text, or a function that returns one)."""
    deadline = Deadline(seconds)
    while not (found := condition()):
        assert not deadline.is_over(), deadline.describe(what)
        time.sleep(every)
    return found


async def eventually(
    condition: Callable[[], Any],
    what: Any = "",
    seconds: float = PATIENCE,
    every: float = 0.05,
    *,
    promised: float = 0.0,
) -> Any:
    """Return the first true answer of `condition()`, which may be a coroutine function; fail as `until` does.

    `promised` is as in `Deadline`.
    """
    deadline = Deadline(seconds, promised=promised)
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert not deadline.is_over(), deadline.describe(what)
        await asyncio.sleep(every)


def _sample() -> tuple[float, float]:
    """Compute for some hundredths of a second; return the seconds of processor time, and those that passed."""
    began, spent = _clock(), time.thread_time()
    total = 0
    for number in range(300_000):
        total += number * number % 7
    spent = max(time.thread_time() - spent, 1e-6)
    return spent, max(_clock() - began, spent)


@functools.cache
def _fewest_seconds() -> float:
    """Return the processor time of the fastest of some samples: the speed of a processor, whatever else runs."""
    return min(_sample()[0] for _ in range(5))


def count_processors() -> int:
    """Return the number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _clock() -> float:
    return time.monotonic()  # noqa: TID251 - real processes are waited for
