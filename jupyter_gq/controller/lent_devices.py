"""The devices that suspended notebooks have lent, and the jobs that would have to leave if all came back at once."""

from collections import Counter
from collections.abc import Collection, Mapping

from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload, devices_of

from .records.records import Records


class LentDevices:
    """The devices of which suspended notebooks have lent parts that are in use.

    They are computed again only after a change of a record.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        #: The ids of the suspended notebooks of each lent device without room for all of its work at once, and the
        #: revision of the records of which they are.
        self._found: Mapping[str, tuple[str, ...]] = {}
        self._revision = -1

    def is_borrower(self, workload: Workload) -> bool:
        """Return whether a job holds a device without room for the suspended notebooks that have lent their parts."""
        return bool(self.find_lenders(workload))

    def find_lenders(self, workload: Workload) -> tuple[str, ...]:
        """Return the ids of the suspended notebooks for which a job would have to leave; none if it is no borrower."""
        if workload.kind is not Kind.TRAINING or not workload.holds:
            return ()
        lent = self._find()
        found = (lent.get(device, ()) for task in workload.held_places for device in task.devices)
        return tuple(dict.fromkeys(lender for lenders in found for lender in lenders))

    def _find(self) -> Mapping[str, tuple[str, ...]]:
        """Return the lenders by device as the records are now."""
        if self._revision != self._records.revision:
            lenders: dict[str, tuple[str, ...]] = {}
            for each in (record.workload for record in self._records.notebooks()):
                if each.state is State.SUSPENDED:
                    for device in devices_of(each.placement):
                        lenders[device] = (*lenders.get(device, ()), each.id)
            overfull = self._find_overfull(lenders) if lenders else set()
            self._found = {device: ids for device, ids in lenders.items() if device in overfull}
            self._revision = self._records.revision
        return self._found

    def _find_overfull(self, devices: Collection[str]) -> set[str]:
        """Return those of the devices that could not hold all of their workloads, with the suspended ones, at once."""
        held: Counter[str] = Counter()
        for record in self._records.unfinished():
            for task in record.workload.held_places:
                for device in task.devices:
                    held[device] += record.workload.request.milli_per_device
        return {device for device in devices if held[device] > ONE_GPU}
