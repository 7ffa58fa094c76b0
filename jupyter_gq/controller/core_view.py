"""The workloads in the form that the scheduling core gets.

The form adds to a workload the backoffs of its record, the estimate of its duration from history, and what its backend
can do. Records do not hold the last two, which may change while a workload waits.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from jupyter_gq.backends.protocol import Backend
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Backoff, Kind, SuspensionRefusal, Workload
from jupyter_gq.simulation.durations import Durations
from jupyter_gq.store.protocol import Record

from .offered_nodes import without_devices


def without(snapshot: Snapshot, excluded: Collection[Workload]) -> Snapshot:
    """Return the snapshot without these workloads; the devices that they hold become unhealthy.

    Something may still run on these devices, so nothing new is placed there.
    """
    if not excluded:
        return snapshot
    names = {workload.id for workload in excluded}
    held = {device for workload in excluded for task in workload.held_places for device in task.devices}
    nodes = tuple(without_devices(snapshot.nodes, held))
    workloads = tuple(workload for workload in snapshot.workloads if workload.id not in names)
    return replace(snapshot, nodes=nodes, workloads=workloads)


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shown:
    """The last view of a workload, with the inputs from which it was made."""

    workload: Workload
    backoff: Backoff | None
    suspension_refusal: SuspensionRefusal | None
    #: Revision of the known durations at that time.
    revision: int
    #: Whether no task could be added to the run.
    closed: bool
    view: Workload


class CoreView:
    """A cache of the workloads as the scheduling core sees them.

    A view is the workload of a record with its backoffs, the estimate of its duration and the abilities of its backend.
    A view stays the same object as long as it is equal, since each cycle compares thousands of views.
    """

    def __init__(
        self,
        durations: Durations,
        backends: Mapping[Kind, Backend],
        can_suspend: Callable[[Record], bool],
        is_closed: Callable[[Workload], bool],
        bind: Callable[[Record], Workload],
    ) -> None:
        """Create views.

        `can_suspend` tells whether the share of a workload can be suspended now, and `is_closed` whether no task can be
        added to its run. `bind` returns the workload of a record with a suspension, with the request that can be met.
        """
        self._durations, self._backends, self._can_suspend = durations, backends, can_suspend
        self._is_closed, self._bind = is_closed, bind
        self._shown: dict[str, _Shown] = {}

    def views_of(self, records: Iterable[Record]) -> tuple[Workload, ...]:
        """Return the workloads of these records as the core sees them, in the same order."""
        revision = self._durations.revision
        self._shown = {record.workload.id: self._show(record, revision) for record in records}
        return tuple(shown.view for shown in self._shown.values())

    def _show(self, record: Record, revision: int) -> _Shown:
        """Return the view of a record with its inputs; an equal view stays the same object."""
        workload = record.workload if record.detail.suspension is None else self._bind(record)
        backoff, refusal = record.detail.backoff, record.detail.suspension_refusal
        before, suspendable, closed = self._shown.get(workload.id), self._can_suspend(record), self._is_closed(workload)
        if (
            before is not None
            and before.workload is workload
            and before.backoff is backoff
            and before.suspension_refusal is refusal
            and before.revision == revision
            and before.view.suspendable == suspendable
            and before.closed == closed
        ):
            return before
        inputs = _Shown(
            workload=workload,
            backoff=backoff,
            suspension_refusal=refusal,
            revision=revision,
            closed=closed,
            view=workload,
        )
        if backoff or refusal:
            workload = replace(workload, backoff=backoff, suspension_refusal=refusal)
        view = self._view(workload, suspendable, closed=closed)
        if before is not None and before.view == view:
            view = before.view
        return replace(inputs, view=view)

    def _view(self, workload: Workload, suspendable: bool, *, closed: bool) -> Workload:
        """Return the workload with the estimate of its duration and the abilities of its backend.

        A workload to whose run no task can be added wants no more tasks than it has.
        """
        if workload.kind is Kind.TRAINING and workload.estimate is None:
            known = self._durations.known(workload)
            workload = workload if known is None else replace(workload, estimate=known)
        able = self._backends[workload.kind].capabilities
        elastic = able.resizing is not None and workload.can_shrink
        if elastic and closed and workload.holds:
            workload = replace(workload, tasks=max(workload.min_members, len(workload.placement)))
        if not (suspendable or elastic):
            return workload
        return replace(workload, suspendable=suspendable, elastic=elastic)
