"""Makes views of records with what is known now, and tells listeners when only that changed."""

from collections.abc import Iterable, Mapping
from typing import Literal

from jupyter_gq.client.models import JobView, NotebookView, TicketView
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.records import event_kind
from jupyter_gq.devices import limits
from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Pending
from jupyter_gq.store.protocol import Record

from . import views
from .changes import News
from .overview import over_quota
from .views import Surroundings


class Presenter:
    """The one way from a record to what a user sees."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._devices: Mapping[str, Device] | None = None
        self._news = News()
        #: Milli-GPU of each job above its queue's quota.
        self._over_quota: Mapping[str, int] = {}
        #: What was told of what is wrong.
        self._troubles: Mapping[str, str] = {}

    def job(self, record: Record) -> JobView:
        """Return the view of a job."""
        return views.job_view(record, self.surroundings(record))

    def notebook(self, record: Record) -> NotebookView:
        """Return the view of a notebook."""
        return views.notebook_view(record, self.surroundings(record))

    def ticket(self, record: Record) -> TicketView:
        """Return the view of a notebook for its spawner, with the environment once the server may start."""
        workload = record.workload
        ready = workload.state in {State.STARTING, State.RUNNING} or not workload.request.devices
        environment = self._context.environment(workload) if ready else {}
        view = views.ticket_view(record, self.surroundings(record), environment)
        preparation = self._context.backend_of(workload.kind).capabilities.pod_preparation
        if workload.state is State.STARTING and preparation is not None:
            told = preparation.describe_preparation(workload.id, workload.run)
            pod = preparation.pod_additions(workload.id, workload.run)
            view = view.model_copy(update={"pod": pod, "sentence": told or view.sentence})
        return view

    def describe(self, record: Record) -> JsonObject:
        """Return the payload of an event about the record."""
        is_job = record.workload.kind is Kind.TRAINING
        return (self.job(record) if is_job else self.notebook(record)).model_dump(mode="json")

    def mention(self, workload: str) -> None:
        """Tell its listeners how it looks now, without remembering that."""
        record = self._context.records.alive(workload)
        if record is not None and self._is_heard(workload):
            kind: Literal["job", "notebook"] = event_kind(record)
            self._context.broker.mention(record.workload.owner, kind, workload, self.describe(record))

    def explain(self, pending: Iterable[Pending]) -> None:
        """Take in why each workload waits, and tell those whose sentence or position changed, or who have trouble."""
        self._context.pending = {entry.workload: entry for entry in pending}
        for name in self._news.of(self._context.pending, self._is_heard):
            self.mention(name)
        before, self._troubles = self._troubles, self._context.troubles
        for name in sorted(before.keys() | self._troubles.keys()):
            if before.get(name) != self._troubles.get(name):
                self.mention(name)

    def _is_heard(self, workload: str) -> bool:
        record = self._context.records.alive(workload)
        return record is not None and self._context.broker.is_heard(record.workload.owner)

    def weigh(self) -> None:
        """Take in which part of each job is above its queue's quota now, and tell those for whom that changed."""
        workloads = [record.workload for record in self._context.records.begun()]
        before, self._over_quota = self._over_quota, over_quota(workloads, self._context.settings.training_tree())
        for name, milli in self._over_quota.items():
            if name in before and before[name] != milli:
                self.mention(name)

    def forget_devices(self) -> None:
        """Drop the cached devices: they may have changed."""
        self._devices = None

    def surroundings(self, record: Record) -> Surroundings:
        """Return the data that a view needs beside the record."""
        workload, context = record.workload, self._context
        if self._devices is None:
            self._devices = {device.id: device for node in context.nodes() for device in node.devices}
        return Surroundings(
            pending=context.pending.get(workload.id),
            expected_start=context.expected_starts.get(workload.id),
            last_seq=context.last_seq(workload.id) if workload.kind is Kind.TRAINING else 0,
            devices=self._devices,
            idle=context.settings.policy.idle,
            over_quota=self._over_quota.get(workload.id, record.detail.over_quota),
            usage=context.usage.get(workload.id),
            trouble=context.troubles.get(workload.id, ""),
            enforcement=self._enforcement(record, self._devices),
        )

    def _enforcement(self, record: Record, devices: Mapping[str, Device]) -> str:
        workload, context = record.workload, self._context
        if not workload.request.devices:
            return "none"
        # Whole devices are given by the device plugin, whoever shares the others.
        if workload.request.milli_per_device >= ONE_GPU:
            return limits.ENFORCEMENT_LEVEL
        held = (devices.get(device) for task in workload.placement for device in task.devices)
        pool = next((device.pool for device in held if device is not None), context.settings.build_pool)
        return context.backend_of(workload.kind).capabilities.enforcement(pool) or limits.ENFORCEMENT_LEVEL
