"""The levels at which the memory limit of a share is enforced, and the rule that decides the level of one share.

Rules
-----
- Strongest: a share has the strongest level of which the enforcer is active on its devices now.
- Nothing is claimed: an enforcer that is installed and not active, or whose measurements are missing, does not count.

See docs/decisions/0145-decide-the-level-of-each-share-from-what-is-active.md.
"""

from dataclasses import dataclass
from enum import StrEnum


class ShareLevel(StrEnum):
    """The level at which the memory limit of a share is enforced, strongest first."""

    HARDWARE = "hardware"
    DRIVER = "driver"
    MPS = "mps"
    INTERCEPT = "intercept"
    WATCHED = "watched"
    COOPERATIVE = "cooperative"
    ADVISORY = "advisory"
    NONE = "none"

    @property
    def meaning(self) -> str:
        """The sentence that says what the level means for the owner of a share."""
        return _MEANINGS[self]


_MEANINGS = {
    ShareLevel.HARDWARE: "Nobody else has a share of these GPUs, so the hardware itself is the memory limit.",
    ShareLevel.DRIVER: "The GPU driver refuses memory above the limit, for all programs of the share together.",
    ShareLevel.MPS: "MPS limits the memory and the processors of each program; a program can get around that.",
    ShareLevel.INTERCEPT: "Calls of the GPU library above the memory limit fail; a program can get around that.",
    ShareLevel.WATCHED: "A share above the memory limit is warned, then its largest program is interrupted and ended.",
    ShareLevel.COOPERATIVE: "The usual frameworks keep the memory limit; a program that ignores it is not stopped.",
    ShareLevel.ADVISORY: "Nothing enforces the memory limit: programs on this GPU must be considerate.",
    ShareLevel.NONE: "There is no GPU.",
}


@dataclass(frozen=True, kw_only=True, slots=True)
class Enforcement:
    """The means that hold the programs of a share to its memory limit now."""

    #: Whether the share has a GPU.
    has_gpu: bool
    #: Whether the share is whole devices, or whole partitions of devices, which nobody shares.
    whole: bool
    #: Level of other software that divides the devices; None = this product divides them.
    divided_by: ShareLevel | None = None
    #: Whether the driver has confirmed the limit on each device of the share, which then runs.
    limited: bool = False
    #: Whether all programs on the devices of the share, which are shared by MPS, were seen as clients of MPS.
    through_mps: bool = False
    #: Whether the programs are told the limits of frameworks, which needs devices whose memory is known.
    capped: bool = False
    #: Whether the memory of the programs is measured, and programs above the limit are ended.
    watched: bool = False


def decide_level(found: Enforcement) -> ShareLevel:
    """Return the strongest level at which the memory limit is enforced."""
    if not found.has_gpu:
        return ShareLevel.NONE
    if found.whole:
        return ShareLevel.HARDWARE
    if found.divided_by is not None:
        return found.divided_by
    if found.limited:
        return ShareLevel.DRIVER
    if found.through_mps:
        return ShareLevel.MPS
    if found.watched:
        return ShareLevel.WATCHED
    return ShareLevel.COOPERATIVE if found.capped else ShareLevel.ADVISORY
