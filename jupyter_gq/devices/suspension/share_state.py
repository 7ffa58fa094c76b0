"""The phase of a share: whether its state is on its devices or in host memory, and how the last move went."""

from dataclasses import dataclass
from enum import StrEnum

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
