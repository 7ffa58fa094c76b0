"""The phases as which the end of a job counts for those who are told of it. Pure."""

from typing import Protocol

from jupyter_gq.domain.reasons import EvictReason


class Evicted(Protocol):
    """The last eviction of a job, as the store or the API describes it."""

    @property
    def reason(self) -> str:
        """The value of an `EvictReason`, or another word."""


def list_ends(phase: str, eviction: Evicted | None) -> frozenset[str]:
    """Return the phases as which an ended job counts; at its maximum running time it failed and was cancelled."""
    return frozenset({phase, "failed"} if reached_limit(phase, eviction) else {phase})


def reached_limit(phase: str, eviction: Evicted | None) -> bool:
    """Return whether a job was ended because it reached its maximum running time."""
    return phase == "cancelled" and eviction is not None and eviction.reason == EvictReason.RUN_TIME_LIMIT
