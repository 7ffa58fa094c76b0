"""The times at which jobs saved their state, by the clock of the service. Pure but for what it remembers.

Rules
-----
- Told: a run tells when the newest file of its checkpoints was written, as the file says. That file may have been
  copied with its time, and the clock of its machine may be another than that of the service.
- Between two heartbeats: if a run tells another time than before, it saved its state since its last heartbeat.
- Known again: a time that was told before means the same state, as when a newer file was deleted. That also holds if
  what is stored is older or nothing, as after an outage of the database.
- A jump of the clock: the times move along. What is stored was moved by the rules of all records, so it is believed.
- Unknown: the first heartbeat of a run, and the first one after a restart of the service, are believed as far as they
  are not in the future. No later state than the one that is stored is lost by that.
"""

from collections import OrderedDict
from dataclasses import dataclass, field

from jupyter_gq.domain.amount import Instant

#: Most jobs, and most times of each, that are remembered. After more, the first rule for what is unknown holds.
_MOST_JOBS, _MOST_TIMES = 10_000, 10


@dataclass(slots=True)
class _Heard:
    """The heartbeats of one job."""

    run: int
    #: When the last heartbeat came.
    at: Instant
    #: Times by the clock of the service, by those that were told; the last one is that which is stored.
    times: OrderedDict[float, Instant] = field(default_factory=OrderedDict)
    #: Whether the clock has jumped since the last heartbeat.
    has_jumped: bool = False


class SavedTimes:
    """The times that the heartbeats of jobs told."""

    def __init__(self) -> None:
        self._heard: OrderedDict[str, _Heard] = OrderedDict()

    def note(self, job: str, run: int, told: float | None, stored: Instant | None, now: Instant) -> Instant | None:
        """Record a heartbeat that came at `now`; return when the job last saved its state, None = never.

        `told` is the time of its newest checkpoint as the run says, and `stored` what was known before.
        """
        heard = self._heard.pop(job, None)
        since = heard.at if heard is not None and heard.run == run else None
        heard = heard or _Heard(run, now)
        if heard.has_jumped and heard.times and stored is not None:
            heard.times[next(reversed(heard.times))] = stored
        heard.has_jumped = False
        heard.run, heard.at = run, now
        self._heard[job] = heard
        if len(self._heard) > _MOST_JOBS:
            self._heard.popitem(last=False)
        if told is None:
            return stored
        if told in heard.times:
            heard.times.move_to_end(told)
            saved = heard.times[told]
            return saved if saved == stored else min(now, saved)  # what is stored still moves with a jump of the clock
        saved = Instant(min(now, told if since is None else max(told, since)))
        if since is None and stored is not None:
            saved = max(saved, stored)
        heard.times[told] = saved
        if len(heard.times) > _MOST_TIMES:
            heard.times.popitem(last=False)
        return saved

    def move(self, jump: float) -> None:
        """Move all times by a jump of the clock, in seconds; call this when what is stored has been moved."""
        for heard in self._heard.values():
            heard.at = Instant(heard.at + jump)
            for told, time in heard.times.items():
                heard.times[told] = Instant(time + jump)
            heard.has_jumped = True
