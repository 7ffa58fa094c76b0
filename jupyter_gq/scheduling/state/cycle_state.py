"""The state of one cycle, split by what a step needs to read and to change.

Rules
-----
Two holders: only the cycle itself (`cycle.py`) and the scheduler that begins it (`engine.py`) hold a `CycleState`. A
step takes the parts that it uses, so its signature says what it may change.

No trace: `CycleState.undo` returns the index to what it was before the cycle.

See docs/decisions/0064-split-the-state-of-a-cycle.md.
"""

from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.workload import Workload, devices_of
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota import min_runtime
from jupyter_gq.scheduling.workloads.borrowers import may_borrow
from jupyter_gq.scheduling.workloads.seniority import longest_wait

from .allocations import Allocations
from .cluster_index import ClusterIndex
from .evictions import Evictions
from .findings import Findings
from .reservations import Reservations


@dataclass(frozen=True, kw_only=True, slots=True)
class CycleInputs:
    """The input of a cycle. Steps only read it; the parts of the index that change in a cycle are in `Allocations`."""

    index: ClusterIndex
    now: Instant

    @property
    def policy(self) -> Policy:
        """The policy of the cycle."""
        return self.index.config.policy

    def protected_for(self, victim: Workload, preemptor: Workload) -> Seconds:
        """Return for how many seconds `victim` is still protected from `preemptor` by its min runtime.

        0 = not protected.
        """
        accounts = self.index.accounts
        least = self.index.min_runtimes.of(accounts.of(victim.queue), accounts.of(preemptor.queue))
        return min_runtime.remaining_protection(victim, least, self.now)


@dataclass(frozen=True, kw_only=True, slots=True)
class CycleState:
    """The parts of the state of one cycle."""

    inputs: CycleInputs
    #: Which workloads get devices.
    allocations: Allocations
    #: Which devices are reserved for a workload.
    reservations: Reservations
    #: Which workloads lose devices.
    evictions: Evictions
    #: What explanations need and nothing else.
    findings: Findings

    def undo(self) -> None:
        """Undo everything that the cycle did, in the index as well; the state is of no use afterwards."""
        self.allocations.undo()


def begin_cycle(index: ClusterIndex, now: Instant) -> CycleState:
    """Return the state of a cycle that has decided nothing yet, except that recorded places are nominated again."""
    index.set_time(now)
    reservations = Reservations(index.ledger, index.accounts, index.min_runtimes, now)
    allocations = Allocations(index, reservations)
    evictions = Evictions(index.holders.stopping, allocations)
    _nominate_recorded(index, allocations, reservations, evictions)
    return CycleState(
        inputs=CycleInputs(index=index, now=now),
        allocations=allocations,
        reservations=reservations,
        evictions=evictions,
        findings=Findings(),
    )


def _nominate_recorded(
    index: ClusterIndex, allocations: Allocations, reservations: Reservations, evictions: Evictions
) -> None:
    """Nominate workloads for the places recorded for them, as far as those are free or will be.

    Places for which other work was told to stop come first, then the longest wait. A place is left alone if a workload
    that comes earlier still needs one of its devices: that workload is asked first (see `admit.reservations`).
    """
    needed: set[str] = set()
    for workload in sorted(index.reserved.values(), key=lambda each: (not each.nominated, longest_wait(each))):
        devices = devices_of(workload.reserved)
        if workload.id in evictions.stopping:
            done = _keep_migration(workload, allocations, evictions)
        else:
            is_free = needed.isdisjoint(devices) and workload.id in allocations.pending
            done = is_free and _nominate_beside_lenders(index, allocations, workload)
        if done:
            reservations.recorded.add(workload.id)
            if workload.nominated:
                reservations.nominated.add(workload.id)
        else:
            needed |= devices


def _nominate_beside_lenders(index: ClusterIndex, allocations: Allocations, workload: Workload) -> bool:
    """Nominate a pending workload for its recorded place; tell whether that was possible.

    A workload that could not give the place back leaves suspended notebooks what they have lent.
    """
    devices, lenders_on = () if may_borrow(workload) else devices_of(workload.reserved), index.holders.lenders.on_device
    lenders = {name: notebook for device in devices for name, notebook in lenders_on.get(device, {}).items()}
    for notebook in lenders.values():
        index.ledger.reserve_devices(notebook, notebook.placement)
    done = allocations.nominate_at(workload, workload.reserved)
    for notebook in lenders.values():
        index.ledger.unreserve_devices(notebook, notebook.placement)
    return done


def _keep_migration(workload: Workload, allocations: Allocations, evictions: Evictions) -> bool:
    """Keep the new place of a workload that is stopping in order to go on there; tell whether the place is kept.

    If the workload does not come back, or the place is not available, nothing changes.
    """
    if not workload.comes_back or not allocations.keep_new_place(workload, workload.reserved):
        return False
    evictions.migrations[workload.id] = workload.reserved
    return True
