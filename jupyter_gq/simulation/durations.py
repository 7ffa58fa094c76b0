"""Expected durations of work: what its owner says, else how long similar work took.

The most similar history that has enough entries counts: runs of the same name by the same owner, else of the owner,
else of the same size in the queue, else of the queue, else all. Only runs that were longer than what this one has run
already say something about the rest. If there is none, the work is expected to run as long again (the Lindy rule).
"""

from bisect import bisect_right, insort
from collections import OrderedDict, deque
from collections.abc import Iterator

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.workload import Workload

#: A history says something from so many runs on, and forgets all but the newest.
ENOUGH, KEPT = 5, 200
#: So many names are remembered, those that ran last: some people give each run a name of its own.
NAMES = 2_000

Key = tuple[str, ...]
#: How keys of one name of one owner begin.
_NAME = "name"


class _Runs:
    """The newest durations of one history, by age and in ascending order."""

    __slots__ = ("newest", "sorted")

    def __init__(self) -> None:
        self.newest: deque[float] = deque()
        self.sorted: list[float] = []

    def add(self, duration: float) -> None:
        """Add a duration in seconds; beyond `KEPT` durations the oldest one is removed."""
        self.newest.append(duration)
        insort(self.sorted, duration)
        if len(self.newest) > KEPT:
            oldest = self.newest.popleft()
            del self.sorted[bisect_right(self.sorted, oldest) - 1]

    def longer_than(self, elapsed: float) -> list[float]:
        """Return the durations that are longer than `elapsed` seconds, in ascending order."""
        return self.sorted[bisect_right(self.sorted, elapsed) :]


class Durations:
    """The durations of finished work, and the expected durations of other work."""

    def __init__(self) -> None:
        self._runs: dict[Key, _Runs] = {}
        #: Of runs of one name; those that ran last stand last.
        self._named: OrderedDict[Key, _Runs] = OrderedDict()
        #: Grows with each run that is added.
        self.revision = 0

    def add(self, workload: Workload, duration: Seconds) -> None:
        """Add the seconds that a workload ran in all before it succeeded to all histories of similar work."""
        self.revision += 1
        for key in _keys(workload):
            histories = self._histories(key)
            if key not in histories:
                histories[key] = _Runs()
            histories[key].add(duration)
            if histories is self._named:
                self._named.move_to_end(key)
        while len(self._named) > NAMES:
            self._named.popitem(last=False)

    def known(self, workload: Workload) -> Seconds | None:
        """Return the median duration in the most similar history with enough entries; None if none has enough.

        For an even number of entries, that is the larger one of the two in the middle.
        """
        for key in _keys(workload):
            runs = self._histories(key).get(key)
            if runs is not None and len(runs.sorted) >= ENOUGH:
                return Seconds(runs.sorted[len(runs.sorted) // 2])
        return None

    def expected(self, workload: Workload, elapsed: Seconds) -> Seconds:
        """Return for how many seconds the workload runs in all, given that it has run for `elapsed` seconds.

        The owner's estimate counts first, unless that time is over. The next to count is the median of the most
        similar history with enough runs longer than `elapsed`. Without either, the workload is expected to run as long
        again, and for a minute at least.
        """
        if workload.estimate is not None and workload.estimate > elapsed:
            return workload.estimate
        for key in _keys(workload):
            runs = self._histories(key).get(key)
            longer = runs.longer_than(elapsed) if runs is not None else []
            if len(longer) >= ENOUGH:
                return Seconds(longer[len(longer) // 2])
        return Seconds(max(2 * elapsed, elapsed + 60))

    def _histories(self, key: Key) -> dict[Key, _Runs]:
        """Return the histories in which the one of this key is or would be."""
        return self._named if key[0] == _NAME else self._runs


def _keys(workload: Workload) -> Iterator[Key]:
    """Yield the keys of the histories that say something of a workload, the most similar first."""
    if workload.owner:
        yield (_NAME, workload.owner, workload.name)
        yield ("owner", workload.owner)
    yield ("size", workload.queue, str(workload.milli))
    yield ("queue", workload.queue)
    yield ("all",)
