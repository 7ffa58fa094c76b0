"""A run as the backend knows it, and the index of pods by run."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import TypeVar

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.protocol import Observation, Outcome, Phase
from jupyter_gq.domain.amount import ONE_GPU, Instant
from jupyter_gq.domain.workload import Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .outcome import End

RunKey = tuple[str, int]
K = TypeVar("K")
#: Of so many runs pods that are gone are remembered.
_PARTED = 10_000


@dataclass(kw_only=True, slots=True)
class Run:
    """One run. Everything but the intent is derived from pods, and derived again after a restart."""

    id: str
    number: int
    #: By the time of day, for who reads it; so is `begun_at`.
    launched_at: float
    #: The same by the clock that nobody sets; so are all other times.
    known_at: float
    #: What was decided; None: it was only found by its pods.
    workload: Workload | None = None
    detail: WorkloadDetail = field(default_factory=WorkloadDetail)
    environment: Mapping[str, str] = field(default_factory=dict)
    #: What is missing of it is made.
    may_create: bool = False
    #: Last seen of the pod of each task.
    pods: dict[int, PodView] = field(default_factory=dict)
    #: Tasks whose pod is gone.
    gone: set[int] = field(default_factory=set)
    #: When its pods began to be made.
    making_since: float | None = None
    #: When a task was first seen without a place, by task.
    unplaced_since: dict[int, float] = field(default_factory=dict)
    #: When a task was first seen on its node with a container that has not started, by task.
    starting_since: dict[int, float] = field(default_factory=dict)
    #: When a container was first seen in trouble, by task.
    trouble_since: dict[int, float] = field(default_factory=dict)
    #: It was told to end, and when its pods are killed.
    stop_at: float | None = None
    #: Why it ends although nobody told it to.
    decided: End | None = None
    #: The task for which the others are stopped.
    culprit: int | None = None
    #: All of its tasks have begun.
    begun_at: float | None = None
    #: What is waited for.
    sentence: str = ""
    ended: Observation | None = None
    #: As it is, while nothing of it changes and nothing is waited for; None = it has to be looked at.
    steady: Observation | None = None
    #: State of its pods at that time, see `PodIndex.revision`.
    steady_at: int = -1
    #: Notebooks: whoever started it ends it.
    released: bool = False
    #: Notebooks: when its pod could be made.
    ready_at: float | None = None

    @property
    def key(self) -> RunKey:
        """Workload and number."""
        return (self.id, self.number)

    @property
    def tasks(self) -> int:
        """How many tasks it has, as far as is known."""
        if self.workload is not None:
            return self.workload.tasks
        told = max((pod.of_tasks for pod in self.pods.values()), default=1)
        return max(told, max(self.pods, default=0) + 1)

    @property
    def holds_devices(self) -> bool:
        """A device was decided for it."""
        return self.workload is not None and any(task.devices for task in self.workload.placement)

    @property
    def leaving(self) -> bool:
        """It shall end, for whatever reason."""
        return self.stop_at is not None or self.decided is not None

    def live(self) -> list[PodView]:
        """Pods that are there and have not ended."""
        return [pod for task, pod in sorted(self.pods.items()) if task not in self.gone and not pod.finished]

    def devices(self) -> dict[str, str]:
        """By slot, the devices that its pods were given by name."""
        return {slot: device for pod in self.live() for slot, device in zip(pod.slots, pod.devices, strict=False)}

    def over(self, task: int) -> bool:
        """That task has begun and ended."""
        return task in self.gone or (task in self.pods and self.pods[task].finished)

    def present(self) -> Observation:
        """As it is while it has not ended."""
        begun = self.begun_at is not None
        return Observation(
            workload=self.id,
            run=self.number,
            phase=Phase.RUNNING if begun else Phase.STARTING,
            since=Instant(self.begun_at if self.begun_at is not None else self.launched_at),
            sentence=self.sentence,
        )

    def end(self, end: End, day: float) -> Observation:
        """It has ended like that."""
        self.ended = Observation(
            workload=self.id,
            run=self.number,
            phase=Phase.ENDED,
            since=Instant(day),
            outcome=end.outcome,
            sentence=end.sentence if end.outcome is not Outcome.SUCCEEDED else "",
        )
        return self.ended


class PodIndex:
    """Pods by the run that they belong to, and by node."""

    def __init__(self) -> None:
        #: By workload, the run that pods are of which name none.
        self._present: dict[str, int] = {}
        self._by_run: defaultdict[RunKey, dict[str, PodView]] = defaultdict(dict)
        self._by_node: defaultdict[str, dict[str, PodView]] = defaultdict(dict)
        self._by_uid: dict[str, PodView] = {}
        #: By run, pods that are gone, as they were at last: an end that nobody has looked at yet stands there only.
        self._parted: dict[RunKey, list[PodView]] = {}
        #: By run: grows with each change of one of its pods.
        self._revisions: defaultdict[RunKey, int] = defaultdict(int)

    def revision(self, key: RunKey) -> int:
        """Grows with each change of a pod of that run."""
        return self._revisions.get(key, 0)

    def adopt(self, key: RunKey) -> None:
        """From now on pods of that workload which name no run are of this one."""
        self._number(*key)

    def forget(self, key: RunKey) -> None:
        """That run is over, and nothing of it is left."""
        if self._present.get(key[0]) == key[1]:
            self._number(key[0], 0)
        if key not in self._by_run:
            self._revisions.pop(key, None)
            self._parted.pop(key, None)

    def take_parted(self, key: RunKey) -> list[PodView]:
        """Pods of that run that have gone since this was asked last, as they were at last."""
        return self._parted.pop(key, [])

    def key(self, pod: PodView) -> RunKey:
        """The run that it belongs to; of one that names none, and whose workload has none now, the number is 0."""
        return (pod.workload, pod.attempt or self._present.get(pod.workload, 0))

    def saw(self, before: PodView | None, after: PodView | None) -> None:
        """A pod changed."""
        for pod in (before, after):
            if pod is not None:
                self._revisions[self.key(pod)] += 1
        if before is not None:
            self._by_uid.pop(before.uid, None)
            _discard(self._by_run, self.key(before), before.uid)
            _discard(self._by_node, before.node, before.uid)
            if after is None or after.uid != before.uid:
                self._part(before)
        if after is not None:
            self._by_uid[after.uid] = after
            self._by_run[self.key(after)][after.uid] = after
            if after.node:
                self._by_node[after.node][after.uid] = after

    def _number(self, workload: str, number: int) -> None:
        """Pods of that workload which name no run are of the run with that number; 0 = of none."""
        before, after = (workload, self._present.pop(workload, 0)), (workload, number)
        if number:
            self._present[workload] = number
            self._revisions.pop((workload, 0), None)
        for pod in self.of_run(before):
            if pod.attempt == 0 and before != after:
                _discard(self._by_run, before, pod.uid)
                self._by_run[after][pod.uid] = pod
                self._revisions[after] += 1

    def _part(self, pod: PodView) -> None:
        self._parted.setdefault(self.key(pod), []).append(pod)
        while len(self._parted) > _PARTED:  # of runs that nobody asks for
            del self._parted[next(iter(self._parted))]

    def of_run(self, key: RunKey) -> tuple[PodView, ...]:
        """The pods of a run."""
        return tuple(self._by_run.get(key, {}).values())

    def count(self, key: RunKey) -> int:
        """How many pods a run has."""
        return len(self._by_run.get(key, ()))

    def on_node(self, node: str) -> tuple[PodView, ...]:
        """The pods on a node."""
        return tuple(self._by_node.get(node, {}).values())

    def nodes(self) -> Set[str]:
        """Every node that has a pod."""
        return self._by_node.keys()

    def by_uid(self, uid: str) -> PodView | None:
        """That pod."""
        return self._by_uid.get(uid)

    def runs(self) -> Iterator[RunKey]:
        """Every run that has a pod."""
        return iter(list(self._by_run))


def _discard(index: dict[K, dict[str, PodView]], key: K, uid: str) -> None:
    pods = index.get(key, {})
    pods.pop(uid, None)
    if not pods:
        index.pop(key, None)


def slots_in_use(runs: Iterable[Run]) -> dict[str, set[str]]:
    """The slots that were decided for those that have not ended, by node."""
    used: dict[str, set[str]] = {}
    for run in runs:
        if run.ended is None and run.workload is not None:
            for task in run.workload.placement:
                used.setdefault(task.node, set()).update(task.devices)
    return used


def shared_slots(runs: Iterable[Run]) -> dict[str, set[str]]:
    """The slots on which pods of theirs that have a node and have not ended have a share, by node."""
    found: dict[str, set[str]] = {}
    for run in runs:
        placement = run.workload.placement if run.workload is not None else ()
        shares = {
            slot
            for task in placement
            if run.workload is not None and run.workload.request_of(task.group).milli_per_device < ONE_GPU
            for slot in task.devices
        }
        for pod in run.live() if shares else ():
            if pod.node:
                found.setdefault(pod.node, set()).update(shares.intersection(pod.slots))
    return found
