"""The devices that suspended notebooks have lent, and the jobs that would have to leave if all came back at once."""

from collections import Counter
from collections.abc import Collection

from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload

from .records.records import Records


class LentDevices:
    """The devices of which suspended notebooks have lent parts that are in use.

    They are computed again only after a change of a record.
    """

    def __init__(self, records: Records) -> None:
        self._records = records
        #: The ids of the devices, and the revision of the records of which they are.
        self._found: frozenset[str] = frozenset()
        self._revision = -1

    def is_borrower(self, workload: Workload) -> bool:
        """Return whether a job holds a device without room for the suspended notebooks that have lent their parts."""
        if workload.kind is not Kind.TRAINING or not workload.holds:
            return False
        lent = self._find()
        return any(device in lent for task in workload.held_places for device in task.devices)

    def _find(self) -> frozenset[str]:
        """Return the ids of the devices as the records are now."""
        if self._revision != self._records.revision:
            suspended = (each.workload for each in self._records.notebooks() if each.workload.state is State.SUSPENDED)
            devices = {name for each in suspended for task in each.placement for name in task.devices}
            self._found = frozenset(devices and self._find_overfull(devices))
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
