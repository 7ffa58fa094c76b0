"""The choice of pending workloads to announce to listeners, because their position or sentence has changed.

If thousands of workloads wait, the start of one changes the position of all behind it. To announce all of them at once
would take longer than the step itself, so at most `AT_ONCE` are announced in a step, the longest due ones first.
"""

from collections.abc import Callable, Mapping

from jupyter_gq.scheduling.decision import Pending

#: Most workloads that are announced in one step.
AT_ONCE = 200

#: Position and sentence of a pending workload.
_Look = tuple[int, str]
_UNSEEN: _Look = (0, "")


class Announcements:
    """The positions and sentences of pending workloads that were announced last."""

    def __init__(self) -> None:
        #: What listeners know of each workload, by id.
        self._told: dict[str, _Look] = {}
        #: Ids of the workloads to announce, the longest due first.
        self._due: dict[str, None] = {}

    def take_changed(self, pending: Mapping[str, Pending], has_listener: Callable[[str], bool]) -> list[str]:
        """Return the ids of the workloads to announce now, and count them as announced.

        `has_listener` tells whether anybody listens to the workload of an id.
        """
        before, self._told = self._told, {}
        for name, entry in pending.items():
            look = self._told[name] = before.get(name, _UNSEEN)
            if look == _look(entry):
                continue
            if has_listener(name):
                self._due.setdefault(name, None)
            else:  # a new listener fetches the lists first
                self._told[name] = _look(entry)
        told: list[str] = []
        while self._due and len(told) < AT_ONCE:
            name = next(iter(self._due))
            del self._due[name]
            if name in pending and self._told.get(name) != _look(pending[name]):
                self._told[name] = _look(pending[name])
                told.append(name)
        return told


def _look(entry: Pending) -> _Look:
    return (entry.position, entry.why.sentence)
