"""The views of records with everything that is known now, and announcements if only that knowledge has changed."""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Literal, TypeVar

from jupyter_gq.client.models import JobSummary, JobUsage, JobView, MemoryExcessView, NotebookView, TicketView
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.suspended_jobs import can_suspend_job
from jupyter_gq.controller.records.records import event_kind
from jupyter_gq.controller.run_time_limits import find_run_time_limit
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.decision import Pending, Returning
from jupyter_gq.store.protocol import Record

from . import workload_views
from .announcements import Announcements
from .gpu_use_views import memory_limit, unused_view, usage_view
from .overview import over_quota_by_job
from .share_levels import describe_missing_limit, level_of
from .workload_views import ViewContext

Shown = TypeVar("Shown")
#: Most cells of a job that an event carries.
MOST_CELLS = 200
#: States of a notebook whose server may run.
_HAS_SHARE = frozenset({State.STARTING, State.RUNNING, State.SUSPENDED, State.RESUMING})


class Presenter:
    """The maker of all views of records, for requests and for events."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: The devices by id; None = to be read again.
        self._devices: Mapping[str, Device] | None = None
        self._announcements = Announcements()
        #: Milli-GPU of each job above its queue's quota, by id.
        self._over_quota: Mapping[str, int] = {}
        #: What is wrong with running workloads, by id, as it was announced last.
        self._troubles: Mapping[str, str] = {}

    def job(self, record: Record) -> JobView:
        """Return the view of a job, with what its record lacks: why it waits, when it may start, how it uses GPUs."""
        return workload_views.job_view(record, self.view_context(record))

    def job_summary(self, record: Record) -> JobSummary:
        """Return the view of a job for a list: as `job` does, but without its cells."""
        return workload_views.job_summary(record, self.view_context(record))

    def job_usage(self, record: Record) -> JobUsage:
        """Return how a job uses its GPUs, or used them in its last run."""
        workload, context = record.workload, self._context
        limit = memory_limit(workload, self._known_devices())
        return usage_view(workload, context.use_series.get(workload.id), context.job_use(workload), limit)

    def notebook(self, record: Record) -> NotebookView:
        """Return the view of a notebook with everything that is known now."""
        return workload_views.notebook_view(record, self.view_context(record))

    def ticket(self, record: Record) -> TicketView:
        """Return the view of a ticket for its spawner.

        The environment is empty until the server may start: at once without a GPU, otherwise from STARTING on. While
        STARTING, the additions to the server's pod are there too, if servers are pods.
        """
        workload = record.workload
        ready = workload.state in _HAS_SHARE or not workload.request.devices
        environment = self._context.environment(workload) if ready else {}
        view = workload_views.ticket_view(record, self.view_context(record), environment)
        preparation = self._context.backend_of(workload.kind).capabilities.pod_preparation
        if workload.state is State.STARTING and preparation is not None:
            told = preparation.describe_preparation(workload.id, workload.run)
            pod = preparation.pod_additions(workload.id, workload.run)
            view = view.model_copy(update={"pod": pod, "sentence": told or view.sentence})
        return view

    def describe(self, record: Record) -> JsonObject:
        """Return the view of the record's job or notebook as JSON, for an event.

        The cells of a job with more than `MOST_CELLS` are left out, as in lists of jobs.
        See docs/decisions/0321-leave-the-cells-of-large-jobs-out-of-events.md.
        """
        if record.workload.kind is not Kind.TRAINING:
            return self.notebook(record).model_dump(mode="json")
        detail = record.detail
        is_small = len(detail.targets) + len(detail.prefix) + len(detail.left_out_cells or ()) <= MOST_CELLS
        return (self.job(record) if is_small else self.job_summary(record)).model_dump(mode="json")

    def show_each(self, records: Iterable[Record], show: Callable[[Record], Shown]) -> list[Shown]:
        """Return the view of each record, made by `show`; a record whose view fails is set aside and left out."""
        attempt = self._context.set_aside.attempt
        views = (attempt(record.workload.id, "showing", partial(show, record)) for record in records)
        return [view for view in views if view is not None]

    def announce(self, workload: str) -> None:
        """Send the present view of an unfinished workload to its listeners, as an event that is not stored.

        Does nothing if nobody listens.
        """
        record = self._context.records.find_unfinished(workload)
        if record is not None and self._has_listener(workload):
            kind: Literal["job", "notebook"] = event_kind(record)
            for described in self.show_each([record], self.describe):
                self._context.broker.announce(record.workload.owner, kind, workload, described)

    def update_pending(self, pending: Iterable[Pending]) -> None:
        """Store why each pending workload waits, and announce workloads whose sentence, position or trouble changed.

        At most `announcements.AT_ONCE` pending workloads are announced in one call.
        """
        self._context.pending = {entry.workload: entry for entry in pending}
        for name in self._announcements.take_changed(self._context.pending, self._has_listener):
            self.announce(name)
        context, before = self._context, self._troubles
        names = context.troubles.keys() | context.excesses.keys()
        self._troubles = {name: _describe_trouble(context, name) for name in names}
        for name in sorted(before.keys() | self._troubles.keys()):
            if before.get(name) != self._troubles.get(name):
                self.announce(name)

    def update_returning(self, returning: Iterable[Returning]) -> None:
        """Store what each suspended notebook in which a cell waits still waits for, and announce what has changed."""
        context, before = self._context, self._context.returning
        context.returning = {each.workload: each for each in returning}
        since, awake = context.returning_since, context.clock.awake()
        context.returning_since = {}
        for name, plan in context.returning.items():
            known = before.get(name)
            is_later = known is None or not set(plan.leaving) <= set(known.leaving) or not known.is_coming
            context.returning_since[name] = awake if is_later else since[name]
            if known != plan:
                self.announce(name)

    def _has_listener(self, workload: str) -> bool:
        """Return whether anybody listens to events of the owner of the unfinished workload of that id."""
        record = self._context.records.find_unfinished(workload)
        return record is not None and self._context.broker.has_listener(record.workload.owner)

    def update_over_quota(self) -> None:
        """Compute again how much of each running job is above its queue's quota, and announce the changed ones.

        A job is not announced at its first computation.
        """
        workloads = [record.workload for record in self._context.records.holding()]
        borrowers = {workload.id for workload in workloads if self._context.lent.is_borrower(workload)}
        before, self._over_quota = (
            self._over_quota,
            over_quota_by_job(workloads, self._context.settings.training_tree(), borrowers),
        )
        for name, milli in self._over_quota.items():
            if name in before and before[name] != milli:
                self.announce(name)

    def forget_devices(self) -> None:
        """Clear the cached devices, which the next view then reads again."""
        self._devices = None

    def view_context(self, record: Record) -> ViewContext:
        """Return the data beside the record that its view needs: reason, forecast, devices, use and trouble."""
        workload, context = record.workload, self._context
        is_job, devices = workload.kind is Kind.TRAINING, self._known_devices()
        limit = find_run_time_limit(context.settings, workload)
        use = context.job_use(workload) if is_job else context.usage.get(workload.id)
        return ViewContext(
            max_seconds=None if limit is None else limit.seconds,
            pending=context.pending.get(workload.id),
            expected_start=context.expected_starts.get(workload.id),
            last_seq=context.last_seq(workload.id) if is_job else 0,
            devices=devices,
            idle=context.settings.policy.idle,
            return_within=(promised := _promised_return(context, record)),
            return_left=_left_of_promise(context, workload.id, promised),
            returning=context.returning.get(workload.id),
            lenders=len(context.lent.find_lenders(workload)),
            suspendable=_would_be_suspended(context, record),
            over_quota=self._over_quota.get(workload.id, record.detail.over_quota),
            usage=use,
            unused=unused_view(workload, context.unused.get(workload.id)),
            disk=context.disk_use.get(workload.id),
            trouble=context.set_aside.describe(workload.id) or _describe_trouble(context, workload.id),
            over_limit=_view_excess(context, workload.id),
            level=level_of(context, workload, devices),
            missing_limit=describe_missing_limit(context, workload),
            has_lost_queue=is_job and workload.holds and _has_lost_queue(context, workload),
        )

    def _known_devices(self) -> Mapping[str, Device]:
        """Return the devices by id, read once in each step."""
        if self._devices is None:
            self._devices = {device.id: device for node in self._context.nodes() for device in node.devices}
        return self._devices


def _promised_return(context: Context, record: Record) -> Seconds:
    """Return the time within which the share of a notebook is back once a cell waits for it, if it is suspended."""
    suspension = record.detail.suspension
    return context.settings.suspension.promised_return(None if suspension is None else suspension.seconds)


def _left_of_promise(context: Context, workload: str, promised: Seconds) -> Seconds:
    """Return what is left of the time `promised` to a notebook whose borrowers have been told to leave; at least 0."""
    since = context.returning_since.get(workload)
    return promised if since is None else Seconds(max(0.0, promised - (context.clock.awake() - since)))


def _would_be_suspended(context: Context, record: Record) -> bool | None:
    """Return whether a pause now would suspend the run of a job; None before the first sample of its GPU.

    What has nothing on its GPU cannot be suspended.
    """
    workload = record.workload
    if workload.state is not State.RUNNING or not can_suspend_job(context, record):
        return False
    if workload.id not in context.usage:
        return None
    use = context.job_use(workload)
    return use is None or use.memory != 0


def _has_lost_queue(context: Context, workload: Workload) -> bool:
    """Return whether an elastic job is of a queue that the settings have no more, so that it cannot grow."""
    return workload.can_shrink and workload.queue not in {entry.queue.name for entry in context.settings.leaves()}


def _describe_trouble(context: Context, workload: str) -> str:
    """Return what is wrong with a workload: too much memory, or what its backend says; "" = nothing."""
    found = context.excesses.get(workload)
    excess = "" if found is None else found.describe(context.usage_at or found.seen_at)
    return " ".join(filter(None, [excess, context.troubles.get(workload, "")]))


def _view_excess(context: Context, workload: str) -> MemoryExcessView | None:
    """Return the excess of a workload's share as its owner sees it; None if there is none."""
    found = context.excesses.get(workload)
    if found is None:
        return None
    return MemoryExcessView(
        used_mib=found.excess.used,
        limit_mib=found.excess.limit,
        over_mib=found.excess.over,
        done=found.done.value,
        next=None if found.next is None else found.next.value,
        next_at=found.next_at,
        sentence=found.describe(context.usage_at or found.seen_at),
    )
