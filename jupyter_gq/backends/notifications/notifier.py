"""The protocol of a way to notify users, and what it sends."""

from dataclasses import dataclass
from typing import Protocol

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.phases import describe_phase
from jupyter_gq.domain.plain_text import strip_controls


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """The end of a job, or of all jobs of a sweep, as their owner is told."""

    #: Id of the job; the last one that has ended, if the notice is about a sweep.
    job: str
    #: Name of the job, such as that of its notebook, or of the sweep; "" = none.
    name: str
    owner: str
    queue: str
    #: "done", "failed" or "cancelled"; a sweep has failed if one of its jobs has.
    phase: str
    #: Why the job ended, as the panel says it, or how many jobs of the sweep ended in which way; "" = nothing to add.
    sentence: str
    #: From its submission to its end, with the time that it waited.
    took: Seconds
    finished_at: Instant
    #: Whether the job was ended because it reached its maximum running time.
    reached_limit: bool = False
    #: Id of the sweep that has ended; "" = the notice is about one job.
    group: str = ""

    @property
    def subject(self) -> str:
        """A line that says which job ended, and how, or which sweep."""
        if self.group:
            return f"Sweep {_make_line(self.name) or self.group} has ended"
        end = "reached its maximum running time" if self.reached_limit else describe_phase(self.phase)
        return f"Job {_make_line(self.name) or self.job} {end}"


def _make_line(name: str) -> str:
    """Return a name as one line without control characters."""
    return " ".join(strip_controls(name).split())


class Notifier(Protocol):
    """A way to notify users."""

    #: Name of the way, unique among those of one service: "webhook" or "mail".
    name: str

    async def send(self, notice: Notice) -> None:
        """Send a notice to the owner of the job; raise `BackendError` with a sentence if that failed."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class NoticeRule:
    """Which ends of jobs are reported, and by which ways."""

    notifiers: tuple[Notifier, ...] = ()
    #: Phases of ended jobs that are reported.
    phases: frozenset[str] = frozenset()
    #: Jobs that took less time are not reported.
    min_seconds: Seconds = Seconds(0)  # noqa: RUF009 - it is a float
