"""The plan for suspended notebooks in which a cell waits: who gets devices back before them, and who leaves first.

Rules
-----
- Own place: a share comes back to its own devices, so only notebooks on the same devices are before or behind it.
- Order: notebooks are served in the order of `resume_notebooks`, the older first. So a place in line gets worse only if
  the share of an older notebook begins to come back as well, which the plan shows.
- No line for what does not come: a notebook with something else than borrowers in its way is before nobody.
- Always a reason: a notebook that does not come is told what keeps it out, the most lasting thing first.

See docs/decisions/0489-count-the-place-in-line-in-the-order-of-the-return.md.
"""

from collections.abc import Sequence

from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.workload import Workload, devices_of
from jupyter_gq.scheduling.decision import KeptOut, Returning
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.workloads.borrowers import may_borrow, milli_on
from jupyter_gq.scheduling.workloads.replicas import whole_workload
from jupyter_gq.scheduling.workloads.seniority import by_seniority

from .lending import find_borrowing, is_wanted_back, on_devices_of


def plan_returns(index: ClusterIndex, allocations: Allocations, evictions: Evictions) -> tuple[Returning, ...]:
    """Return what each suspended notebook in which a cell waits still waits for, in the order in which they are served.

    Notebooks that this cycle resumes are left out. Changes nothing.
    """
    lenders = index.holders.lenders.by_id
    resumed = {each.workload for each in allocations.resumed}
    #: Notebooks that come back, the older first.
    before: list[Workload] = []
    found: list[Returning] = []
    for notebook in by_seniority(each for each in lenders.values() if is_wanted_back(each)):
        if notebook.id in resumed:
            before.append(notebook)
        elif notebook.id in allocations.returning:
            leaving = _find_leaving(index, allocations, evictions, notebook)
            ahead = sum(each.id not in resumed for each in on_devices_of(notebook, before))
            found.append(Returning(workload=notebook.id, ahead=ahead, leaving=leaving))
            before.append(notebook)
        else:
            found.append(_keep_out(index, allocations, notebook, on_devices_of(notebook, before)))
    return tuple(found)


def _keep_out(
    index: ClusterIndex, allocations: Allocations, notebook: Workload, older: Sequence[Workload]
) -> Returning:
    """Return why a notebook does not come back; `older` are those on its devices that come back before it."""
    if not index.is_observed(notebook):
        return Returning(workload=notebook.id, kept_out=KeptOut.UNOBSERVED)
    layout = allocations.ledger.layout
    ranks = [layout.rank_of.get(device) for device in devices_of(notebook.placement)]
    if None in ranks:
        return Returning(workload=notebook.id, kept_out=KeptOut.MISSING)
    devices = [layout.devices[rank] for rank in ranks if rank is not None]
    if not all(device.healthy or device.withheld for device in devices):
        return Returning(workload=notebook.id, kept_out=KeptOut.UNUSABLE)
    if blockers := _find_blockers(index, notebook):
        return Returning(workload=notebook.id, kept_out=KeptOut.WORK, blockers=len(blockers))
    if _find_blockers(index, notebook, older):
        return Returning(workload=notebook.id, kept_out=KeptOut.OLDER, ahead=len(older))
    # Borrowers of a backend that cannot be observed are not told to leave.
    other = KeptOut.UNOBSERVED if index.config.unobserved else KeptOut.OTHER
    return Returning(workload=notebook.id, kept_out=other)


def _find_leaving(
    index: ClusterIndex, allocations: Allocations, evictions: Evictions, notebook: Workload
) -> tuple[str, ...]:
    """Return the ids of the work that was told to leave the devices of a notebook, for it or for another lender.

    Work that was told to stop for another reason counts if it uses what was lent there.
    """
    stopping = on_devices_of(notebook, evictions.stopping.values())
    borrowing = find_borrowing(index, allocations, notebook, stopping)
    lenders = index.holders.lenders.by_id
    left = {whole_workload(e).id for e in stopping if e.id in borrowing or evictions.preemptor_of(e) in lenders}
    return tuple(sorted(left))


def _find_blockers(index: ClusterIndex, notebook: Workload, older: Sequence[Workload] = ()) -> set[str]:
    """Return the ids of the work that cannot give way, if it leaves no room for a notebook on one of its devices.

    `older` are suspended notebooks that come back there first, and count as such work.
    """
    on_node = index.holders.on_node
    units = (unit for node in index.nodes_of(notebook.placement) for unit in on_node.get(node, {}).values())
    staying = [*older, *(each for each in units if not may_borrow(each) and each.id != notebook.id)]
    found: set[str] = set()
    for device in devices_of(notebook.placement):
        there = [each for each in staying if milli_on(device, each)]
        if milli_on(device, notebook) + sum(milli_on(device, each) for each in there) > ONE_GPU:
            found |= {whole_workload(each).id for each in there}
    return found
