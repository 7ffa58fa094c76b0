"""How much output a job may send: plenty at first, then a steady trickle. Pure; the caller tells the time.

An endless printer would otherwise fill the service's disk: at the slow rate a day is some hundred MiB.
"""

BURST = 2 * 1024 * 1024
FAST_RATE = 64 * 1024
SLOW_RATE = 4 * 1024
#: Bytes after which a job sends at the slow rate only.
SLOW_AFTER = 16 * 1024 * 1024


class Budget:
    """Bytes that may be sent now; it fills up with time and may be overdrawn by what must be sent."""

    def __init__(self, now: float) -> None:
        self._left = float(BURST)
        self._at = now
        self._spent = 0

    def allows(self, size: int, now: float) -> bool:
        """So many bytes may be sent now."""
        rate = FAST_RATE if self._spent < SLOW_AFTER else SLOW_RATE
        self._left = min(float(BURST), self._left + rate * max(0.0, now - self._at))
        self._at = now
        return self._left >= min(size, BURST)

    def spend(self, size: int) -> None:
        """So many bytes were sent."""
        self._left -= size
        self._spent += size
