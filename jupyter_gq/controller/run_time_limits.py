"""The longest time that a job may run: that of the job itself, and that of its queue. The smaller one counts.

See docs/decisions/0110-count-the-running-time-of-all-runs.md.
"""

from dataclasses import dataclass

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.mentions import mention
from jupyter_gq.domain.workload import RunTimeLimit, Workload
from jupyter_gq.scheduling.wording import describe_duration

from .caller import Caller
from .settings.config import Settings


@dataclass(frozen=True, kw_only=True, slots=True)
class EffectiveLimit:
    """The limit that counts for a job, with a clause about its origin."""

    seconds: Seconds
    #: Completes "the maximum running time of 90 s".
    origin: str

    @property
    def sentence(self) -> str:
        """The sentence for the owner of a job that has reached the limit."""
        return (
            f"Ended: it reached the maximum running time of {describe_duration(self.seconds)} {self.origin}. "
            "What it saved is kept."
        )


def find_run_time_limit(settings: Settings, workload: Workload) -> EffectiveLimit | None:
    """Return the smaller of the limits of a job and of its queue; None if neither has one."""
    own, of_queue = workload.run_time_limit, settings.max_seconds_of(workload.queue)
    if own is not None and (of_queue is None or own.seconds <= of_queue):
        by = (
            "you" if own.by == workload.owner else mention(own.by, own.by, "a manager of the queue or an administrator")
        )
        return EffectiveLimit(seconds=own.seconds, origin=f"that {by} set for it")
    if of_queue is None:
        return None
    return EffectiveLimit(seconds=of_queue, origin=f"that an administrator set for the queue {workload.queue}")


def make_run_time_limit(seconds: float | None, caller: Caller) -> RunTimeLimit | None:
    """Return the limit that the caller sets for a job; None for None and 0, which limit nothing."""
    return RunTimeLimit(seconds=Seconds(seconds), by=caller.user) if seconds else None
