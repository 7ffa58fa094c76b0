"""The phases of jobs: the last ones, and all in sentences.

Kernels import this module too, so it needs the standard library only.
"""

from __future__ import annotations

#: Phases of a job that has ended.
ENDED = frozenset({"done", "failed", "cancelled"})
_CLAUSES = {"failed": "has failed", "cancelled": "was cancelled", "cancelling": "is being cancelled"}


def describe_phase(phase: str) -> str:
    """Return what a sentence says of a job in this phase, such as "has failed" or "is running"."""
    return _CLAUSES.get(phase, f"is {phase}")
