"""The longest time that a job may run: that of the job itself, and that of its queue. The smaller one counts.

Rules
-----
Queue: the limit of a queue bounds all of its jobs, whoever sends or changes them.

Bound: what a manager of the queue or an administrator sets for the job of another user bounds that user's own choice.
The owner may choose less, and cannot exceed the bound.

See docs/decisions/0110-count-the-running-time-of-all-runs.md.
"""

from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import ManagersOnly
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

    def warn_of(self, expected: Seconds | None) -> str:
        """Return a sentence for the sender of a job that is expected to run longer than the limit; "" if it is not."""
        if expected is None or expected <= self.seconds:
            return ""
        return (
            f"It ends after the maximum running time of {describe_duration(self.seconds)} {self.origin}, sooner than "
            "expected."
        )


def find_run_time_limit(settings: Settings, workload: Workload) -> EffectiveLimit | None:
    """Return the smallest of the limits of a job and of its queue; None if there is none."""
    own, of_queue = find_own_limit(workload), settings.max_seconds_of(workload.queue)
    if own is not None and (of_queue is None or own.seconds <= of_queue):
        return EffectiveLimit(seconds=own.seconds, origin=f"that {_name_setter(workload, own)} set for it")
    if of_queue is None:
        return None
    return EffectiveLimit(seconds=of_queue, origin=f"that an administrator set for the queue {workload.queue}")


def find_own_limit(workload: Workload) -> RunTimeLimit | None:
    """Return the smaller of the limits that were set for this job alone; None if there is none."""
    limits = [limit for limit in (workload.run_time_limit, workload.run_time_bound) if limit is not None]
    return min(limits, key=lambda limit: limit.seconds, default=None)


def make_run_time_limit(seconds: float | None, caller: Caller) -> RunTimeLimit | None:
    """Return the limit that the caller sets for a job; None for None and 0, which limit nothing."""
    return RunTimeLimit(seconds=Seconds(seconds), by=caller.user) if seconds else None


def set_run_time_limit(workload: Workload, seconds: float, caller: Caller, *, overrules: bool) -> Workload:
    """Return the job with a limit of so many seconds, 0 for none; `overrules` says whether the caller may lift a bound.

    A limit that somebody else than the owner sets bounds what the owner can choose. Raises `ManagersOnly` if the owner
    would exceed that bound.
    """
    limit, bound = make_run_time_limit(seconds, caller), workload.run_time_bound
    if caller.user != workload.owner:
        return replace(workload, run_time_limit=None, run_time_bound=limit)
    if bound is None or overrules:
        return replace(workload, run_time_limit=limit, run_time_bound=None)
    if limit is None or limit.seconds > bound.seconds:
        raise ManagersOnly(
            f"The maximum running time of {describe_duration(bound.seconds)} of the job {workload.name!r} was set by "
            f"{_name_setter(workload, bound)}. You can choose a shorter time; only a manager of the queue or an "
            "administrator can raise or lift it."
        )
    return replace(workload, run_time_limit=limit if limit.seconds < bound.seconds else None)


def _name_setter(workload: Workload, limit: RunTimeLimit) -> str:
    """Return who set a limit, in words for the owner of the job."""
    if limit.by == workload.owner:
        return "you"
    return mention(limit.by, limit.by, "a manager of the queue or an administrator")
