"""The backend that runs training workloads as processes of this machine.

Rules
-----
1. The ledger entry is written before the first process starts; each process carries the run's mark in its
   environment. So whoever opens the ledger later finds every process, or knows that there is none.
2. A run holds its devices until its last process is gone, also those that left their session.
3. `stop` asks (SIGTERM to the runners) and sets a time; `observe` kills what is left after that time.
"""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from jupyter_gq.backends.capabilities import Capabilities
from jupyter_gq.backends.processes import Lookout, Process, ProcessTable, boot_id, reap
from jupyter_gq.backends.protocol import Launch, Observation, Outcome, Phase
from jupyter_gq.devices.limits import share_environment
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.workload import Kind

from .accounts import Account, Accounts
from .environment import MARK, base_environment, gang_environment
from .folders import job_folder, make_service_folders, task_folder
from .ledger import Ledger, Run, TaskProcess
from .options import LocalOptions
from .outcome import End, end_of_run, read_result, silent_end
from .tasks import Setup, Starter, free_port, manifest_of, working_folder

log = logging.getLogger(__name__)

#: How long a launch that failed waits for its killed processes to be gone.
_KILL_SECONDS = 5.0


class LocalRuns:
    """Runs training workloads as processes of this machine; see `backends.protocol.Backend` for the guarantees."""

    kinds = frozenset({Kind.TRAINING})
    capabilities = Capabilities(keeps_unknown=True)

    def __init__(
        self, options: LocalOptions, *, probe: DeviceProbe, now: Callable[[], float], service_url: str = ""
    ) -> None:
        """`now` tells the time in seconds since the epoch; `service_url` is where runners report to."""
        self._options = options
        self._probe = probe
        self._now = now
        self._service_url = service_url
        self._root = options.state_dir.resolve()
        make_service_folders(self._root, open_path=options.system_users)
        self._accounts = Accounts(options.system_users)
        self._starter = Starter(state_dir=self._root, command=options.command)
        self._ledger = Ledger(self._root / "runs")
        self._lookout = Lookout(now)
        self._devices: tuple[Device, ...] = ()
        #: Our own children that were not collected yet, and the exit codes of those that were.
        self._children: set[int] = set()
        self._exit_codes: dict[int, int] = {}
        self._ended: dict[tuple[str, int], Observation] = {}
        #: When a run that has said its last word was first seen with processes left.
        self._lingering: dict[tuple[str, int], float] = {}

    def nodes(self) -> tuple[Node, ...]:
        """Return this machine. Devices that the probe no longer sees stay, marked as not healthy."""
        seen = tuple(
            Device(id=d.uuid, index=d.index, model=d.model, memory=d.memory, pool="default")
            for d in self._probe.devices()
        )
        ids = {device.id for device in seen}
        lost = (replace(device, healthy=False) for device in self._devices if device.id not in ids)
        self._devices = tuple(sorted((*seen, *lost), key=lambda device: (device.index, device.id)))
        options = self._options
        return (
            Node(name=options.node_name, devices=self._devices, cpu_milli=options.cpu_milli, memory=options.memory),
        )

    async def launch(self, launch: Launch) -> None:
        """Start this run, all of its tasks or none; raise `BackendError` with a sentence when it cannot."""
        workload = launch.workload
        earlier = self._ledger.get(workload.id, workload.run)
        if earlier is not None:
            earlier = self._adopt(earlier, ProcessTable.read())
            if earlier.complete:
                return
            await self._abandon(earlier)
        account = self._accounts.of(workload.owner)
        if not job_folder(self._root, workload.id).is_dir():
            raise BackendError(f"The files of {workload.id} are gone, so it cannot run.")
        run = Run(
            job=workload.id,
            number=workload.run,
            owner=workload.owner,
            tasks=(None,) * workload.tasks,
            launched_at=self._now(),
            boot=boot_id(),
            devices=tuple(sorted({device for task in workload.placement for device in task.devices})),
        )
        try:
            self._record(run)
            self._start_tasks(run, launch, account)
        except BackendError:
            await self._abandon(self._ledger.get(*run.key) or run)
            raise
        log.info("run launched: job=%s run=%d tasks=%d", run.job, run.number, workload.tasks)

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Ask it to end within `grace` seconds; `observe` ends it after that. Asking again never adds time."""
        found = self._ledger.get(workload, run)
        if found is None or found.key in self._ended:
            return
        deadline = self._now() + max(0.0, grace)
        if found.kill_at is not None:
            deadline = min(deadline, found.kill_at)
        self._end_by(replace(found, stop_asked=True), deadline)

    async def observe(self) -> Sequence[Observation]:
        """Return the runs that this backend knows, ended ones until `forget`."""
        runs = [run for run in self._ledger.all() if run.key not in self._ended]
        # A task without a process is none that lives: the table is new then, and the process may be found in it.
        table = self._lookout.table((t.pid, t.ticks) if t else (0, 0) for run in runs for t in run.tasks)
        # After the look: what is dead in the table has its exit code then.
        self._collect_children()
        return [self._ended.get(run.key) or self._observe(run, table) for run in self._ledger.all()]

    async def forget(self, workload: str, run: int) -> None:
        """Forget a run whose end is recorded; its files stay."""
        self._ledger.remove(workload, run)
        self._ended.pop((workload, run), None)
        self._lingering.pop((workload, run), None)

    # -- starting

    def _start_tasks(self, run: Run, launch: Launch, account: Account) -> None:
        manifest = manifest_of(self._root, run.job, account)
        cwd = working_folder(launch.detail.cwd or manifest.get("cwd"), account, job_folder(self._root, run.job))
        given = manifest.get("environment")
        base = base_environment(
            account, self._options.env_keep, given if isinstance(given, dict) else {}, launch.environment
        )
        base |= {"GQ_JOB_ID": run.job, "GQ_SERVICE_URL": self._service_url, "PYTHONUNBUFFERED": "1"}
        port = free_port() if len(run.tasks) > 1 else 0
        for task in range(len(run.tasks)):
            environment = {**base, **gang_environment(task, len(run.tasks), port), **self._share(launch, task)}
            setup = Setup(environment=environment, token=launch.token)
            process = self._starter.start(run, task, account, cwd, setup)
            self._children.add(process.pid)
            self._exit_codes.pop(process.pid, None)
            run = self._started(run, task, process)
            self._record(run)

    def _share(self, launch: Launch, task: int) -> dict[str, str]:
        """Return the share of one task: only its own devices; the launch names those of all tasks together."""
        placement = launch.workload.placement
        if task >= len(placement):
            return {}
        held = set(placement[task].devices)
        if not self._devices:
            self.nodes()
        devices = tuple(device for device in self._devices if device.id in held)
        return share_environment(devices, launch.workload.request.milli_per_device)

    def _started(self, run: Run, task: int, process: TaskProcess) -> Run:
        return replace(run, tasks=(*run.tasks[:task], process, *run.tasks[task + 1 :]))

    def _record(self, run: Run) -> None:
        try:
            self._ledger.put(run)
        except OSError as error:
            raise BackendError(f"The run could not be recorded: {error.strerror or error}.") from error

    def _adopt(self, run: Run, table: ProcessTable) -> Run:
        """Fill in the processes that a service started and had no time to write down."""
        if run.complete:
            return run
        for task, process in enumerate(run.tasks):
            if process is None:
                found = self._marked(run, [task], table)
                leaders = [table.process(pid) for pid in found]
                first = min((p for p in leaders if p is not None and p.session == p.pid), key=_age, default=None)
                if first is not None:
                    run = self._started(run, task, TaskProcess(pid=first.pid, ticks=first.ticks))
        if self._ledger.get(*run.key) != run:
            self._note(run)
        return run

    async def _abandon(self, run: Run) -> None:
        """Leave nothing of a run that did not start as a whole."""
        waited = 0.0
        while True:
            table = ProcessTable.read()
            self._collect_children()
            left = self._processes(run, table)
            if not left or waited >= _KILL_SECONDS:
                break
            table.signal(left, signal.SIGKILL)
            await asyncio.sleep(0.02)
            waited += 0.02
        self._ledger.remove(*run.key)

    # -- watching

    def _observe(self, run: Run, table: ProcessTable) -> Observation:
        run = self._adopt(run, table)
        living = [i for i, task in enumerate(run.tasks) if task is not None and table.alive(task.pid, task.ticks)]
        gone = [i for i in range(len(run.tasks)) if i not in living]
        left = self._processes(run, table) if gone else self._trees(run, table)
        if not left:
            return self._observe_end(run)
        self._end_what_is_due(run, gone, left, table)
        return Observation(
            workload=run.job,
            run=run.number,
            phase=Phase.RUNNING,
            since=Instant(run.launched_at),
            pids=tuple(sorted(left)),
            owner=run.owner,
            devices=run.devices,
        )

    def _observe_end(self, run: Run) -> Observation:
        ends = [self._end_of_task(run, task) for task in range(len(run.tasks))]
        end = end_of_run(run, ends)
        ended = Observation(
            workload=run.job,
            run=run.number,
            phase=Phase.ENDED,
            since=Instant(self._now()),
            outcome=end.outcome,
            sentence=end.sentence,
        )
        self._ended[run.key] = ended
        log.info("run ended: job=%s run=%d outcome=%s", run.job, run.number, end.outcome)
        return ended

    def _end_what_is_due(self, run: Run, gone: Sequence[int], left: Iterable[int], table: ProcessTable) -> None:
        now = self._now()
        if run.kill_at is not None and now >= run.kill_at:
            table.signal(left, signal.SIGKILL)
            return
        said = all(self._result(run, task) is not None or task in gone for task in range(len(run.tasks)))
        if said:
            # Nobody listens to them any more, but they hold devices.
            since = self._lingering.setdefault(run.key, now)
            orphans = len(gone) == len(run.tasks)
            if now - since >= self._options.linger_timeout:
                table.signal(left, signal.SIGKILL)
            elif orphans:
                table.signal(left, signal.SIGTERM)
            return
        if run.kill_at is None:
            self._stop_the_others(run, gone)

    def _stop_the_others(self, run: Run, gone: Sequence[int]) -> None:
        """Stop a gang of which a member has failed: the others would wait for that member for ever."""
        for task in gone:
            if self._end_of_task(run, task).outcome not in (Outcome.SUCCEEDED, Outcome.PAUSED):
                self._end_by(replace(run, culprit=task), self._now() + self._options.gang_grace)
                return

    def _end_by(self, run: Run, deadline: float) -> None:
        table = ProcessTable.read()
        run = replace(run, kill_at=deadline)
        self._note(run)
        if deadline <= self._now():
            table.signal(self._processes(run, table), signal.SIGKILL)
        else:
            leaders = [t.pid for t in run.tasks if t is not None and table.alive(t.pid, t.ticks)]
            table.signal(leaders, signal.SIGTERM)

    def _note(self, run: Run) -> None:
        """Record what only a restart of the service would have to know; a full disk does not keep it from acting."""
        try:
            self._ledger.put(run)
        except OSError as error:
            self._ledger.remember(run)
            log.warning("job=%s run=%d could not be recorded: %s", run.job, run.number, error)

    def _end_of_task(self, run: Run, task: int) -> End:
        process = run.tasks[task]
        exit_code = None if process is None else self._exit_codes.get(process.pid)
        return self._result(run, task) or silent_end(run, exit_code)

    def _result(self, run: Run, task: int) -> End | None:
        try:
            account = self._accounts.known(run.owner)
        except BackendError:
            return None  # the system user was removed while the job ran
        return read_result(task_folder(self._root, run.job, run.number, task), account)

    def _processes(self, run: Run, table: ProcessTable) -> set[int]:
        """Return the processes of the run, including those that left their session."""
        return self._trees(run, table) | self._marked(run, range(len(run.tasks)), table)

    def _trees(self, run: Run, table: ProcessTable) -> set[int]:
        living = (task for task in run.tasks if task is not None and table.alive(task.pid, task.ticks))
        return {pid for task in living for pid in table.tree(task.pid)}

    def _marked(self, run: Run, tasks: Iterable[int], table: ProcessTable) -> set[int]:
        uid = None
        if self._options.system_users:
            try:
                uid = self._accounts.known(run.owner).uid
            except BackendError:
                return set()
        return {pid for task in tasks for pid in table.marked(MARK, run.mark(task), uid)}

    def _collect_children(self) -> None:
        codes = reap(self._children)
        self._children -= codes.keys()
        self._exit_codes |= codes


def _age(process: Process) -> int:
    return int(process.ticks)
