"""What the core is shown of the workloads: with what history says of them, and with what their backend can do."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from jupyter_gq.backends.protocol import Backend
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.simulation.durations import Durations


@dataclass(frozen=True, kw_only=True, slots=True)
class _Shown:
    workload: Workload
    #: Of what is known of durations, at that time.
    revision: int
    view: Workload


class CoreView:
    """Shows the very same object while nothing of it changes: each cycle compares thousands with the last one's."""

    def __init__(self, durations: Durations, backends: Mapping[Kind, Backend]) -> None:
        self._durations, self._backends = durations, backends
        self._shown: dict[str, _Shown] = {}

    def of(self, workloads: Iterable[Workload]) -> tuple[Workload, ...]:
        """The workloads as the core is shown them."""
        revision = self._durations.revision
        self._shown = {workload.id: self._show(workload, revision) for workload in workloads}
        return tuple(shown.view for shown in self._shown.values())

    def _show(self, workload: Workload, revision: int) -> _Shown:
        before = self._shown.get(workload.id)
        if before is not None and before.workload is workload and before.revision == revision:
            return before
        view = self._view(workload)
        if before is not None and before.view == view:
            view = before.view
        return _Shown(workload=workload, revision=revision, view=view)

    def _view(self, workload: Workload) -> Workload:
        if workload.kind is Kind.TRAINING and workload.estimate is None:
            known = self._durations.known(workload)
            workload = workload if known is None else replace(workload, estimate=known)
        able = self._backends[workload.kind].capabilities
        elastic = able.can_resize and bool(workload.groups or workload.min_members < workload.tasks)
        if not (able.can_suspend or elastic):
            return workload
        return replace(workload, suspendable=able.can_suspend, elastic=elastic)
