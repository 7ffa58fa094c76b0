"""Which waiting workloads look different from what their listeners were told last, told a few at a time.

With thousands waiting, one that starts moves all behind it, and a number in a sentence changes for all: telling each of
them at once would take longer than the step itself. Nobody is passed over: who has been due for longest comes first.
"""

from collections.abc import Callable, Mapping

from jupyter_gq.scheduling.decision import Pending

#: So many are told of in one step.
AT_ONCE = 200

#: What a listener sees of it.
_Look = tuple[int, str]
_UNSEEN: _Look = (0, "")


class News:
    """Remembers what was told."""

    def __init__(self) -> None:
        self._told: dict[str, _Look] = {}
        #: What is due, in the order in which it became so.
        self._due: dict[str, None] = {}

    def of(self, pending: Mapping[str, Pending], is_heard: Callable[[str], bool]) -> list[str]:
        """Return the workloads to announce now; `is_heard` tells whether anybody listens to a workload."""
        before, self._told = self._told, {}
        for name, entry in pending.items():
            look = self._told[name] = before.get(name, _UNSEEN)
            if look == _look(entry):
                continue
            if is_heard(name):
                self._due.setdefault(name, None)
            else:  # a new listener asks for the lists first
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
