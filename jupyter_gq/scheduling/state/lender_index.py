"""The lenders, which are the suspended notebooks, and what they leave to work that may not borrow from them.

See docs/decisions/0293-ask-first-whether-lent-shares-leave-room.md.
"""

from collections.abc import Sequence

from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.workload import Workload, devices_of
from jupyter_gq.scheduling.placement import DeviceLedger, View, empty_ledger
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.workloads.borrowers import may_borrow


class LenderIndex:
    """The suspended notebooks, by id and by the devices that they have lent."""

    def __init__(self, nodes: Sequence[Node], topologies: Sequence[Topology]) -> None:
        #: All lenders, by id.
        self.by_id: dict[str, Workload] = {}
        #: Lenders by device, and by id.
        self.on_device: dict[str, dict[str, Workload]] = {}
        self._nodes = nodes
        self._topologies = topologies
        #: The nodes as if only lenders were there, and had their devices; made when it is first needed.
        self._alone: DeviceLedger | None = None

    def add(self, notebook: Workload) -> None:
        """Add a suspended notebook."""
        self.by_id[notebook.id] = notebook
        for device in devices_of(notebook.placement):
            self.on_device.setdefault(device, {})[notebook.id] = notebook
        if self._alone is not None:
            self._alone.reserve_devices(notebook, notebook.placement)

    def remove(self, notebook: Workload) -> None:
        """Remove a suspended notebook, which must be as it was added."""
        del self.by_id[notebook.id]
        for device in devices_of(notebook.placement):
            there = self.on_device[device]
            del there[notebook.id]
            if not there:
                del self.on_device[device]
        if self._alone is not None:
            self._alone.unreserve_devices(notebook, notebook.placement)

    def leave_room_for(self, pool: str, workload: Workload) -> bool:
        """Return False if the workload certainly has no place beside the lenders, even if all other work were gone.

        Always True for a workload that may borrow.
        """
        if not self.by_id or may_borrow(workload):
            return True
        if self._alone is None:
            self._alone = empty_ledger(self._nodes, self._topologies)
            for notebook in self.by_id.values():
                self._alone.reserve_devices(notebook, notebook.placement)
        self._alone.commit()
        return assemble.may_fit(self._alone, pool, workload, View.FUTURE)
