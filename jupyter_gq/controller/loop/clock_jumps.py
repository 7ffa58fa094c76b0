"""Jumps of the wall clock: somebody sets it, or the machine sleeps and nobody can do anything meanwhile.

Rules
-----
Records move along: the times since when a run lasts and a notebook is idle, and until when a warning, "Keep it" or a
pause lasts, are stored by the wall clock. After a jump they are moved by its length, so that no job reaches its limit
and no share is taken because of it. The same holds for the times of forecasts that are compared with waits. Times that
only tell when something happened stay.

Between two steps: only a jump while this service runs is seen.

Nothing in the future: a report that came after the jump, and before the step that saw it, has a time of the new clock.
What has happened is not moved beyond the present.

Times of another clock stay: a machine whose clock was lost starts in the past, and jumps once the clock is set. What is
stored then is far ahead of that clock, because an earlier service wrote it by a right one.

See docs/decisions/0215-measure-what-lasts-by-a-clock-that-nobody-sets.md and
docs/decisions/0401-leave-the-times-that-a-right-clock-wrote.md.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from jupyter_gq.controller.clock import Clock
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.records.records import Records
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.workload import Activity
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

#: Seconds above which the clocks have not just drifted apart; between two steps a corrected clock drifts far less.
_LEAST = 2.0
#: Seconds by which a time may be ahead of the clock that wrote it. "Keep it", warnings and pauses last for hours.
_MOST_AHEAD = 7 * 86400.0


class ClockJumps:
    """The watch over the wall clock, beside the clock of the time awake."""

    def __init__(self, clock: Clock, records: Records, move_more: Sequence[Callable[[float], None]]) -> None:
        """Begin with the clocks as they are; `move_more` move times that are in memory only."""
        self._clock, self._records, self._move_more = clock, records, move_more
        self._ahead = self._measure()

    def _measure(self) -> float | None:
        """Return by how many seconds the wall clock is ahead of the clock of the time awake.

        None if this process was held up between the two readings.
        """
        before, now, after = self._clock.awake(), self._clock.now(), self._clock.awake()
        return now - before if after - before < _LEAST / 2 else None

    def follow(self) -> None:
        """Move the times of unfinished work and of notebooks by the length of a jump since the last call."""
        before, ahead = self._ahead, self._measure()
        if ahead is None:
            return
        jump = 0.0 if before is None else ahead - before
        if abs(jump) >= _LEAST:
            log.warning(
                "the clock was set by %+.0f s, or the machine slept: what lasts goes on without this time", jump
            )
            now = self._clock.now()
            shift = _Shift(jump=jump, latest=now - jump + _MOST_AHEAD, now=now)
            moved = (_move_times(record, shift) for record in self._records.unfinished())
            self._records.commit_each([change for change in moved if change is not None])
            for move in self._move_more:
                move(jump)
        self._ahead = ahead


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shift:
    """The correction of stored times after a jump."""

    jump: float
    #: The latest time that the clock can have written before the jump.
    latest: float
    now: Instant

    def move(self, time: Instant) -> Instant:
        """Return a time moved by the jump; one that another clock has written stays."""
        return time if time > self.latest else Instant(time + self.jump)

    def move_past(self, time: Instant) -> Instant:
        """Return the time of something that has happened, moved by the jump: a report may have come since the jump."""
        return time if time > self.latest else min(self.now, self.move(time))

    def move_optional(self, time: Instant | None) -> Instant | None:
        """Return a time moved by the jump; None if there is none."""
        return None if time is None else self.move(time)


def _move_times(record: Record, shift: _Shift) -> Change | None:
    """Return the change that moves the times of a record; None if it has no such time."""
    workload, fields, detail = record.workload, WorkloadChange(), DetailChange()
    if workload.started_at is not None and workload.holds:
        fields["started_at"] = shift.move(workload.started_at)
        if workload.checkpointed_at is not None and workload.checkpointed_at > workload.started_at:
            fields["checkpointed_at"] = shift.move(workload.checkpointed_at)
    if workload.running_since is not None:
        fields["running_since"] = shift.move(workload.running_since)
    if workload.activity is not None:
        fields["activity"] = _move_activity(workload.activity, shift)
    if (backoff := record.detail.backoff) is not None:
        detail["backoff"] = replace(backoff, until=shift.move(backoff.until))
    if (refusal := record.detail.suspension_refusal) is not None:
        detail["suspension_refusal"] = replace(refusal, until=shift.move(refusal.until))
    if (intent := record.detail.suspension) is not None and intent.since is None:
        # A failure counts if it came after the decision: with a clock that was set back, none would count.
        detail["suspension"] = replace(intent, decided_at=shift.move(intent.decided_at))
    return Change(workload=workload.id, fields=fields, detail=detail) if fields or detail else None


def _move_activity(activity: Activity, shift: _Shift) -> Activity:
    """Return the activity with all of its times moved."""
    return replace(
        activity,
        last_active=None if activity.last_active is None else shift.move_past(activity.last_active),
        sampled_at=shift.move_past(activity.sampled_at),
        kept_until=shift.move_optional(activity.kept_until),
        expire_at=shift.move_optional(activity.expire_at),
        promised_until=shift.move_optional(activity.promised_until),
    )
