"""The protection of what is young from deletions by age while the wall clock is wrong, or after it was.

The last time of a deletion is kept in the store, because a machine whose clock was lost usually starts with the wrong
one. Without such a time, as in a database that an older release has filled, the clock may be wrong too.

Rules
-----
- Ahead: after a leap forward nothing is deleted for a day, in which somebody may set the clock right.
- Behind: by such a clock nothing is old. What ends meanwhile looks old once the clock is right, so it counts as having
  ended then.
- Which clock was wrong is not known. A clock that has been behind for a day counts as right from then on, so that the
  next leap forward is a leap.

See docs/decisions/0346-delete-nothing-for-a-day-after-the-clock-leapt.md and
docs/decisions/0400-look-at-the-clock-every-minute.md.
"""

import logging
from dataclasses import dataclass

from pydantic import TypeAdapter

from jupyter_gq.controller.clock import Clock
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.store.protocol import Store

log = logging.getLogger(__name__)

#: Name of the document with the time of the last deletion by age.
_SETTING = "last_sweep"
#: How far the clock may leap: a weekend on which the machine was off is no reason to wait.
MOST_LEAP = Seconds(4 * 86400)
#: How long nothing is deleted, in seconds in which the machine is awake.
HOLD = Seconds(86400)
#: Time between two looks at the clock. A service that ends between two looks has not counted the time since the first.
LOOK_EVERY = Seconds(60)
#: The longest time for which a clock may be behind unseen, such as beside a store that is away.
_UNSEEN = Seconds(3600)


@dataclass(slots=True)
class _Memory:
    """The times that a service stores for its next start, by the wall clock, in seconds since the epoch."""

    #: The last deletion; None = it is not known.
    at: float | None = None
    #: Seconds awake for which the clock was ahead of what it should be by `at`, and behind it.
    held: float = 0.0
    held_behind: float = 0.0
    #: First and last time that a clock showed which was behind; None = none was.
    behind: tuple[float, float] | None = None
    #: The same of earlier times, and when the clock was right again.
    spared: tuple[float, float, float] | None = None


_MEMORY = TypeAdapter(_Memory)


class DeletionHold:
    """The watch over leaps of the wall clock between two deletions by age."""

    def __init__(self, clock: Clock, store: Store) -> None:
        self._clock, self._store = clock, store
        self._memory: _Memory | None = None
        #: The time awake at the last deletion by this service, or at its beginning.
        self._reference = clock.awake()
        #: Whether the clock is behind, and up to which time awake that is counted; None = it does not differ.
        self._counted: tuple[bool, float] | None = None

    def may_delete(self) -> bool:
        """Return whether what is old by the wall clock may be deleted now; call this before each deletion by age.

        Returns False for a day after the clock leapt forward by more than `MOST_LEAP`. The same holds if the time of
        the last deletion is not known. The day is measured in time awake, and counts on after a restart. If the time of
        the last deletion is known, a clock that is set right again ends the wait at once. Returns True while the clock
        is behind, as nothing is old then.

        Call this every `LOOK_EVERY` seconds too, as each call stores what the next call compares the clock with.
        """
        now, awake = self._clock.now(), self._clock.awake()
        memory = self._read()
        leap = None if memory.at is None else (now - memory.at) - (awake - self._reference)
        if leap is not None and leap < -MOST_LEAP:
            first, _ = memory.behind or (now - _UNSEEN, now)
            memory.behind = (first, now + _UNSEEN)
            if not self._waits(awake, is_behind=True, told=f"the clock is {-leap / 86400:.0f} days behind"):
                self._trust(now, awake)
            self._save()
            return True
        if leap is None or leap > MOST_LEAP:
            ahead = "it is not known" if leap is None else f"the clock is {leap / 86400:.0f} days further than"
            told = f"{ahead} when old work was last deleted: nothing is deleted for a day"
            if self._waits(awake, is_behind=False, told=told):
                self._save()
                return False
        if memory.behind is not None:
            first, last = memory.behind
            former = memory.spared or (first, last, now)
            memory.behind, memory.spared = None, (min(first, former[0]), max(last, former[1]), now)
        self._trust(now, awake)
        self._save()
        return True

    def count_from(self, ended: Instant) -> Instant:
        """Return the time from which to count the age of work that ended when the clock showed `ended`.

        If the clock may have been behind then, this is the time at which the clock was found right again.
        """
        first, last, since = self._read().spared or (0.0, 0.0, 0.0)
        return Instant(max(ended, since)) if first <= ended <= last else ended

    def _waits(self, awake: float, *, is_behind: bool, told: str) -> bool:
        """Return whether the clock has been behind, or ahead, for less than a day awake in all; say so at first."""
        memory = self._read()
        if self._counted is None or self._counted[0] is not is_behind:
            self._counted = is_behind, awake
            # A new installation has no memory either, and nothing that is old.
            log.log(logging.INFO if memory.at is None else logging.WARNING, "%s. Check the clock of this machine", told)
        more, self._counted = awake - self._counted[1], (is_behind, awake)
        if is_behind:
            memory.held_behind += more
            return memory.held_behind < HOLD
        memory.held += more
        return memory.held < HOLD

    def _trust(self, now: float, awake: float) -> None:
        """Take the clock for right from now on."""
        memory = self._read()
        memory.at, memory.held, memory.held_behind = now, 0.0, 0.0
        self._reference, self._counted = awake, None

    def _read(self) -> _Memory:
        """Return the memory, which is read from the store once."""
        if self._memory is None:
            self._memory = _MEMORY.validate_python(self._store.setting(_SETTING) or {})
        return self._memory

    def _save(self) -> None:
        self._store.put_setting(_SETTING, _MEMORY.dump_python(self._read(), mode="json"))
