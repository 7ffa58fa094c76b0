"""The activity of notebooks: reports of their kernels, samples of their shares, and "Keep it".

Rules
-----
Active: a notebook is active when a kernel executes code, or when its share is used above `ACTIVE_UTILISATION` per cent
of the share. A cell that waits for input, or that the debugger has stopped, is code that executes.

Unknown is not idle: a kernel in an unknown state, or a share that cannot be sampled, makes `busy` None.

Full window: the use of a share must be known for the whole time in which the notebook is called idle. After a gap
without samples, or a restart of the service, that time begins anew. A gap is longer than `IdleRule.fresh`: a sample
covers the seconds before. A warning and a decided suspension outlive a restart. While the memory of a share is moved,
its programs wait for the driver, so nothing has to be measured.

Bounded "Keep it": the total time of "Keep it" is bounded, and starts again once the notebook is used again. The time
that the owner was told holds in any case, also after a use.

Saved or not: samples stay in memory, since they are worthless after a restart. Decisions of the owner and warnings are
saved.

See docs/decisions/0124-the-idle-time-begins-anew-after-a-gap.md, 0395-hold-each-time-that-the-owner-was-told.md and
0486-begin-a-decided-suspension-only-on-news.md.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from jupyter_gq.client.models import ActivityReport, KernelActivity, NotebookPhase
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.acts import act_of
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.views.suspension_views import notebook_phase
from jupyter_gq.controller.views.workload_views import keep_seconds
from jupyter_gq.devices.meter import Share, ShareMeter
from jupyter_gq.domain.amount import ONE_GPU, Instant, Seconds
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Activity, Kind, Workload
from jupyter_gq.scheduling.wording import describe_duration
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

#: Per cent of a share above which its use counts as activity; even an idle process tree uses a little.
ACTIVE_UTILISATION = 5
#: States of a notebook whose server runs and reports its kernels.
_HAS_SERVER = frozenset({State.RUNNING, State.SUSPENDED, State.RESUMING})
#: Answers to "Keep it" after the share was taken, by the phase of the notebook.
_TOO_LATE: Mapping[NotebookPhase, str] = {
    "suspended": "The share was suspended already. Nothing is lost: the next cell that you run brings it back.",
    "resuming": "The share is coming back already, so there is nothing to keep.",
    "stopping": "The server is being stopped already, so its share cannot be kept.",
}
#: Least time between two samples of the shares.
SAMPLE_EVERY = Seconds(5)


class ActivityLog:
    """The activity of all running notebooks."""

    def __init__(self, context: Context, announce: Callable[[str], None]) -> None:
        """Log the activity of the notebooks in `context`; `announce` sends the workload of an id to its listeners."""
        self._context, self._announce = context, announce
        #: When the shares were last sampled, by the clock of the time awake.
        self._sampled_at = float("-inf")
        #: When each notebook's share was last used, by id.
        self._last_use: dict[str, Instant] = {}
        #: Suspended notebooks whose processes held device memory at the last sample, by id.
        self._awakened: set[str] = set()
        #: When the use of each notebook's share was last known, by the clock of the time awake, by id.
        self._known_at: dict[str, float] = {}
        #: The end of the last gap before that, by id.
        self._gap_end: dict[str, Instant] = {}

    def report(self, record: Record, report: ActivityReport) -> None:
        """Record a server's report about its kernels: busy, idle or unknown, and when a kernel was last active.

        Does nothing unless the server runs. Only a change of `busy` or of "Keep it" is saved. If a cell of a suspended
        notebook waits, the loop is woken, so that the share comes back soon.
        """
        workload = record.workload
        if workload.state not in _HAS_SERVER:
            return
        self._context.heard.add(workload.id)
        now = self._context.clock.now()
        busy = self._consider_share(workload, report.wanted or is_any_kernel_busy(report.kernels))
        last = max([kernel.last_active for kernel in report.kernels], default=0.0)
        before = workload.activity
        active = Instant(min(now, max(last, workload.started_at or 0.0, self._last_use.get(workload.id, 0.0))))
        if busy:
            active = now
        after = _next_activity(before, busy, active, now)
        gap_end = self._gap_end.get(workload.id, Instant(0.0))
        after = replace(after, last_active=Instant(max(gap_end, after.last_active or 0.0)))
        self._store_activity(workload, before, after)
        if busy and workload.state is State.SUSPENDED:
            self._context.wake()

    def sample(self) -> None:
        """Measure the use of all shares of running workloads, at most once in `SAMPLE_EVERY` seconds.

        Notebooks whose shares are used above `ACTIVE_UTILISATION` are recorded as active, unless they are to be
        suspended. So are suspended notebooks whose processes hold device memory. Running notebooks whose use has
        changed are announced. Does nothing without a meter.
        """
        now, awake = self._context.clock.now(), self._context.clock.awake()
        meter = self._context.meter
        if meter is None or awake < self._sampled_at + SAMPLE_EVERY:
            return
        self._sampled_at = awake
        running = [record for record in self._context.records.notebooks() if _has_share(record.workload)]
        before = self._context.usage
        shares = {record.workload.id: self._make_share(record) for record in [*running, *self._running_jobs()]}
        self._context.usage, self._context.usage_at = dict(meter.measure(shares)), now
        self._sample_suspended(meter, now)
        for record in running:
            use = self._context.usage[record.workload.id].utilisation
            if use is not None or record.workload.id in self._context.moving:  # programs wait while the driver moves it
                self._note_known(record, now)
            is_moved = record.detail.suspension is not None  # the move of its memory may look like a use
            if use is not None and use > _least_activity(record.workload) and not is_moved:
                self._last_use[record.workload.id] = now
                self._record_use(record.workload, now)
            if self._context.usage[record.workload.id] != before.get(record.workload.id):
                self._announce(record.workload.id)
        ids = {record.workload.id for record in running}
        self._last_use = {name: at for name, at in self._last_use.items() if name in ids}
        self._known_at = {name: at for name, at in self._known_at.items() if name in ids}
        self._gap_end = {name: at for name, at in self._gap_end.items() if name in ids}

    def _note_known(self, record: Record, now: Instant) -> None:
        """Record that the use of a share is known at `now`, and the end of a gap if it was unknown for too long."""
        workload, longest = record.workload, self._context.settings.policy.idle.fresh
        awake, known_at = self._context.clock.awake(), self._known_at.get(workload.id)
        if known_at is not None:
            gap = awake - known_at
        else:
            # Without an earlier sample, the share is known since its start: before it, nothing could use the share.
            gap = 0.0 if workload.started_at is None else now - workload.started_at
        is_decided = workload.activity is not None and _is_about_to_be_taken(record, workload.activity)
        if gap > longest and not (known_at is None and is_decided):
            self._gap_end[workload.id] = now
        self._known_at[workload.id] = awake

    def move(self, seconds: float) -> None:
        """Move the times that are kept here by `seconds`, after the wall clock was set by so much (+ = forward).

        None is later than now afterwards.
        """
        now = self._context.clock.now()
        for times in (self._last_use, self._gap_end):
            times.update({name: Instant(min(now, at + seconds)) for name, at in times.items()})

    def _sample_suspended(self, meter: ShareMeter, now: Instant) -> None:
        """Record suspended notebooks as used whose processes hold memory of a device that is lent."""
        suspended = [each for each in self._context.records.notebooks() if each.workload.state is State.SUSPENDED]
        uses = meter.measure({record.workload.id: self._make_share(record) for record in suspended})
        self._awakened = {name for name, use in uses.items() if use.memory}
        for record in suspended:
            workload, before = record.workload, record.workload.activity
            if workload.id in self._awakened and before is not None and before.busy is not True:
                self._store_activity(workload, before, _next_activity(before, True, now, now))

    def keep(self, caller: Caller, record: Record) -> None:
        """Postpone the eviction of an idle notebook by one step of "Keep it": save the step and withdraw the warning.

        Raises `Conflict` if the share is not about to be taken or was taken already, or if the bound is reached.
        """
        workload, rule = record.workload, self._context.settings.policy.idle
        activity = workload.activity
        if activity is None or not _is_about_to_be_taken(record, activity):
            raise Conflict(_explain_nothing_to_keep(workload, self._context.clock.now()))
        step = keep_seconds(activity, rule)
        if step <= 0:
            raise Conflict(
                f'"Keep it" has been used for {describe_duration(rule.keep_total)}, which is all there is. '
                "Run a cell to keep the share."
            )
        log.info("%s of %s is kept for another %d s", workload.id, workload.owner, step, extra=workload.log_fields)
        now = self._context.clock.now()
        kept = replace(
            activity,
            expire_at=None,
            # A short step must not end before the time that the warning named.
            kept_until=Instant(max(now + step, activity.expire_at or 0.0)),
            kept_total=activity.kept_total + step,
        )
        fields, detail = WorkloadChange(activity=kept), DetailChange(warning="")
        audit = act_of(caller, Action.NOTEBOOK_KEEP, workload, now, seconds=step)
        self._context.records.commit([Change(workload=workload.id, fields=fields, detail=detail, audit=audit)])

    def _consider_share(self, workload: Workload, busy: bool | None) -> bool | None:
        """Return `busy`, as the kernels say it; None instead of False if the use of a GPU share cannot be measured.

        A suspended notebook whose processes hold device memory is busy.
        """
        if workload.state is State.SUSPENDED and workload.id in self._awakened:
            return True
        if busy is not False or not _has_share(workload) or self._context.meter is None:
            return busy
        use = self._context.usage.get(workload.id)
        return None if use is None or use.utilisation is None else False

    def _running_jobs(self) -> list[Record]:
        """Return the running jobs with a GPU whose use can be measured: here by their processes, or by agents."""
        return [
            record
            for record in self._context.records.holding()
            if record.workload.kind is Kind.TRAINING
            and _has_share(record.workload)
            and (self._context.pids.get(record.workload.id) or self._context.reports_use(Kind.TRAINING))
        ]

    def _make_share(self, record: Record) -> Share:
        """Return the devices and processes of a workload, without the process of a server, for the meter."""
        server = record.detail.pid
        return Share(
            # Several tasks of a job may be on one device, which is measured once.
            devices=tuple(dict.fromkeys(device for task in record.workload.held_places for device in task.devices)),
            # The server process itself never uses the share: its work for an open browser tab is no activity.
            pids=tuple(pid for pid in self._context.pids.get(record.workload.id, ()) if pid != server),
        )

    def _record_use(self, workload: Workload, now: Instant) -> None:
        """Record that the share of a notebook was in use at `now`; does nothing before its server's first report."""
        before = workload.activity
        if before is not None:
            self._store_activity(workload, before, _next_activity(before, before.busy, now, before.sampled_at))

    def _store_activity(self, workload: Workload, before: Activity | None, after: Activity) -> None:
        """Set the activity of a notebook; save it only if it is the first one or `busy` or "Keep it" has changed."""
        change = Change(workload=workload.id, fields=WorkloadChange(activity=after))
        if before is None or (before.busy, before.kept_total) != (after.busy, after.kept_total):
            self._context.records.commit([change])
        else:
            self._context.records.change_in_memory(change)


def is_any_kernel_busy(kernels: Sequence[KernelActivity]) -> bool | None:
    """Return True if a kernel is busy, else None if a kernel's state is unknown, else False; False without kernels."""
    states = [kernel.busy for kernel in kernels]
    if any(states):
        return True
    return None if any(state is None for state in states) else False


def _next_activity(before: Activity | None, busy: bool | None, active: Instant, sampled_at: Instant) -> Activity:
    """Return the activity after a report or a sample; the time of the last activity never goes back.

    If the notebook was used again since `before`, the bound of "Keep it" starts again.
    """
    if before is None:
        return Activity(busy=busy, last_active=active, sampled_at=sampled_at)
    last = max(active, before.last_active or 0.0)
    used_again = before.last_active is not None and last > before.last_active
    return replace(
        before,
        busy=busy,
        last_active=Instant(last),
        sampled_at=sampled_at,
        kept_total=0.0 if used_again else before.kept_total,
    )


def _is_about_to_be_taken(record: Record, activity: Activity) -> bool:
    """Return whether the owner of a share is warned, or its suspension is decided, which may be without a warning."""
    is_decided = activity.expire_at is not None or record.detail.suspension is not None
    return is_decided and record.workload.state is State.RUNNING


def _explain_nothing_to_keep(workload: Workload, now: Instant) -> str:
    """Return why "Keep it" does nothing for a notebook that has no warning, as a sentence for its owner."""
    kept_until = None if workload.activity is None else workload.activity.kept_until
    if workload.state is State.RUNNING and kept_until is not None and now < kept_until:
        return "The share is kept already, so there is nothing more to keep for now."
    return _TOO_LATE.get(notebook_phase(workload), "The share is not about to be taken, so there is nothing to keep.")


def _least_activity(workload: Workload) -> float:
    """Return the per cent of a device above which the use of a notebook's share counts as activity."""
    return ACTIVE_UTILISATION * min(ONE_GPU, workload.milli) / ONE_GPU


def _has_share(workload: Workload) -> bool:
    """Return whether the workload runs and has a GPU."""
    return workload.state is State.RUNNING and workload.request.devices > 0
