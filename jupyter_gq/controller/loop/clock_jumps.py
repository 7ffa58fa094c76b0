"""Jumps of the wall clock: somebody sets it, or the machine sleeps and nobody can do anything meanwhile.

Rules
-----
Records move along: the times since when a run lasts and a notebook is idle, and until when a warning, "Keep it" or a
pause lasts, are stored by the wall clock. After a jump they are moved by its length, so that no job reaches its limit
and no share is taken because of it. Times that only tell when something happened stay.

Between two steps: only a jump while this service runs is seen.

See docs/decisions/0215-measure-what-lasts-by-a-clock-that-nobody-sets.md.
"""

import logging
from collections.abc import Callable
from dataclasses import replace

from jupyter_gq.controller.clock import Clock
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.records.records import Records
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.workload import Activity
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

#: Seconds above which the clocks have not just drifted apart; between two steps a corrected clock drifts far less.
_LEAST = 2.0


class ClockJumps:
    """The watch over the wall clock, beside the clock of the time awake."""

    def __init__(self, clock: Clock, records: Records, move_activity: Callable[[float], None]) -> None:
        """Begin with the clocks as they are; `move_activity` moves times of notebooks that are in memory only."""
        self._clock, self._records, self._move_activity = clock, records, move_activity
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
            moved = (_move_times(record, jump) for record in self._records.unfinished())
            self._records.commit_each([change for change in moved if change is not None])
            self._move_activity(jump)
        self._ahead = ahead


def _move_times(record: Record, jump: float) -> Change | None:
    """Return the change that moves the times of a record by `jump` seconds; None if it has no such time."""
    workload, fields, detail = record.workload, WorkloadChange(), DetailChange()
    if workload.started_at is not None and workload.holds:
        fields["started_at"] = Instant(workload.started_at + jump)
        if workload.checkpointed_at is not None and workload.checkpointed_at > workload.started_at:
            fields["checkpointed_at"] = Instant(workload.checkpointed_at + jump)
    if workload.running_since is not None:
        fields["running_since"] = Instant(workload.running_since + jump)
    if workload.activity is not None:
        fields["activity"] = _move_activity(workload.activity, jump)
    if (backoff := record.detail.backoff) is not None:
        detail["backoff"] = replace(backoff, until=Instant(backoff.until + jump))
    if (refusal := record.detail.unsuspendable) is not None:
        detail["unsuspendable"] = replace(refusal, until=Instant(refusal.until + jump))
    return Change(workload=workload.id, fields=fields, detail=detail) if fields or detail else None


def _move_activity(activity: Activity, jump: float) -> Activity:
    """Return the activity with all of its times moved by `jump` seconds."""
    return replace(
        activity,
        last_active=_move(activity.last_active, jump),
        sampled_at=Instant(activity.sampled_at + jump),
        kept_until=_move(activity.kept_until, jump),
        expire_at=_move(activity.expire_at, jump),
    )


def _move(time: Instant | None, jump: float) -> Instant | None:
    return None if time is None else Instant(time + jump)
