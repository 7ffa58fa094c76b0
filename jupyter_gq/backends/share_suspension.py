"""The suspension of shares as the controller sees it: a backend that has it moves GPU state to host memory.

Rules
-----
- Started, not awaited: `suspend` and `resume` return at once; the next observations show the phase of the share.
- Idempotent: a repeated call changes nothing while the first one is carried out, nor after it was.
- Verified: a share is SUSPENDED only once its memory has left the devices, and IN_USE again only once all is back.
- Undone: `resume` during SUSPENDING undoes the suspension as soon as that is possible.
- Facts, not memory: after a restart of the service the phase comes from the journal and the driver, and is None until
  these were read.

See docs/decisions/0121-suspend-shares-level-triggered.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from jupyter_gq.domain.amount import Instant, MiB, Seconds


class SharePhase(StrEnum):
    """The phases of the share of a run."""

    IN_USE = "IN_USE"
    SUSPENDING = "SUSPENDING"  # the state is on its way to host memory; the devices are not free
    SUSPENDED = "SUSPENDED"
    RESUMING = "RESUMING"  # the state is on its way back


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareState:
    """The present phase of a share, and how its last suspension or resume went."""

    phase: SharePhase
    #: Why the last attempt to suspend or resume the share failed, for the owner; "" = it did not fail.
    failure: str = ""
    #: When that attempt failed; None = it did not fail.
    failed_at: Instant | None = None
    #: Memory that the last suspension moved to host memory; None = unknown, or never suspended.
    memory: MiB | None = None
    #: Duration of the last completed suspension or resume; None = unknown, or none was completed.
    seconds: Seconds | None = None
    #: Whether the programs whose state was moved to host memory have ended since, so that nothing is left to restore.
    ended: bool = False


class ShareSuspension(Protocol):
    """The port of a backend that can suspend shares; see the rules of this module."""

    def describe_refusal(self, workload: str, run: int) -> str:
        """Return why the share of a run can never be suspended, as a sentence; "" if an attempt is worthwhile."""
        ...

    def suspend(self, workload: str, run: int) -> None:
        """Begin to suspend a share that is IN_USE; do nothing in any other phase, or if the run is unknown."""
        ...

    @property
    def can_move(self) -> bool:
        """Whether a share can be resumed on another device of the same model; False until that is known."""
        ...

    def resume(self, workload: str, run: int, devices: Sequence[str] = ()) -> None:
        """Begin to resume a SUSPENDED share on these devices, or undo a suspension under way; else do nothing.

        No devices means those on which the share was. The devices must be reserved for the share.
        """
        ...
