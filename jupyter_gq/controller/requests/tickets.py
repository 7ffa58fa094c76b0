"""The requests of spawners and notebook servers: a ticket is the request of one server for its share.

Rules
-----
1. One server has one ticket that counts, the newest. Asking again returns it while it waits for its process.
2. A ticket that nobody asks after for `UNFOLLOWED` seconds lapses, unless a process holds its share, or its server
   needs no GPU: that one has started without waiting.
3. What the spawner gives back is free when the process is gone, not before; the spawner ends the process itself.
"""

from dataclasses import replace

from jupyter_gq.client.models import (
    ActivityReport,
    NotebookList,
    NotebookView,
    ProcessReport,
    TaskDeviceCheck,
    TicketRequest,
    TicketView,
)
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.act import make_stop_change
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.records.last_evictions import forget_eviction
from jupyter_gq.controller.views.presenter import Presenter
from jupyter_gq.domain.amount import Instant, Seconds, parse_request
from jupyter_gq.domain.errors import Conflict, NotFound
from jupyter_gq.domain.queue import build_queue
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import FINAL, Event, State
from jupyter_gq.domain.workload import Kind, Request, Stop, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.scheduling.preview import admission
from jupyter_gq.store.protocol import Record

from .activity import ActivityLog
from .device_checks import DeviceChecks

#: A ticket without a process lapses when nobody has asked after it for so long.
UNFOLLOWED = Seconds(60)
_ENDED = "This ticket has ended; ask for a new one."


class Tickets:
    """The requests about notebooks. One that is not the caller's is `NotFound`."""

    def __init__(self, context: Context, presenter: Presenter, activity: ActivityLog, checks: DeviceChecks) -> None:
        self._context, self._presenter, self._activity, self._checks = context, presenter, activity, checks

    def open(self, caller: Caller, request: TicketRequest) -> tuple[TicketView, bool]:
        """Return the ticket of that server: a new one (True), unless an equal ticket waits for its process."""
        context = self._context
        context.meet(caller)
        wanted = context.request(Kind.NOTEBOOK, parse_request(request.gpus))
        present = self._present(caller.user, request.server)
        if present is not None and present.workload.request == wanted and present.detail.pid is None:
            return self._followed(present), False
        record = self._new(caller, request.server, wanted)
        self._check(caller, record.workload, present)
        if present is not None:
            context.records.commit(self._given_back(present, "Replaced by a new request."))
        context.records.add(record)
        if wanted.devices:
            forget_eviction(context.store, caller.user)
        context.wake()
        return self._followed(record), True

    def show(self, caller: Caller, ticket: str) -> TicketView:
        """Return the ticket as it is now; asking keeps it from lapsing."""
        return self._followed(self._own(caller, ticket))

    def close(self, caller: Caller, ticket: str) -> None:
        """Give it back. No error when it has ended already."""
        record = self._own(caller, ticket)
        if record.workload.state not in FINAL:
            self._context.records.commit(self._given_back(record, ""))
            self._context.wake()

    def attach(self, caller: Caller, ticket: str, report: ProcessReport) -> None:
        """Record the process that holds the share; raise `Conflict` if the ticket expects none."""
        record = self._own(caller, ticket)
        workload = record.workload
        if workload.state in FINAL or workload.stop is not None:
            raise Conflict(_ENDED)
        expected = workload.state in {State.STARTING, State.RUNNING}
        if not expected and workload.request.devices:
            raise Conflict("This ticket still waits for its share; start the server when it is admitted.")
        attachment = self._context.backend_of(Kind.NOTEBOOK).capabilities.process_attachment
        known = (workload.id, workload.run) in self._context.known_runs
        if expected and known and attachment is not None:
            attachment.attach(workload.id, workload.run, report.pid, report.started)
        elif record.detail.pid not in {None, report.pid}:
            raise Conflict(
                f"Another process was reported for {workload.id} before; it is not known yet whether it lives."
            )
        # A server without GPU may be faster than the loop, and so may a spawner after a restart of the service: the
        # backend then hears of the process with the launch, and looks at it as closely.
        detail = DetailChange(pid=report.pid, pid_started=report.started)
        self._context.records.commit([Change(workload=workload.id, detail=detail)])
        self._context.wake()

    async def check_devices(self, caller: Caller, ticket: str, wait: float) -> TaskDeviceCheck:
        """Return the device check of the ticket's server; wait at most `wait` seconds until it is settled."""
        return await self._checks.wait(lambda: self._holding(caller, ticket).workload, 0, wait)

    def list_notebooks(self, caller: Caller, owner: str | None = None) -> NotebookList:
        """Return the notebooks that run or wait, newest first; `owner` is for admins only, "*" = all owners."""
        whose = owner if owner is not None and caller.admin else caller.user
        found = [record for record in self._context.records.notebooks() if whose in {"*", record.workload.owner}]
        found.sort(key=_age, reverse=True)
        return NotebookList(notebooks=[self._presenter.notebook(record) for record in found])

    def record_activity(self, caller: Caller, server: str, report: ActivityReport) -> None:
        """Record the activity of the server's kernels."""
        self._activity.report(self._of_server(caller, server), report)

    def keep(self, caller: Caller, server: str) -> NotebookView:
        """Keep an idle share, as its owner asks; raise `Conflict` if there is no warning or the bound is reached."""
        record = self._of_server(caller, server)
        self._activity.keep(record)
        self._context.wake()
        return self._presenter.notebook(self._own(caller, record.workload.id))

    def expire(self) -> None:
        """Let the tickets lapse that nobody follows."""
        context = self._context
        now = context.clock.now()
        waiting = [record for record in context.records.notebooks() if _waits(record)]
        for record in waiting:
            context.followed.setdefault(record.workload.id, now)
        ids = {record.workload.id for record in waiting}
        context.followed = {name: at for name, at in context.followed.items() if name in ids}
        lapsed = [record for record in waiting if now > context.followed[record.workload.id] + UNFOLLOWED]
        told = f"The request lapsed: nobody asked after it for {UNFOLLOWED:.0f} s."
        context.records.commit([change for record in lapsed for change in self._given_back(record, told)])

    # --- inside

    def _followed(self, record: Record) -> TicketView:
        workload = record.workload
        self._context.followed[workload.id] = self._context.clock.now()
        view = self._presenter.ticket(record)
        preparation = self._context.backend_of(Kind.NOTEBOOK).capabilities.pod_preparation
        if view.pod is not None and preparation is not None:
            named = dict(preparation.named_devices(workload.id, workload.run))
            if named != record.detail.named_devices:
                # Written down before the spawner is answered: whoever serves next must know what its pod will name.
                self._context.records.commit([Change(workload=workload.id, detail=DetailChange(named_devices=named))])
        return view

    def _new(self, caller: Caller, server: str, request: Request) -> Record:
        workload = Workload(
            id=f"nb-{self._context.new_id()}",
            kind=Kind.NOTEBOOK,
            owner=caller.user,
            name=server,
            queue=build_queue(caller.user),
            request=request,
            preemptible=False,
            submitted_at=self._context.clock.now(),
        )
        return Record(workload=workload, detail=WorkloadDetail(owner_groups=frozenset(caller.groups)))

    def _check(self, caller: Caller, workload: Workload, replaced: Record | None) -> None:
        """Within the fixed quota, and possible at all. What the new ticket replaces is not counted."""
        snapshot = self._context.snapshot([caller])
        gone = replaced.workload.id if replaced is not None else ""
        others = tuple(other for other in snapshot.workloads if other.id != gone)
        snapshot = replace(snapshot, workloads=others)
        admission.check_fixed_quota(snapshot, workload)
        admission.check_fits(snapshot, workload)

    def _given_back(self, record: Record, told: str) -> list[Change]:
        """Return the changes that end a ticket. The spawner ends the process of the ticket, if there is one."""
        workload, now = record.workload, self._context.clock.now()
        sentence = DetailChange(sentence=told) if told else DetailChange()
        if not workload.holds:
            fields = WorkloadChange(finished_at=now)
            return [Change(workload=workload.id, event=Event.CANCELLED, fields=fields, detail=sentence)]
        given_back = DetailChange(given_back=True)
        if workload.stop is not None:
            return [Change(workload=workload.id, detail=given_back)]
        stop = Stop(
            reason=EvictReason.STOPPED_BY_USER,
            sentence="The server is being stopped.",
            by=None,
            at=now,
            requeue=False,
        )
        return [make_stop_change(workload, stop, {**given_back, **sentence})]

    def _present(self, user: str, server: str) -> Record | None:
        """Return the newest ticket of that server that nobody has ended; None if there is none."""
        return max((r for r in self._tickets_of(user, server) if r.workload.stop is None), key=_age, default=None)

    def _of_server(self, caller: Caller, server: str) -> Record:
        """Return the ticket of the server that asks; the ticket may be stopping."""
        record = self._present(caller.user, server)
        record = record or max(self._tickets_of(caller.user, server), key=_age, default=None)
        if record is None:
            raise NotFound(f"There is no notebook server {server!r} of yours with a ticket.")
        return record

    def _tickets_of(self, user: str, server: str) -> list[Record]:
        return [
            record
            for record in self._context.records.notebooks()
            if (record.workload.owner, record.workload.name) == (user, server)
        ]

    def _own(self, caller: Caller, ticket: str) -> Record:
        record = self._context.records.get(ticket)
        if record is None or record.workload.kind is not Kind.NOTEBOOK or not caller.may_see(record.workload.owner):
            raise NotFound(f"There is no ticket {ticket!r}.")
        return record

    def _holding(self, caller: Caller, ticket: str) -> Record:
        record = self._own(caller, ticket)
        if not record.workload.holds:
            raise Conflict(_ENDED if record.workload.state in FINAL else "This ticket still waits for its share.")
        return record


def _age(record: Record) -> tuple[Instant, str]:
    return record.workload.submitted_at, record.workload.id


def _waits(record: Record) -> bool:
    unlaunched = record.workload.state in {State.PENDING, State.ADMITTED} and record.workload.stop is None
    return unlaunched and record.detail.pid is None and record.workload.request.devices > 0
