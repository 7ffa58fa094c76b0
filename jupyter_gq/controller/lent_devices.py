"""The devices that suspended notebooks have lent, and the jobs that would have to leave if all came back at once."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload, devices_of
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.borrowers import borrowers_on

from .records.records import Records


class LentDevices:
    """The suspended notebooks from which each job borrows.

    The lenders are found again only after a change of a record or of the training queues.
    """

    def __init__(self, records: Records, queues: Callable[[], Iterable[Queue]]) -> None:
        """Begin without results; `queues` returns the training queues with their quotas."""
        self._records = records
        self._queues = queues
        #: The ids of the suspended notebooks by the id of the job that borrows from them.
        self._lenders: Mapping[str, tuple[str, ...]] = {}
        #: The revision of the records and the queues of which they are.
        self._found_for: tuple[int, tuple[Queue, ...]] = (-1, ())

    def is_borrower(self, workload: Workload) -> bool:
        """Return whether a job uses what suspended notebooks have lent."""
        return bool(self.find_lenders(workload))

    def find_lenders(self, workload: Workload) -> tuple[str, ...]:
        """Return the ids of the suspended notebooks for which a job would have to leave; none if it is no borrower."""
        present = (self._records.revision, tuple(self._queues()))
        if self._found_for != present:
            self._lenders, self._found_for = self._find_all(), present
        return self._lenders.get(workload.id, ())

    def _find_all(self) -> Mapping[str, tuple[str, ...]]:
        """Return the lenders by the id of each borrower, as the records are now."""
        notebooks = (record.workload for record in self._records.notebooks())
        lenders: dict[str, list[Workload]] = {}
        for notebook in (each for each in notebooks if each.state is State.SUSPENDED):
            for device in devices_of(notebook.placement):
                lenders.setdefault(device, []).append(notebook)
        if not lenders:
            return {}
        holding = [record.workload for record in self._records.holding()]
        users: dict[str, list[Workload]] = {device: [] for device in lenders}
        for each in (each for each in holding if each.state is not State.SUSPENDED):
            for device in devices_of(each.held_places) & users.keys():
                users[device].append(each)
        above = _find_above_quota(holding, self._queues())
        found: dict[str, dict[str, None]] = {}
        for device, on_device in lenders.items():
            for borrower in borrowers_on(device, on_device, users[device], above):
                found.setdefault(borrower.id, {}).update(dict.fromkeys(each.id for each in on_device))
        return {borrower: tuple(ids) for borrower, ids in found.items()}


def _find_above_quota(holding: Iterable[Workload], queues: Iterable[Queue]) -> set[str]:
    """Return the names of those of the queues whose own work holds more than their quotas."""
    used: Counter[str] = Counter()
    for workload in holding:
        used[workload.queue] += gang.occupied(workload)
    return {queue.name for queue in queues if used[queue.name] > queue.quota}
