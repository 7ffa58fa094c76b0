"""How a notebook is used: reports of its kernels, samples of its share, and what its owner wants to keep.

Rules
-----
1. Active is: a kernel executes, or the share did some work (above `ACTIVE_UTILISATION`), whichever was last.
2. Unknown is never idle: a kernel in an unknown state, or a share that cannot be sampled, makes `busy` None.
3. "Keep it" is bounded: its total counts until the notebook is used again.
4. Samples live in memory and are worthless after a restart; what the owner decides, and warnings, are saved.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace

from jupyter_gq.client.models import ActivityReport, KernelActivity
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.views.views import duration, keep_seconds
from jupyter_gq.devices.meter import Share
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Activity, Workload
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

#: Per cent of a device from which its use counts: below lies what an idle process tree does anyway.
ACTIVE_UTILISATION = 5
SAMPLE_EVERY = Seconds(5)


class ActivityLog:
    """Keeps the activity of the running notebooks."""

    def __init__(self, context: Context, mention: Callable[[str], None]) -> None:
        """`mention` tells listeners how a notebook looks now."""
        self._context, self._mention = context, mention
        self._sampled_at: Instant | None = None
        #: When each notebook's share was last seen in use.
        self._last_use: dict[str, Instant] = {}

    def report(self, record: Record, report: ActivityReport) -> None:
        """Take in what the server's extension says of its kernels."""
        workload = record.workload
        if workload.state is not State.RUNNING:
            return
        now = self._context.clock.now()
        busy = self._with_share(workload, kernels_busy(report.kernels))
        last = max([kernel.last_active for kernel in report.kernels], default=0.0)
        before = workload.activity
        active = Instant(min(now, max(last, workload.started_at or 0.0, self._last_use.get(workload.id, 0.0))))
        if busy:
            active = now
        after = _renewed(before, busy, active, now)
        self._put(workload, before, after)

    def sample(self) -> None:
        """Look at what the shares do, at most every `SAMPLE_EVERY` seconds."""
        now = self._context.clock.now()
        meter = self._context.meter
        if meter is None or (self._sampled_at is not None and now < self._sampled_at + SAMPLE_EVERY):
            return
        self._sampled_at = now
        running = [record for record in self._context.records.notebooks() if _has_share(record.workload)]
        before = self._context.usage
        self._context.usage = dict(meter.measure({record.workload.id: self._share(record) for record in running}))
        for record in running:
            use = self._context.usage[record.workload.id].utilisation
            if use is not None and use > ACTIVE_UTILISATION:
                self._last_use[record.workload.id] = now
                self._used(record.workload, now)
            if self._context.usage[record.workload.id] != before.get(record.workload.id):
                self._mention(record.workload.id)
        ids = {record.workload.id for record in running}
        self._last_use = {name: at for name, at in self._last_use.items() if name in ids}

    def keep(self, record: Record) -> None:
        """Keep an idle share for a while, as its owner asks; raise `Conflict` if the bound is reached."""
        workload, rule = record.workload, self._context.settings.policy.idle
        activity = workload.activity
        if activity is None or activity.expire_at is None or workload.state is not State.RUNNING:
            raise Conflict("The share is not about to be taken, so there is nothing to keep.")
        step = keep_seconds(activity, rule)
        if step <= 0:
            raise Conflict(
                f'"Keep it" has been used for {duration(rule.keep_total)}, which is all there is. '
                "Run a cell to keep the share."
            )
        log.info("%s of %s is kept for another %d s", workload.id, workload.owner, step)
        kept = replace(
            activity,
            expire_at=None,
            kept_until=Instant(self._context.clock.now() + step),
            kept_total=activity.kept_total + step,
        )
        fields, detail = WorkloadChange(activity=kept), DetailChange(warning="")
        self._context.records.commit([Change(workload=workload.id, fields=fields, detail=detail)])

    def _with_share(self, workload: Workload, busy: bool | None) -> bool | None:
        """Return the kernels' state; None in place of idle if the share cannot be sampled."""
        if busy is not False or not _has_share(workload) or self._context.meter is None:
            return busy
        use = self._context.usage.get(workload.id)
        return None if use is None or use.utilisation is None else False

    def _share(self, record: Record) -> Share:
        server = record.detail.pid
        return Share(
            devices=tuple(device for task in record.workload.placement for device in task.devices),
            # The server process itself never uses the share; what it does for an open browser tab is no activity.
            pids=tuple(pid for pid in self._context.pids.get(record.workload.id, ()) if pid != server),
        )

    def _used(self, workload: Workload, now: Instant) -> None:
        before = workload.activity
        if before is not None:
            self._put(workload, before, _renewed(before, before.busy, now, before.sampled_at))

    def _put(self, workload: Workload, before: Activity | None, after: Activity) -> None:
        """Save what others look at; keep mere samples in memory."""
        change = Change(workload=workload.id, fields=WorkloadChange(activity=after))
        if before is None or (before.busy, before.kept_total) != (after.busy, after.kept_total):
            self._context.records.commit([change])
        else:
            self._context.records.note(change)


def kernels_busy(kernels: Sequence[KernelActivity]) -> bool | None:
    """Return True if a kernel is busy, None if none is and one is unknown, else False, also without any kernel."""
    states = [kernel.busy for kernel in kernels]
    if any(states):
        return True
    return None if any(state is None for state in states) else False


def _renewed(before: Activity | None, busy: bool | None, active: Instant, sampled_at: Instant) -> Activity:
    """Return the next activity. New use of the notebook gives the owner the full "Keep it" back."""
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
        kept_until=None if used_again else before.kept_until,
    )


def _has_share(workload: Workload) -> bool:
    return workload.state is State.RUNNING and workload.request.devices > 0
