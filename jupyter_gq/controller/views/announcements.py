"""The choice of pending workloads to announce to listeners, because their position or sentence has changed.

If thousands of workloads wait, the start of one changes the position of all behind it. To announce all of them at once
would take longer than the step itself, so at most `AT_ONCE` are announced in a step, the longest due ones first.
"""

from collections.abc import Callable, Mapping

from jupyter_gq.scheduling.decision import Pending

#: Most workloads that are announced in one step.
AT_ONCE = 200

#: Position and sentence of a pending workload.
_PositionAndSentence = tuple[int, str]
_NOT_ANNOUNCED: _PositionAndSentence = (0, "")


class Announcements:
    """The positions and sentences of pending workloads that were announced last."""

    def __init__(self) -> None:
        #: Position and sentence that listeners know of each workload, by id.
        self._announced: dict[str, _PositionAndSentence] = {}
        #: Ids of the workloads to announce, the longest due first.
        self._due: dict[str, None] = {}

    def take_changed(self, pending: Mapping[str, Pending], has_listener: Callable[[str], bool]) -> list[str]:
        """Return the ids of at most `AT_ONCE` pending workloads to announce now, and count them as announced.

        A workload is announced if somebody listens to it and its position or sentence is new, the longest due first.
        Further ones stay due for a later call. `has_listener` tells whether anybody listens to the workload of an id.
        """
        before, self._announced = self._announced, {}
        for name, entry in pending.items():
            known = self._announced[name] = before.get(name, _NOT_ANNOUNCED)
            if known == _position_and_sentence(entry):
                continue
            if has_listener(name):
                self._due.setdefault(name, None)
            else:  # a new listener fetches the lists first
                self._announced[name] = _position_and_sentence(entry)
        chosen: list[str] = []
        while self._due and len(chosen) < AT_ONCE:
            name = next(iter(self._due))
            del self._due[name]
            if name in pending and self._announced.get(name) != _position_and_sentence(pending[name]):
                self._announced[name] = _position_and_sentence(pending[name])
                chosen.append(name)
        return chosen


def _position_and_sentence(entry: Pending) -> _PositionAndSentence:
    return (entry.position, entry.why.sentence)
