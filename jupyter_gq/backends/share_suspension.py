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
from typing import Protocol


class ShareSuspension(Protocol):
    """The port of a backend that can suspend shares; see the rules of this module."""

    def describe_refusal(self, workload: str, run: int) -> str:
        """Return why the share of a run can never be suspended, as a sentence; "" if an attempt is worthwhile."""
        ...

    def suspend(self, workload: str, run: int) -> None:
        """Begin to suspend a share that is IN_USE; do nothing in any other phase, or if the run is unknown."""
        ...

    @property
    def trouble(self) -> str:
        """The trouble with the journal of suspensions, as a sentence for administrators; "" if there is none."""
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
