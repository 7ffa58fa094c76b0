"""The facade: requests in, the loop beside them. The only object that `api` and `app` know of this room.

Guarantees
----------
1. The loop is level-triggered: killed at any instant and started again over the same store and backends, it goes on.
2. A failing step is logged and tried again; it never ends the loop. Only another service does, which has taken over, or
   which shall lead since this one does not reach the store.
3. Requests are answered from records, also while a backend is slow.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version

from jupyter_gq.backends.bundles import BundleStore
from jupyter_gq.backends.protocol import Backend
from jupyter_gq.client.agents import AgentOrders, AgentReport
from jupyter_gq.client.models import (
    ActivityReport,
    DeviceList,
    Health,
    Heartbeat,
    JobList,
    JobRequest,
    JobSubmission,
    JobToken,
    JobView,
    Me,
    NotebookList,
    NotebookView,
    OutputPage,
    Preview,
    ProcessReport,
    QueueList,
    TaskDevices,
    TicketRequest,
    TicketView,
)
from jupyter_gq.client.state import LiveState, state_document
from jupyter_gq.devices.meter import ProbeMeter, ShareMeter
from jupyter_gq.devices.probe import DeviceProbe, ProbeState
from jupyter_gq.domain import validate
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import NotLeading, StoreAway, StoreUnavailable, Superseded
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.decision import Admit, Decision
from jupyter_gq.store.protocol import Store

from .caller import Caller
from .clock import Clock
from .context import Context
from .events import Broker, Subscription
from .loop.act import Actor
from .loop.decide import Deciding
from .loop.forecasts import Forecasts
from .loop.invariants import check_books, check_limits, check_possible, check_runs
from .loop.leadership import Duty
from .loop.observe import Observer, Seen
from .loop.pacing import Pacing
from .loop.past_usage import PastUse
from .loop.retention import Retention
from .loop.store_outage import Absence
from .loop.unobserved import BLIND, only_seen
from .records.records import Records
from .requests.activity import ActivityLog
from .requests.device_checks import Looks
from .requests.jobs import Jobs
from .requests.pods import Agents, JobPods
from .requests.tickets import Tickets
from .settings.config import SettingsSource
from .signal import Signal
from .views.overview import Overview
from .views.presenter import Presenter

log = logging.getLogger(__name__)

#: Without being woken, the loop looks again so often.
TICK = Seconds(1)
#: So many times as long as a step took, requests and what the backends do beside it have the loop for themselves: where
#: thousands of things happen at once, steps would otherwise follow each other without end. At most so many seconds.
PAUSE, MOST_PAUSE = 8.0, 1.0
#: Seconds between two looks whether a backend can begin more of what was decided.
_SLICE = 0.1
_UNDER_WAY = frozenset({State.ADMITTED, State.STARTING, State.STOPPING})
#: The config file is looked at when so much time has passed: with a tick in between, every two seconds at the latest.
REFRESH = Seconds(1)


def always() -> bool:
    """Where there is one service only."""
    return True


def random_id() -> str:
    """Ten characters that are safe in an address and a file name, and are not guessed."""
    return secrets.token_hex(5)


def random_token() -> str:
    """A secret for a runner."""
    return secrets.token_urlsafe(32)


@dataclass(kw_only=True, slots=True)
class Controller:
    """Scheduler service without its doors."""

    store: Store
    backends: Sequence[Backend]
    settings: SettingsSource
    clock: Clock
    bundles: BundleStore
    probe: DeviceProbe | None = None
    #: How the use of shares is measured; None: by the probe, if there is one.
    meter: ShareMeter | None = None
    new_id: Callable[[], str] = random_id
    new_token: Callable[[], str] = random_token
    #: Whether this service may act now: where several share a lease, only who holds it may.
    leads: Callable[[], bool] = always
    #: How long a store that does not answer is borne.
    absence: Absence = field(default_factory=Absence)
    #: Check after every step what must always hold; a breach is raised (and so logged by `run`).
    check_invariants: bool = False
    _awake: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    #: Fired when something may have changed for those who wait in a request.
    _moved: Signal = field(init=False, default_factory=Signal)
    #: What failed the last time the loop did it, and why.
    _failures: dict[str, str] = field(init=False, default_factory=dict)
    _context: Context = field(init=False)
    _duty: Duty = field(init=False)
    _deciding: Deciding = field(init=False)
    _pacing: Pacing = field(init=False)
    _presenter: Presenter = field(init=False)
    _jobs: Jobs = field(init=False)
    _pods: JobPods = field(init=False)
    _agents: Agents = field(init=False)
    _tickets: Tickets = field(init=False)
    _overview: Overview = field(init=False)
    _activity: ActivityLog = field(init=False)
    _observer: Observer = field(init=False)
    _actor: Actor = field(init=False)
    _past_use: PastUse = field(init=False)
    _retention: Retention = field(init=False)
    _forecasts: Forecasts = field(init=False)

    def __post_init__(self) -> None:
        """Take up what the store remembers. Nothing is done before `run` or `step`."""
        broker = Broker(self.store)
        self._context = Context(
            store=self.store,
            backends=tuple(self.backends),
            settings_source=self.settings,
            clock=self.clock,
            bundles=self.bundles,
            probe=self.probe,
            meter=self.meter or (None if self.probe is None else ProbeMeter(self.probe)),
            new_id=self.new_id,
            new_token=self.new_token,
            wake=self.wake,
            broker=broker,
        )
        self._duty = Duty(self._context, self.leads, self.absence)
        self._deciding = Deciding(self._context)
        self._pacing = Pacing(self._context)
        self._presenter = Presenter(self._context)
        self._context.records = Records(self.store, self.clock, self._presenter.describe, broker.publish)
        self._activity = ActivityLog(self._context, self._presenter.mention)
        looks = Looks(context=self._context, moved=self._moved)
        self._pods = JobPods(self._context, looks)
        self._agents = Agents(context=self._context, moved=self._moved)
        self._jobs = Jobs(self._context, self._presenter, self._pods, self._deciding)
        self._tickets = Tickets(self._context, self._presenter, self._activity, looks)
        self._overview = Overview(self._context, self._deciding)
        self._observer = Observer(self._context)
        self._actor = Actor(self._context)
        self._past_use = PastUse(self._context)
        self._retention = Retention(self._context)
        self._forecasts = Forecasts(self._context, self._presenter.mention)

    # --- the loop

    async def run(self) -> None:
        """Step whenever something happened, and at least once a `TICK`, until cancelled.

        Raises `Superseded` when another service has taken over: this one must end; `StoreAway` when it should not lead.
        """
        loop = asyncio.get_running_loop()
        refreshed = loop.time()
        beside = [
            asyncio.create_task(self._retention.run(), name="jupyter-gq retention"),
            asyncio.create_task(self._forecasts.run(), name="jupyter-gq forecasts"),
        ]
        try:
            while True:
                if loop.time() >= refreshed + REFRESH:
                    refreshed = loop.time()
                    await self._guarded("reading the settings", self.refresh())
                began = loop.time()
                await self._guarded("a step", self.step())
                await self._rest(loop.time() - began)
        finally:
            for task in beside:
                task.cancel()
            self._context.broker.close()

    async def step(self) -> None:
        """Observe, write down, decide, write down, act."""
        # Cleared first: what happens from here on makes another step.
        self._awake.clear()
        self._pacing.forget()
        await self._duty.begin()
        self._presenter.forget_devices()
        revision = self._context.records.revision
        seen = await self._observer.look()
        await self._observer.record(seen)
        self._tickets.expire()
        self._activity.sample()
        self._past_use.look()
        decision = only_seen(self._deciding.decide(), self._context.records, seen.unseen)
        decision = self._pacing.paced(decision)
        self._past_use.count(decision)
        self._actor.write_down(decision)
        self._presenter.explain(decision.pending)
        self._presenter.weigh()
        if self.check_invariants:
            self._check(seen, decision)
        self._duty.check()
        failure = await self._actor.carry_out(seen)
        self._tell_of_changes_since(revision)
        if failure is not None:
            raise failure

    async def go_on(self) -> None:
        """Start more of what the last step decided, as there is room for it, as `run` does between steps."""
        portion = self._pacing.portion()
        if not portion:
            return
        self._duty.check()
        revision = self._context.records.revision
        decision = Decision(instructions=portion, pending=())
        self._past_use.count(decision)
        self._actor.write_down(decision)
        failure = await self._actor.launch_admitted([each.workload for each in portion])
        self._tell_of_changes_since(revision)
        if failure is not None:
            raise failure

    async def refresh(self) -> None:
        """Take up a changed config file."""
        if await self._context.settings_source.refresh():
            self._context.broker.mention(None, "queues", "", {})
            self.wake()

    async def forget_finished(self) -> int:
        """Forget what ended long ago, as `run` does every hour; return how much that was."""
        return await self._retention.sweep()

    async def forecast(self) -> None:
        """Say when waiting jobs will probably start, as `run` does beside its steps when something has changed."""
        await self._forecasts.make()

    def wake(self) -> None:
        """Make the next step begin at once."""
        self._awake.set()
        self._moved.fire()

    async def _rest(self, took: float) -> None:
        """Until something has happened, or a `TICK` has passed; but for a while in any case, if the step took long."""
        left = min(PAUSE * took, MOST_PAUSE)
        while left > 0:
            await asyncio.sleep(min(_SLICE, left))
            left -= _SLICE
            await self._guarded("starting what was decided", self.go_on())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK):  # `wait_for` of Python 3.11 can swallow the cancellation that ends us
                await self._awake.wait()

    async def _guarded(self, what: str, work: Awaitable[None]) -> None:
        """The last guard of the loop. The same failure again and again is told once."""
        try:
            await work
            self._failures.pop(what, None)
        except (Superseded, StoreAway):
            raise
        except Exception as error:
            if repr(error) != self._failures.get(what):
                if isinstance(error, StoreUnavailable | NotLeading):
                    log.warning("nothing is started or stopped for now. %s", error)
                else:
                    log.exception("%s failed and is tried again", what)
            self._failures[what] = repr(error)

    def _tell_of_changes_since(self, revision: int) -> None:
        changed = self._context.records.revision != revision
        self._forecasts.look(calm=not changed and self._is_settled())
        if changed:
            self._context.broker.mention(None, "queues", "", {})
        self._moved.fire()

    def _is_settled(self) -> bool:
        """Nothing is about to begin or to end."""
        return not any(record.workload.state in _UNDER_WAY for record in self._context.records.begun())

    def _check(self, seen: Seen, decision: Decision) -> None:
        workloads = [record.workload for record in self._context.records.live()]
        validate.check(self._context.snapshot(), live=True)
        check_books(workloads)
        admitted = [each.workload for each in decision.instructions if isinstance(each, Admit)]
        check_limits(workloads, self._context.queues(), admitted)
        check_possible(decision, {workload.id: self._context.backend_of(workload.kind) for workload in workloads})
        check_runs(workloads, [observation for _, observation in seen.runs.values()])

    # --- jobs

    def submit(self, caller: Caller, submission: JobSubmission, key: str | None) -> tuple[JobView, bool]:
        """Queue a job; False with the job of that time when the caller used that key before."""
        return self._jobs.submit(caller, submission, key)

    def preview(self, caller: Caller, request: JobRequest) -> Preview:
        """What would happen if it were sent now."""
        return self._jobs.preview(caller, request)

    def cancel(self, caller: Caller, job_id: str) -> JobView:
        """End a job for good."""
        return self._jobs.cancel(caller, job_id)

    def job(self, caller: Caller, job_id: str) -> JobView:
        """One job."""
        return self._jobs.view(caller, job_id)

    def jobs(self, caller: Caller, *, limit: int, before: str | None, owner: str | None = None) -> JobList:
        """Jobs, newest first."""
        return self._jobs.page(caller, limit=limit, before=before, owner=owner)

    def outputs(self, caller: Caller, job_id: str, after: int) -> OutputPage:
        """Numbered pieces of output after `after`."""
        return self._jobs.outputs(caller, job_id, after)

    def executed_notebook(self, caller: Caller, job_id: str) -> JsonObject:
        """The notebook with its outputs so far."""
        return self._jobs.executed_notebook(caller, job_id)

    def log(self, caller: Caller, job_id: str) -> str:
        """The end of the newest run's log."""
        return self._jobs.log(caller, job_id)

    def task_of_token(self, job_id: str, token: str) -> int | None:
        """The task of the job's present run that this token belongs to."""
        return self._pods.task_of_token(job_id, token)

    def exchange_token(self, job_id: str, pod: PodIdentity) -> JobToken:
        """A pod of the job's present run gets the token of its task."""
        return self._pods.exchange_token(job_id, pod)

    def bundle(self, job_id: str, task: int) -> JsonObject:
        """What a pod needs to run the job."""
        return self._pods.bundle(job_id, task)

    async def devices_seen(self, job_id: str, task: int, wait: float) -> TaskDevices:
        """Whether a task of the job's present run sees just its own devices."""
        return await self._pods.devices_seen(job_id, task, wait)

    def put_log(self, job_id: str, task: int, text: str) -> None:
        """Keep the end of a task's log."""
        self._pods.put_log(job_id, task, text)

    async def report_node(self, node: str, pod: PodIdentity, report: AgentReport, wait: float) -> AgentOrders:
        """What the agent of a node sees, and its orders."""
        return await self._agents.report(node, pod, report, wait)

    def append_outputs(self, job_id: str, events: list[JsonObject]) -> int:
        """Store pieces of output; return up to which piece all is stored."""
        return self._jobs.append_outputs(job_id, events)

    def heartbeat(self, job_id: str, beat: Heartbeat) -> None:
        """The job's runner is alive."""
        self._jobs.heartbeat(job_id, beat)

    # --- notebooks

    def open_ticket(self, caller: Caller, request: TicketRequest) -> tuple[TicketView, bool]:
        """Ask for a server's share; True when the ticket is new."""
        return self._tickets.open(caller, request)

    def ticket(self, caller: Caller, ticket_id: str) -> TicketView:
        """One ticket; asking keeps it from lapsing."""
        return self._tickets.view(caller, ticket_id)

    def close_ticket(self, caller: Caller, ticket_id: str) -> None:
        """Give a ticket back."""
        self._tickets.close(caller, ticket_id)

    def attach(self, caller: Caller, ticket_id: str, report: ProcessReport) -> None:
        """That process holds the share."""
        self._tickets.attach(caller, ticket_id, report)

    async def server_devices(self, caller: Caller, ticket_id: str, wait: float) -> TaskDevices:
        """Whether the server that holds a ticket sees just its own devices."""
        return await self._tickets.devices(caller, ticket_id, wait)

    def notebooks(self, caller: Caller, owner: str | None = None) -> NotebookList:
        """Notebooks that are alive or wait."""
        return self._tickets.notebooks(caller, owner)

    def report_activity(self, caller: Caller, server: str, report: ActivityReport) -> None:
        """What a server's kernels do."""
        self._tickets.report_activity(caller, server, report)

    def keep(self, caller: Caller, server: str) -> NotebookView:
        """The owner wants to keep an idle server's share."""
        return self._tickets.keep(caller, server)

    # --- totals

    def me(self, caller: Caller) -> Me:
        """Everything the options page and the send dialog need."""
        return self._overview.me(caller)

    def queues(self, caller: Caller) -> QueueList:
        """The queues that the caller may see."""
        return self._overview.queues(caller)

    def devices(self, caller: Caller) -> DeviceList:
        """Every device."""
        return self._overview.devices(caller)

    def subscribe(self, caller: Caller, after: int | None) -> Subscription:
        """Listen to changes; with `after`, beginning with what came after that event."""
        return self._context.broker.subscribe(caller, after)

    def health(self) -> Health:
        """Whether all is well."""
        context = self._context
        error = context.settings_source.error
        probe = context.probe.status().state if context.probe is not None else ProbeState.OK
        well = error is None and not self._failures and not context.unseen and probe is ProbeState.OK
        return Health(
            status="ok" if well else "degraded",
            version=own_version(),
            devices=self._overview.devices_sentence(),
            policy=error or "ok",
            runs=BLIND if context.unseen else "ok",
        )

    def unready(self) -> str:
        """Why requests should go to another service, or come later; "" = this one can answer them."""
        return self._duty.unready

    def state(self) -> JsonObject:
        """The input of a cycle now, and what it decides: see `client.state`."""
        context = self._context
        state = LiveState(at=context.clock.now(), policy=context.settings.policy, snapshot=context.snapshot())
        return state_document(state, self._deciding.of(state.snapshot))


def own_version() -> str:
    """The version of this package."""
    try:
        return version("jupyter-gq")
    except PackageNotFoundError:
        return "0"
