"""The workloads as the scheduling core is shown them: with their back-off, and with what history and backends add.

A record does not hold the estimate of its duration nor what its backend can do: both may change while it waits.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from jupyter_gq.backends.protocol import Backend
from jupyter_gq.domain.workload import Backoff, Kind, Workload
from jupyter_gq.simulation.durations import Durations
from jupyter_gq.store.protocol import Record


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shown:
    """A workload as it was shown last, and the things of which that view was made."""

    workload: Workload
    backoff: Backoff | None
    #: Revision of the known durations at that time.
    revision: int
    view: Workload


class CoreView:
    """The views of all live workloads.

    A view stays the same object while nothing of it changes: each cycle compares thousands with those of the last one.
    """

    def __init__(self, durations: Durations, backends: Mapping[Kind, Backend]) -> None:
        self._durations, self._backends = durations, backends
        self._shown: dict[str, _Shown] = {}

    def of(self, records: Iterable[Record]) -> tuple[Workload, ...]:
        """Return the view of each record's workload, in the same order."""
        revision = self._durations.revision
        self._shown = {record.workload.id: self._show(record, revision) for record in records}
        return tuple(shown.view for shown in self._shown.values())

    def _show(self, record: Record, revision: int) -> _Shown:
        workload, backoff = record.workload, record.detail.backoff
        before = self._shown.get(workload.id)
        if (
            before is not None
            and before.workload is workload
            and before.backoff is backoff
            and before.revision == revision
        ):
            return before
        view = self._view(workload, backoff)
        if before is not None and before.view == view:
            view = before.view
        return _Shown(workload=workload, backoff=backoff, revision=revision, view=view)

    def _view(self, workload: Workload, backoff: Backoff | None) -> Workload:
        if backoff is not None:
            workload = replace(workload, backoff=backoff)
        if workload.kind is Kind.TRAINING and workload.estimate is None:
            known = self._durations.known(workload)
            workload = workload if known is None else replace(workload, estimate=known)
        able = self._backends[workload.kind].capabilities
        elastic = able.can_resize and bool(workload.groups or workload.min_members < workload.tasks)
        if not (able.can_suspend or elastic):
            return workload
        return replace(workload, suspendable=able.can_suspend, elastic=elastic)
