"""The lenders, which are the suspended notebooks, and what they leave to work that may not borrow from them."""

from collections.abc import Sequence
from functools import cache

from jupyter_gq.domain.cluster import Node, Topology
from jupyter_gq.domain.workload import Kind, Request, Workload, devices_of
from jupyter_gq.scheduling.placement import DeviceLedger, View, empty_ledger
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import WorkloadTest, any_workload


def may_borrow(workload: Workload) -> bool:
    """Tell whether a workload may use what a suspended notebook has lent: preemptible training work can give it back.

    See the rule on borrowers in `idle.lending`.
    """
    return workload.preemptible and workload.kind is Kind.TRAINING


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
        #: Answers of `help_test`, by pool and requests.
        self._tests: dict[tuple[str, tuple[Request, ...]], WorkloadTest] = {}

    def add(self, notebook: Workload) -> None:
        """Add a suspended notebook."""
        self.by_id[notebook.id] = notebook
        for device in devices_of(notebook.placement):
            self.on_device.setdefault(device, {})[notebook.id] = notebook
        if self._alone is not None:
            self._alone.reserve_devices(notebook, notebook.placement)
        self._tests.clear()

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
        self._tests.clear()

    def leave_room_for(self, pool: str, workload: Workload) -> bool:
        """Return False if the workload certainly has no place beside the lenders, even if all other work were gone.

        Always True for a workload that may borrow.
        """
        if not self.by_id or may_borrow(workload):
            return True
        return assemble.may_fit(self._nodes_of_lenders(), pool, workload, View.FUTURE)

    def help_test(self, pool: str, workload: Workload) -> WorkloadTest:
        """Return a test of other work, which is False if the end of that work certainly gives the workload no place.

        That is so if the lenders leave no room for any task of the workload where the other work is. If nodes count CPU
        and memory, that is asked of nodes, and otherwise of devices as well.
        """
        if not self.by_id or may_borrow(workload):
            return any_workload
        requests = tuple(group.request for group in gang.groups_of(workload) if group.min_members)
        if (pool, requests) not in self._tests:
            self._tests[pool, requests] = _help_test(self._nodes_of_lenders(), pool, requests)
        return self._tests[pool, requests]

    def _nodes_of_lenders(self) -> DeviceLedger:
        """Return the ledger of the nodes as if only lenders were there, without changes that could be undone."""
        if self._alone is None:
            self._alone = empty_ledger(self._nodes, self._topologies)
            for notebook in self.by_id.values():
                self._alone.reserve_devices(notebook, notebook.placement)
        self._alone.commit()
        return self._alone


def _help_test(nodes: DeviceLedger, pool: str, requests: Sequence[Request]) -> WorkloadTest:
    """Return a test of whether one of the requests has room at the place of a workload on these nodes."""
    least = min((each.milli_per_device if each.devices else 0 for each in requests), default=0)
    if nodes.layout.counts_host_resources:
        least = 0

    @cache
    def have_room(node: str) -> bool:
        return any(nodes.slots_on(node, pool, request, View.FUTURE) for request in requests)

    def test(workload: Workload) -> bool:
        return any(
            have_room(task.node) and (not least or any(nodes.amount(d, View.FUTURE) >= least for d in task.devices))
            for task in workload.placement
        )

    return test
