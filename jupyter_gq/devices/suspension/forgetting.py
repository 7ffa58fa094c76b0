"""The removal of shares that have ended from the journal of suspensions, repeated until the disk takes it.

An entry that stays counts as host memory in use, and tells of processes that have ended.
"""

import logging
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from .suspender import Suspender, SuspensionError
from .threads import AlreadyTold, run_in_thread

log = logging.getLogger(__name__)

#: Seconds awake between two attempts for one share.
_PAUSE = 5.0


@dataclass(kw_only=True)
class Forgetting:
    """The removal of ended shares from the suspender's journal, each in a thread, because the disk may hang."""

    suspender: Suspender
    #: Returns the seconds for which the machine has been awake.
    awake: Callable[[], float]
    #: When to try again, in seconds awake, by name of the share.
    _left: dict[str, float] = field(init=False, default_factory=dict)
    #: Why the last removal failed; "" = it did not.
    _told: str = field(init=False, default="")

    def forget(self, name: str) -> None:
        """Begin to remove the share of this name, whose server or programs have ended; return at once.

        If that fails, `forget_what_is_left` tries again.
        """
        self._left.pop(name, None)

        def finish(done: bool | None) -> None:
            if not done:
                self._left[name] = self.awake() + _PAUSE

        run_in_thread(f"forget {name}", lambda: self._forget(name), finish)

    def forget_what_is_left(self, managed: Collection[str]) -> None:
        """Try again to remove the shares whose removal failed and whose pause is over.

        Shares named in `managed` are left out: a new share has that name by now, and its entry must stay.
        """
        for name in [name for name, due in self._left.items() if due <= self.awake()]:
            if name not in managed:
                self.forget(name)

    def _forget(self, name: str) -> bool:
        """Remove the share, and return whether the disk took that; a new reason for which it did not is logged."""
        try:
            self.suspender.forget(name)
        except SuspensionError as error:
            if str(error) != self._told and not isinstance(error.__cause__, AlreadyTold):
                log.warning("the ended share %s cannot be removed yet: %s", name, error)
            self._told = str(error)
            return False
        self._told = ""
        return True
