"""The rate limit of a job's output: plenty at first, then a slow rate. Pure; the caller passes the time.

Without a limit a program that prints endlessly would fill the service's disk. At the slow rate a job sends some
hundred MiB a day.
"""

#: Bytes that may be sent at once.
BURST = 2 * 1024 * 1024
#: Bytes a second, before and after a job has sent `SLOW_AFTER` bytes.
FAST_RATE = 64 * 1024
SLOW_RATE = 4 * 1024
#: Bytes after which a job sends at the slow rate.
SLOW_AFTER = 16 * 1024 * 1024


class Budget:
    """The number of bytes that may be sent now. The budget grows with time; urgent output may overdraw it."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST)
        self._at = now
        self._spent = 0

    def allows(self, size: int, now: float) -> bool:
        """Return whether `size` bytes may be sent at the time `now`, in seconds of a monotonic clock.

        The budget is first raised for the time since the last call. A full budget allows any size.
        """
        rate = FAST_RATE if self._spent < SLOW_AFTER else SLOW_RATE
        self._left = min(float(BURST), self._left + rate * max(0.0, now - self._at))
        self._at = now
        return self._left >= min(size, BURST)

    def spend(self, size: int) -> None:
        """Record that `size` bytes were sent."""
        self._left -= size
        self._spent += size
