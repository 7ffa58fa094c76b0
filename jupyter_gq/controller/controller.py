"""The controller: the loop, and beside it the objects that answer requests.

`api` and `service` know this object. Requests go to its parts directly; see
docs/decisions/0061-give-the-api-the-objects-that-do-the-work.md.

Guarantees
----------
- Level-triggered: if the process is killed at any instant and starts again over the same store and backends, the loop
  continues from the records.
- A failing step does not end the loop: the failure is logged and the step is tried again. Only two errors end the loop:
  another service has taken over, or another service should lead because this one does not reach the store.
- Requests do not wait for backends: they are answered from records, also while a backend is slow.

See docs/decisions/0005-one-process-one-loop-synchronous-store.md.
See docs/decisions/0037-decide-watch-and-write-in-one-process.md.
"""

import asyncio
import contextlib
import logging
import secrets
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from jupyter_gq.backends.bundles import BundleStore
from jupyter_gq.backends.hub_directory import Directory
from jupyter_gq.backends.notifications.notifier import NoticeRule
from jupyter_gq.backends.protocol import Backend
from jupyter_gq.devices.linux.processes import has_host_pids
from jupyter_gq.devices.meter import ProbeMeter, ShareMeter
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain import validate
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.audit import CONFIG_FILE, Action, AuditEntry
from jupyter_gq.domain.errors import NotLeading, StorageFull, StoreAway, StoreUnavailable, Superseded
from jupyter_gq.domain.states import State
from jupyter_gq.scheduling.decision import Admit, Decision
from jupyter_gq.store.protocol import Store

from .clock import Clock
from .context import Context
from .events import Broker
from .lent_devices import LentDevices
from .loop.act import Executor
from .loop.cleaning.retention import Retention
from .loop.clock_jumps import ClockJumps
from .loop.decide import Decider
from .loop.deferred_launches import DeferredLaunches
from .loop.forecasts import Forecasts
from .loop.gpu_use_watch import GpuUseWatch
from .loop.invariants import check_capabilities, check_limits, check_placements, check_runs
from .loop.leadership import Leadership
from .loop.limits.database_limit import DatabaseLimit
from .loop.limits.disk_limit import DiskLimit
from .loop.limits.job_room import JobRoom
from .loop.limits.log_limits import LogLimits
from .loop.limits.memory_limits import want_limits
from .loop.limits.memory_watch import MemoryWatch
from .loop.limits.run_time_limit import end_overdue_jobs
from .loop.mps import keep_mps_running
from .loop.name_check import NameCheck
from .loop.node_requests import request_nodes
from .loop.notices.job_notices import JobNotices
from .loop.observe import Observer
from .loop.past_usage import PastUsage
from .loop.runs.left_outputs import LeftOutputReader
from .loop.runs.observed_runs import ObservedRuns
from .loop.store_outage import StoreOutage
from .records.records import Records
from .requests.activity import ActivityLog
from .requests.audit import AuditReader
from .requests.device_checks import DeviceChecks
from .requests.drains import Drains
from .requests.job_changes import JobChanges
from .requests.job_deletions import JobDeletions
from .requests.job_lists import JobLists
from .requests.jobs import Jobs
from .requests.logs import JobLogs
from .requests.pods import JobPods, NodeAgents
from .requests.previews import Previews
from .requests.project_files import ProjectFiles
from .requests.status import ServiceStatus
from .requests.tickets import Tickets
from .settings.config import SettingsSource
from .settings.last_good import LAST_GOOD, LastGood
from .settings.policy_changes import describe_changes
from .signal import Signal
from .views.mentions import Mentions, ShowNames
from .views.overview import Overview
from .views.presenter import Presenter

log = logging.getLogger(__name__)

#: Longest time between two steps if nothing wakes the loop.
TICK = Seconds(1)
#: After a step, requests and the backends' own work have the event loop for `PAUSE` times as long as the step took, at
#: most `MOST_PAUSE` seconds. Otherwise steps would follow each other without end if thousands of things happen at once.
PAUSE, MOST_PAUSE = 8.0, 1.0
#: Seconds between two checks whether a backend can launch more of the last decision.
_SLICE = 0.1
#: States of workloads that are about to begin or to end.
_UNDER_WAY = frozenset({State.ADMITTED, State.STARTING, State.RESUMING, State.STOPPING})
#: Least time between two checks of the config file. Two checks must find the same content, so a change is in force
#: after four seconds at most.
REFRESH = Seconds(1)


def is_only_replica() -> bool:
    """Return True: a single service always leads."""
    return True


def make_id() -> str:
    """Return ten random characters that are safe in an address and in a file name."""
    return secrets.token_hex(5)


def make_token() -> str:
    """Return a random secret for a runner."""
    return secrets.token_urlsafe(32)


@dataclass(kw_only=True, slots=True)
class Controller:
    """The scheduler service without its HTTP interface.

    `api.services` lists the objects that answer requests. `run` runs the loop; tests call `step` instead.
    """

    store: Store
    backends: Sequence[Backend]
    settings: SettingsSource
    clock: Clock
    bundles: BundleStore
    probe: DeviceProbe | None = None
    #: Measures the use of shares; None = the probe measures it, if there is one.
    meter: ShareMeter | None = None
    #: Returns whether the driver names processes by the ids that this service sees.
    host_pids: Callable[[], bool] = has_host_pids
    #: Knows the users of the Hub; None: names in the settings are not checked.
    directory: Directory | None = None
    new_id: Callable[[], str] = make_id
    new_token: Callable[[], str] = make_token
    #: Tells whether this service may act now: if several services share a lease, only its holder may.
    leads: Callable[[], bool] = is_only_replica
    #: Measures how long the store has not answered, and raises an error when that is too long.
    outage: StoreOutage = field(default_factory=StoreOutage)
    #: The users who see the names of a user and of the user's work.
    show_names: ShowNames = ShowNames.ALL
    #: The notices to users outside of JupyterLab.
    notices: NoticeRule = field(default_factory=NoticeRule)
    #: Whether to check the invariants after every step; a breach is raised, and `run` logs it.
    check_invariants: bool = False

    # The objects that answer requests; see `api.services`.
    status: ServiceStatus = field(init=False)
    files: ProjectFiles = field(init=False)
    jobs: Jobs = field(init=False)
    logs: JobLogs = field(init=False)
    job_lists: JobLists = field(init=False)
    job_changes: JobChanges = field(init=False)
    job_deletions: JobDeletions = field(init=False)
    previews: Previews = field(init=False)
    pods: JobPods = field(init=False)
    agents: NodeAgents = field(init=False)
    tickets: Tickets = field(init=False)
    drains: Drains = field(init=False)
    audit: AuditReader = field(init=False)
    overview: Overview = field(init=False)
    mentions: Mentions = field(init=False)
    events: Broker = field(init=False)

    # The work that `run` does beside its steps.
    retention: Retention = field(init=False)
    forecasts: Forecasts = field(init=False)
    names: NameCheck = field(init=False)
    disk_limit: DiskLimit = field(init=False)
    job_room: JobRoom = field(init=False)
    database_limit: DatabaseLimit = field(init=False)
    log_limits: LogLimits = field(init=False)
    job_notices: JobNotices = field(init=False)

    _awake: asyncio.Event = field(init=False, default_factory=asyncio.Event)
    #: Fired when something may have changed for requests that wait.
    _changed: Signal = field(init=False, default_factory=Signal)
    _context: Context = field(init=False)
    _leadership: Leadership = field(init=False)
    _decider: Decider = field(init=False)
    _deferred: DeferredLaunches = field(init=False)
    _presenter: Presenter = field(init=False)
    _activity: ActivityLog = field(init=False)
    _clock_jumps: ClockJumps = field(init=False)
    _memory_watch: MemoryWatch = field(init=False)
    _gpu_use_watch: GpuUseWatch = field(init=False)
    _observer: Observer = field(init=False)
    _executor: Executor = field(init=False)
    _past_usage: PastUsage = field(init=False)
    #: The settings that the store has.
    _stored_policy: LastGood | None = None

    def __post_init__(self) -> None:
        """Make the parts, and load the unfinished records. No backend is called before `run` or `step`."""
        self.events = Broker(
            self.store,
            lambda: self.settings.current.max_streams_per_user,
            lambda workload: workload in self._context.deletions,
        )
        context = self._context = Context(
            store=self.store,
            backends=tuple(self.backends),
            settings_source=self.settings,
            clock=self.clock,
            bundles=self.bundles,
            probe=self.probe,
            meter=self.meter or (None if self.probe is None else ProbeMeter(self.probe)),
            host_pids=self.host_pids(),
            new_id=self.new_id,
            new_token=self.new_token,
            wake=self.wake,
            broker=self.events,
        )
        self._leadership = Leadership(context, self.leads, self.outage)
        self._decider = Decider(context)
        self._deferred = DeferredLaunches(context)
        self._presenter = Presenter(context)
        context.records = Records(self.store, self.clock, self._presenter.describe, self.events.publish)
        context.lent = LentDevices(context.records, lambda: context.settings.training_tree())
        self._activity = ActivityLog(context, self._presenter.announce)
        self._memory_watch = MemoryWatch(context)
        self._gpu_use_watch = GpuUseWatch(context, self._presenter.announce)
        checks = DeviceChecks(context=context, changed=self._changed)
        self.files = ProjectFiles(context)
        self.pods = JobPods(context, checks, self.files)
        self.agents = NodeAgents(context=context, changed=self._changed)
        self.jobs = Jobs(context, self._presenter, self.pods, self.files)
        self.logs = JobLogs(context)
        self.job_lists = JobLists(context, self._presenter)
        self.job_changes = JobChanges(context, self._presenter)
        self.job_deletions = JobDeletions(context, self._presenter)
        self.tickets = Tickets(context, self._presenter, self._activity, checks)
        self.drains = Drains(context)
        self.audit = AuditReader(self.store, self.settings)
        self.overview = Overview(context, self._decider)
        self.mentions = Mentions(context, self.show_names)
        self.job_notices = JobNotices(context, self.notices, self.mentions.render)
        self.names = NameCheck(context, self.directory)
        self.disk_limit = DiskLimit(context)
        self.job_room = JobRoom(context)
        self.database_limit = DatabaseLimit(context)
        self.log_limits = LogLimits(context)
        self.status = ServiceStatus(context=context, leadership=self._leadership, names=self.names)
        self._observer = Observer(context, LeftOutputReader(context, self.jobs.append_outputs))
        self._executor = Executor(context)
        self._past_usage = PastUsage(context)
        self.retention = Retention(context)
        self.forecasts = Forecasts(context, self._presenter.announce)
        self._clock_jumps = ClockJumps(
            self.clock, context.records, [self._activity.move, self.forecasts.move, self.jobs.saved_times.move]
        )
        self.previews = Previews(context, self._decider, self.forecasts)

    async def run(self) -> None:
        """Step whenever something has happened, and at least every `TICK` seconds, until cancelled.

        Beside the steps, settings are read again, and forecasts, garbage collection, the check of names and notices
        run. In the end all event streams are closed. Raises `Superseded` if another service has taken over, so that
        this one must end. Raises `StoreAway` if this service does not reach the store and another service should lead.
        """
        elapsed = self.clock.elapsed
        refreshed = elapsed()
        beside = [
            asyncio.create_task(self.retention.run(), name="jupyter-gq retention"),
            asyncio.create_task(self.forecasts.run(), name="jupyter-gq forecasts"),
            asyncio.create_task(self.names.run(), name="jupyter-gq names"),
            asyncio.create_task(self.disk_limit.run(), name="jupyter-gq disk limit"),
            asyncio.create_task(self.job_room.run(), name="jupyter-gq job room"),
            asyncio.create_task(self.database_limit.run(), name="jupyter-gq database limit"),
            asyncio.create_task(self.log_limits.run(), name="jupyter-gq log limits"),
            asyncio.create_task(self.job_notices.run(), name="jupyter-gq notices"),
        ]
        try:
            while True:
                if elapsed() >= refreshed + REFRESH:
                    refreshed = elapsed()
                    await self._run_guarded("reading the settings", self.reload_settings())
                began = elapsed()
                await self._run_guarded("a step", self.step())
                await self._pause(elapsed() - began)
        finally:
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            self.events.close()

    async def step(self) -> None:
        """Observe, record what was observed, decide, record the decision, and reconcile the backends.

        Raises `StoreUnavailable`, `StoreAway`, `Superseded` or `NotLeading` if this service may not act. A failure of
        one workload is raised after all other work is done.
        """
        # Cleared first, so that a change from here on causes another step.
        self._awake.clear()
        self._deferred.replace(())
        await self._leadership.confirm()
        self._clock_jumps.follow()  # first, since all else compares times
        self._presenter.forget_devices()
        revision = self._context.records.revision
        self._memory_watch.settle()  # before the ends of runs, which may follow from it
        observed = await self._observer.observe()
        await self._observer.record(observed)
        self.drains.forget_uncordoned()
        self.tickets.expire()
        end_overdue_jobs(self._context.records, self._context.settings, self.clock.now())
        self._activity.sample()
        self._memory_watch.check()
        want_limits(self._context)
        keep_mps_running(self._context.backends)
        self._gpu_use_watch.record()
        self._past_usage.update()
        decision = self._decider.decide()
        self._deferred.replace(decision.deferred)
        request_nodes(self._context.backends, self._context.unobserved, decision.wanted_nodes)
        self._past_usage.add_entry_costs(decision)
        self._executor.record_decision(decision)
        self._presenter.update_pending(decision.pending)
        self._presenter.update_returning(decision.returning)
        self._presenter.update_over_quota()
        if self.check_invariants:
            self._check(observed, decision)
        self._leadership.require_lease()
        failure = await self._executor.reconcile(observed)
        self._announce_changes_since(revision)
        if failure is not None:
            raise failure

    async def launch_more(self) -> None:
        """Record and launch the deferred admissions that their backend can take now; `run` calls this between steps.

        Does nothing if there are none. Raises `NotLeading` without the lease, and the first failure after all launches.
        """
        portion = self._deferred.take_portion()
        if not portion:
            return
        self._leadership.require_lease()
        revision = self._context.records.revision
        decision = Decision(instructions=portion, pending=())
        self._past_usage.add_entry_costs(decision)
        self._executor.record_decision(decision)
        failure = await self._executor.launch_admitted([each.workload for each in portion])
        self._announce_changes_since(revision)
        if failure is not None:
            raise failure

    async def reload_settings(self) -> None:
        """Load the settings again if their file has changed, and store new ones as the last good policy.

        A change, or the refusal of a new file, is announced to all listeners and wakes the loop.
        """
        if await self._context.settings_source.refresh():
            self.events.announce(None, "queues", "", {})
            self.wake()
        policy = self._context.settings_source.last_good
        if policy is not None and policy is not self._stored_policy:
            self.store.put_setting(LAST_GOOD, policy.to_document(), self._describe_new_policy(policy))
            self._stored_policy = policy

    def _describe_new_policy(self, policy: LastGood) -> list[AuditEntry]:
        """Return the entry of the audit log for a policy that differs from the stored one; none if it is the same."""
        stored = self.store.setting(LAST_GOOD)
        changed = describe_changes({} if stored is None else stored["sections"], policy.sections)
        if not changed:
            return []
        return [
            AuditEntry(
                at=self.clock.now(),
                actor=CONFIG_FILE,
                action=Action.SETTINGS_CHANGE,
                object=next(iter(policy.files), ""),
                details={"changes": changed},
            )
        ]

    def wake(self) -> None:
        """Make the next step begin at once, and wake requests that wait for a change."""
        self._awake.set()
        self._changed.fire()

    async def _pause(self, took: float) -> None:
        """Wait until something has happened or a `TICK` has passed.

        After a step that took `took` seconds, the loop first rests in proportion, and deferred work is launched
        meanwhile.
        """
        left = min(PAUSE * took, MOST_PAUSE)
        while left > 0:
            await asyncio.sleep(min(_SLICE, left))
            left -= _SLICE
            await self._run_guarded("starting what was decided", self.launch_more())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(TICK):  # `wait_for` of Python 3.11 can swallow the cancellation that ends us
                await self._awake.wait()

    async def _run_guarded(self, what: str, work: Awaitable[None]) -> None:
        """Await one piece of the loop's work, named `what`; store and log its failure instead of raising it.

        The same failure in a row is logged once. `Superseded` and `StoreAway`, which end the loop, are raised.
        """
        try:
            await work
            self._context.failures.pop(what, None)
        except (Superseded, StoreAway):
            raise
        except Exception as error:
            if repr(error) != self._context.failures.get(what):
                if isinstance(error, StorageFull | StoreUnavailable | NotLeading):
                    log.warning("nothing is started or stopped for now. %s", error)
                else:
                    log.exception("%s failed and is tried again", what)
            self._context.failures[what] = repr(error)

    def _announce_changes_since(self, revision: int) -> None:
        """Wake waiting requests, and update the forecasts; tell listeners if records changed since that revision."""
        changed = self._context.records.revision != revision
        self.forecasts.update(calm=not changed and self._is_settled())
        if changed:
            self.events.announce(None, "queues", "", {})
        self._changed.fire()

    def _is_settled(self) -> bool:
        """Return whether no workload is admitted, starting or stopping."""
        return not any(record.workload.state in _UNDER_WAY for record in self._context.records.holding())

    def _check(self, observed: ObservedRuns, decision: Decision) -> None:
        """Raise `InvariantBroken` or `InvalidSnapshot` if the state after a step breaks an invariant."""
        workloads = [record.workload for record in self._context.records.unfinished()]
        validate.check(self._context.snapshot(), live=True)
        check_placements(workloads)
        admitted = [each.workload for each in decision.instructions if isinstance(each, Admit)]
        check_limits(workloads, self._context.queues(), admitted)
        check_capabilities(decision, {workload.id: self._context.backend_of(workload.kind) for workload in workloads})
        check_runs(workloads, [observation for _, observation in observed.runs.values()])
