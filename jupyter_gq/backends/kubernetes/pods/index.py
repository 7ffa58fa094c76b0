"""The index of pods by run and by node."""

from collections import defaultdict
from collections.abc import Iterator, Set
from typing import TypeVar

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.domain.workload import RunKey

K = TypeVar("K")
#: The most runs whose deleted pods are kept.
_MAX_DELETED = 10_000


class PodIndex:
    """The pods that were seen, by run and by node."""

    def __init__(self) -> None:
        #: By workload, the number of the run that owns the pods which name no run.
        self._current: dict[str, int] = {}
        self._by_run: defaultdict[RunKey, dict[str, PodView]] = defaultdict(dict)
        self._by_node: defaultdict[str, dict[str, PodView]] = defaultdict(dict)
        self._by_uid: dict[str, PodView] = {}
        #: By run, the last views of pods that were deleted. A result that nobody has read yet is only there.
        self._deleted: dict[RunKey, list[PodView]] = {}
        #: By run, a number that grows with each change of one of its pods.
        self._revisions: defaultdict[RunKey, int] = defaultdict(int)

    def revision(self, key: RunKey) -> int:
        """Return a number that grows with each change of a pod of this run."""
        return self._revisions.get(key, 0)

    def adopt(self, key: RunKey) -> None:
        """Make this run the owner of the pods of its workload that name no run."""
        self._assign_unnumbered(*key)

    def forget(self, key: RunKey) -> None:
        """Delete the data of a run that is over, unless the run still has pods.

        Pods of its workload that name no run no longer belong to this run.
        """
        if self._current.get(key[0]) == key[1]:
            self._assign_unnumbered(key[0], 0)
        if key not in self._by_run:
            self._revisions.pop(key, None)
            self._deleted.pop(key, None)

    def take_deleted(self, key: RunKey) -> list[PodView]:
        """Return and drop the last views of the run's pods that were deleted since the previous call."""
        return self._deleted.pop(key, [])

    def key(self, pod: PodView) -> RunKey:
        """Return the run of a pod. If the pod names no run and its workload has none now, the number is 0."""
        return (pod.workload, pod.attempt or self._current.get(pod.workload, 0))

    def apply_change(self, before: PodView | None, after: PodView | None) -> None:
        """Record that a pod was created (`before` is None), has changed, or was deleted (`after` is None).

        The last view of a deleted pod is kept for `take_deleted`.
        """
        for pod in (before, after):
            if pod is not None:
                self._revisions[self.key(pod)] += 1
        if before is not None:
            self._by_uid.pop(before.uid, None)
            _discard(self._by_run, self.key(before), before.uid)
            _discard(self._by_node, before.node, before.uid)
            if after is None or after.uid != before.uid:
                self._keep_deleted(before)
        if after is not None:
            self._by_uid[after.uid] = after
            self._by_run[self.key(after)][after.uid] = after
            if after.node:
                self._by_node[after.node][after.uid] = after

    def _assign_unnumbered(self, workload: str, number: int) -> None:
        """Give the pods of the workload that name no run to the run with this number; 0 = to none."""
        before, after = (workload, self._current.pop(workload, 0)), (workload, number)
        if number:
            self._current[workload] = number
            self._revisions.pop((workload, 0), None)
        for pod in self.of_run(before):
            if pod.attempt == 0 and before != after:
                _discard(self._by_run, before, pod.uid)
                self._by_run[after][pod.uid] = pod
                self._revisions[after] += 1

    def _keep_deleted(self, pod: PodView) -> None:
        self._deleted.setdefault(self.key(pod), []).append(pod)
        while len(self._deleted) > _MAX_DELETED:  # runs that nobody asks for
            del self._deleted[next(iter(self._deleted))]

    def of_run(self, key: RunKey) -> tuple[PodView, ...]:
        """Return the present pods of a run."""
        return tuple(self._by_run.get(key, {}).values())

    def count(self, key: RunKey) -> int:
        """Return the number of present pods of a run."""
        return len(self._by_run.get(key, ()))

    def on_node(self, node: str) -> tuple[PodView, ...]:
        """Return the present pods on a node."""
        return tuple(self._by_node.get(node, {}).values())

    def nodes(self) -> Set[str]:
        """Return the names of all nodes that have a pod."""
        return self._by_node.keys()

    def by_uid(self, uid: str) -> PodView | None:
        """Return the pod with this uid; None if there is none."""
        return self._by_uid.get(uid)

    def runs(self) -> Iterator[RunKey]:
        """Iterate over a copy of all runs that have a pod, so that pods may change meanwhile."""
        return iter(list(self._by_run))


def _discard(index: dict[K, dict[str, PodView]], key: K, uid: str) -> None:
    pods = index.get(key, {})
    pods.pop(uid, None)
    if not pods:
        index.pop(key, None)
