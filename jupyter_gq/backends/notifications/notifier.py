"""The protocol of a way to notify users, and what it sends."""

from dataclasses import dataclass
from typing import Protocol

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.phases import describe_phase
from jupyter_gq.domain.plain_text import strip_controls


@dataclass(frozen=True, kw_only=True, slots=True)
class Notice:
    """The end of a job, as its owner is told."""

    job: str
    #: Name of the job, such as that of its notebook; "" = none.
    name: str
    owner: str
    queue: str
    #: "done", "failed" or "cancelled".
    phase: str
    #: Why the job ended, as the panel says it; "" = nothing to add.
    sentence: str
    #: From its submission to its end, with the time that it waited.
    took: Seconds
    finished_at: Instant
    #: Whether the job was ended because it reached its maximum running time.
    reached_limit: bool = False

    @property
    def subject(self) -> str:
        """A line that says which job ended, and how."""
        end = "reached its maximum running time" if self.reached_limit else describe_phase(self.phase)
        return f"Job {' '.join(strip_controls(self.name).split()) or self.job} {end}"


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
