"""The requests of spawners and notebook servers: a ticket is the request of one server for its share.

Rules
-----
One ticket: only the newest ticket of a server counts. An equal request returns the same ticket until a process was
reported for it.

Lapse: a ticket that nobody polls for `LAPSE_AFTER` seconds lapses, unless a process holds its share or its server needs
no GPU. A server without a GPU has started without waiting.

Giving back: a share that is given back is free when its process is gone, not before. The spawner itself ends the
process. A process that outlives its share is ended by the service, since the user can give the share back as well.
"""

from collections.abc import Iterable
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
from jupyter_gq.controller.records.acts import act_of, act_of_scheduler
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.views.presenter import Presenter
from jupyter_gq.domain.amount import MiB, Seconds, parse_request
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.errors import Conflict, LimitReached, NotFound
from jupyter_gq.domain.queue import build_queue
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import FINAL, Event, State
from jupyter_gq.domain.workload import Kind, Request, Stop, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.scheduling.preview import admission
from jupyter_gq.store.protocol import PageSize, Record

from .activity import ActivityLog
from .device_checks import DeviceChecks

#: Time without a poll after which a ticket without a process lapses.
LAPSE_AFTER = Seconds(60)
#: The most notebooks in one page.
MOST_NOTEBOOKS = 500
_ENDED = "This ticket has ended; ask for a new one."


class Tickets:
    """The requests about notebooks and tickets. A ticket that the caller may not see raises `NotFound`."""

    def __init__(self, context: Context, presenter: Presenter, activity: ActivityLog, checks: DeviceChecks) -> None:
        self._context, self._presenter, self._activity, self._checks = context, presenter, activity, checks

    def open(self, caller: Caller, request: TicketRequest) -> tuple[TicketView, bool]:
        """Return the ticket for the share of the caller's server, and whether it is new; a new one joins its queue.

        An open ticket for the same amount, without a process, is returned again; any other open ticket of the server is
        ended. A new ticket with a GPU deletes the caller's stored last eviction. Raises `InvalidAmount` for an invalid
        amount, and `QuotaExceeded` or `NeverFits` if the share is not possible.
        """
        context = self._context
        context.remember_groups(caller)
        wanted = context.request(Kind.NOTEBOOK, parse_request(request.gpus))
        present = self._newest_open_ticket(caller.user, request.server)
        if present is not None and present.workload.request == wanted and present.detail.pid is None:
            return self._show_polled(present), False
        record = self._make_record(caller, request.server, wanted)
        self._check_admissible(caller, record.workload, present)
        if wanted.devices:
            self._check_limit(caller, present)
        end = [] if present is None else self._end_ticket(present, "Replaced by a new request.", caller)
        act = act_of(caller, Action.NOTEBOOK_REQUEST, record.workload, record.workload.submitted_at)
        context.records.add(record, act, end)
        context.wake()
        return self._show_polled(record), True

    def show(self, caller: Caller, ticket: str) -> TicketView:
        """Return the present view of a ticket; this poll keeps the ticket from lapsing."""
        return self._show_polled(self._find_ticket(caller, ticket))

    def close(self, caller: Caller, ticket: str) -> None:
        """End a waiting ticket, or give back the share of a ticket; the share is free once its process is gone.

        Does nothing if the ticket has ended already.
        """
        record = self._find_ticket(caller, ticket)
        if record.workload.state not in FINAL:
            self._context.records.commit(self._end_ticket(record, "", caller))
            self._context.wake()

    def attach(self, caller: Caller, ticket: str, report: ProcessReport) -> None:
        """Store the process that holds the share of a ticket, and hand it to the backend if the backend waits for it.

        Raises `Conflict` if the ticket has ended, still waits for its share, or has another process, or if the process
        is not a server of the ticket's owner; `BackendError` if that cannot be known yet.
        """
        record = self._find_ticket(caller, ticket)
        workload = record.workload
        if workload.state in FINAL or workload.stop is not None:
            raise Conflict(_ENDED)
        expected = workload.state in {State.STARTING, State.RUNNING, State.SUSPENDED, State.RESUMING}
        if not expected and workload.request.devices:
            raise Conflict("This ticket still waits for its share; start the server when it is admitted.")
        attachment = self._context.backend_of(Kind.NOTEBOOK).capabilities.process_attachment
        if attachment is not None:  # also before the launch, which takes the recorded process as checked
            attachment.check_process(workload.owner, report.pid, report.started)
        known = (workload.id, workload.run) in self._context.known_runs
        if expected and known and attachment is not None:
            attachment.attach(workload.id, workload.run, report.pid, report.started)
        elif record.detail.pid not in {None, report.pid}:
            raise Conflict(
                f"Another process was reported for {workload.id} before; it is not known yet whether it lives."
            )
        # The report may come before the launch: for a server without a GPU, or after a restart of the service. Then the
        # backend gets the process with the launch.
        detail = DetailChange(pid=report.pid, pid_started=report.started)
        self._context.records.commit([Change(workload=workload.id, detail=detail)])
        self._context.wake()

    async def check_devices(self, caller: Caller, ticket: str, wait: float) -> TaskDeviceCheck:
        """Return the device check of the ticket's server, once it is settled or after `wait` seconds.

        Raises `Conflict` if the ticket does not hold its share, and `NotFound` if servers are not pods.
        """
        return await self._checks.wait(lambda: self._find_holding_ticket(caller, ticket).workload, 0, wait)

    def list_notebooks(
        self, caller: Caller, owner: str | None = None, *, limit: int = MOST_NOTEBOOKS, before: str | None = None
    ) -> NotebookList:
        """Return at most `limit` notebooks that have not ended, newest first, and the `before` of the next page.

        `owner` selects another user's notebooks, or those of all users if "*". For callers who are not admins, `owner`
        is ignored. `before` is the id of the last notebook of the previous page; None begins with the newest.
        On the last page `next` is None. Raises `NotFound` if there is no notebook `before` that the caller may see.
        """
        whose = owner if owner is not None and caller.admin else caller.user
        found = [record for record in self._context.records.notebooks() if whose in {"*", record.workload.owner}]
        found.sort(key=lambda record: record.workload.submission, reverse=True)
        if before is not None:
            start = self._find_before(caller, before)
            found = [record for record in found if record.workload.submission < start.workload.submission]
        page = PageSize(entries=limit, size=self._context.settings.max_page_bytes)
        views = (view for record in found for view in self._presenter.show_each([record], self._presenter.notebook))
        shown = page.take(views, lambda view: len(view.model_dump_json()))
        more = bool(shown) and shown[-1].id != found[-1].workload.id
        return NotebookList(notebooks=shown, next=shown[-1].id if more else None)

    def _find_before(self, caller: Caller, before: str) -> Record:
        """Return the notebook at which a page begins; raise `NotFound` if there is none that the caller may see."""
        record = self._context.records.get(before)
        if record is None or record.workload.kind is not Kind.NOTEBOOK or not caller.may_see(record.workload.owner):
            raise NotFound(f"before: there is no notebook {before!r}. Begin with the first page.")
        return record

    def count_troubled(self) -> int:
        """Return how many notebooks that have not ended have a problem."""
        found = self._presenter.show_each(self._context.records.notebooks(), self._presenter.notebook)
        return sum(1 for view in found if view.trouble)

    def count_suspended(self) -> tuple[int, MiB]:
        """Return how many notebooks are suspended, and the host memory that their GPU state takes."""
        found = [each for each in self._context.records.notebooks() if each.workload.state is State.SUSPENDED]
        saved = [each.detail.suspension for each in found]
        return len(found), MiB(sum(each.memory or 0 for each in saved if each is not None))

    def record_activity(self, caller: Caller, server: str, report: ActivityReport) -> None:
        """Record a report about the kernels of the caller's server; raise `NotFound` if the server has no ticket."""
        self._activity.report(self._ticket_of_server(caller, server), report)

    def keep(self, caller: Caller, server: str) -> NotebookView:
        """Postpone the eviction of the caller's idle server by one step of "Keep it", and return the notebook.

        Raises `NotFound` if the server has no ticket, and `Conflict` if the share is not about to be taken, or if the
        bound is reached.
        """
        record = self._ticket_of_server(caller, server)
        self._activity.keep(caller, record)
        self._context.wake()
        return self._presenter.notebook(self._find_ticket(caller, record.workload.id))

    def expire(self) -> None:
        """End all waiting tickets that nobody has polled for `LAPSE_AFTER` seconds.

        A ticket without a recorded poll, such as after a restart, counts as polled now.
        """
        context = self._context
        now = context.clock.awake()
        waiting = [record for record in context.records.notebooks() if _waits(record)]
        for record in waiting:
            context.ticket_polled_at.setdefault(record.workload.id, now)
        ids = {record.workload.id for record in waiting}
        context.ticket_polled_at = {name: at for name, at in context.ticket_polled_at.items() if name in ids}
        lapsed = [record for record in waiting if now > context.ticket_polled_at[record.workload.id] + LAPSE_AFTER]
        told = f"The request lapsed: nobody asked after it for {LAPSE_AFTER:.0f} s."
        context.records.commit_each([change for record in lapsed for change in self._end_ticket(record, told, None)])

    # --- inside

    def _show_polled(self, record: Record) -> TicketView:
        """Record that a ticket was polled now, and return its view.

        If the view names devices for the server's pod, they are saved first.
        """
        workload = record.workload
        self._context.ticket_polled_at[workload.id] = self._context.clock.awake()
        view = self._presenter.ticket(record)
        preparation = self._context.backend_of(Kind.NOTEBOOK).capabilities.pod_preparation
        if view.pod is not None and preparation is not None:
            named = dict(preparation.named_devices(workload.id, workload.run))
            if named != record.detail.named_devices:
                # Saved before the answer: after a takeover the next service must know the devices that the pod names.
                self._context.records.commit([Change(workload=workload.id, detail=DetailChange(named_devices=named))])
        return view

    def _make_record(self, caller: Caller, server: str, request: Request) -> Record:
        """Return the record of a new pending ticket; nothing is stored."""
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

    def _check_admissible(self, caller: Caller, workload: Workload, replaced: Record | None) -> None:
        """Raise `QuotaExceeded` or `NeverFits` if the share is beyond the fixed quota or could never be placed.

        The ticket `replaced`, which is about to end, is not counted.
        """
        snapshot = self._context.snapshot([caller])
        gone = replaced.workload.id if replaced is not None else ""
        others = tuple(other for other in snapshot.workloads if other.id != gone)
        snapshot = replace(snapshot, workloads=others)
        admission.check_fixed_quota(snapshot, workload)
        admission.check_fits(snapshot, workload)

    def _check_limit(self, caller: Caller, replaced: Record | None) -> None:
        """Raise `LimitReached` if as many tickets of the caller wait as the settings allow, without `replaced`."""
        most = self._context.settings.max_waiting_tickets_per_user
        own = [each for each in self._context.records.notebooks() if each.workload.owner == caller.user]
        waiting = sum(1 for each in own if each is not replaced and _waits(each))
        if waiting >= most:
            raise LimitReached(
                f"{waiting} of your servers wait for a GPU, and at most {most} may. Stop one, or wait for a start."
            )

    def _end_ticket(self, record: Record, told: str, caller: Caller | None) -> list[Change]:
        """Return the changes that end a ticket, with the sentence `told` for its owner, or none if that is "".

        A ticket without a share ends at once. The share of another one is marked as given back, and its spawner ends
        the process; see `loop.runs.given_back` for a process that lives on. A ticket that is stopping already keeps its
        sentence. `caller` is None if the scheduler itself ends the ticket.
        """
        workload, now = record.workload, self._context.clock.now()
        if caller is None:
            audit = act_of_scheduler(Action.NOTEBOOK_RELEASE, workload, now, reason=told)
        else:
            audit = act_of(caller, Action.NOTEBOOK_RELEASE, workload, now, reason=told or None)
        sentence = DetailChange(sentence=told) if told else DetailChange()
        if not workload.holds:
            fields = WorkloadChange(finished_at=now)
            return [Change(workload=workload.id, event=Event.CANCELLED, fields=fields, detail=sentence, audit=audit)]
        given_back = DetailChange(given_back=True)
        if workload.stop is not None:
            return [Change(workload=workload.id, detail=given_back, audit=audit)]
        stop = Stop(
            reason=EvictReason.STOPPED_BY_USER,
            sentence="The server is being stopped.",
            by=None,
            at=now,
            requeue=False,
        )
        return [make_stop_change(workload, stop, {**given_back, **sentence}, audit)]

    def _newest_open_ticket(self, user: str, server: str) -> Record | None:
        """Return the newest unfinished ticket of a server that has not been told to end; None if there is none."""
        return _find_newest(r for r in self._tickets_of(user, server) if r.workload.stop is None)

    def _ticket_of_server(self, caller: Caller, server: str) -> Record:
        """Return the newest open ticket of the caller's server, or else its newest ticket that is ending.

        Raises `NotFound` if there is neither.
        """
        record = self._newest_open_ticket(caller.user, server)
        record = record or _find_newest(self._tickets_of(caller.user, server))
        if record is None:
            named = f"notebook server {server!r}" if server else "default notebook server"
            raise NotFound(f"There is no {named} of yours with a ticket. Start it on the page of the Hub.")
        return record

    def _tickets_of(self, user: str, server: str) -> list[Record]:
        """Return the records of a server's tickets that have not ended."""
        return [
            record
            for record in self._context.records.notebooks()
            if (record.workload.owner, record.workload.name) == (user, server)
        ]

    def _find_ticket(self, caller: Caller, ticket: str) -> Record:
        """Return the record of a ticket that the caller may see; raise `NotFound` for any other."""
        record = self._context.records.get(ticket)
        if record is None or record.workload.kind is not Kind.NOTEBOOK or not caller.may_see(record.workload.owner):
            raise NotFound(f"There is no ticket {ticket!r}.")
        return record

    def _find_holding_ticket(self, caller: Caller, ticket: str) -> Record:
        """Return the record of a ticket that holds its share; raise `Conflict` if it does not."""
        record = self._find_ticket(caller, ticket)
        if not record.workload.holds:
            raise Conflict(_ENDED if record.workload.state in FINAL else "This ticket still waits for its share.")
        return record


def _find_newest(records: Iterable[Record]) -> Record | None:
    """Return the record of the workload that was submitted last; None if there are no records."""
    return max(records, key=lambda record: record.workload.submission, default=None)


def _waits(record: Record) -> bool:
    """Return whether a ticket with a GPU has not been launched, was not told to end, and has no process."""
    unlaunched = record.workload.state in {State.PENDING, State.ADMITTED} and record.workload.stop is None
    return unlaunched and record.detail.pid is None and record.workload.request.devices > 0
