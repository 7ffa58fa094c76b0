"""The backend that runs training workloads as processes of this machine.

Rules
-----
- Ledger first: the ledger entry of a run is written before its first process starts, and each process has the run's
  mark in its environment. So a service that opens the ledger later finds every process, or knows that there is none.
- Devices until the end: a run holds its devices until its last process has ended (see `members`).
- Stop, then kill: `stop` sends SIGTERM to the runners and sets a deadline; `observe` kills the processes that are left
  after it. The processes of tasks are killed last, because the others are found below them.
- Suspended runs: a run that is suspended holds no device and stands still, so it is killed at once if it is to end.
- Unconfirmed starts: a run that this service did not begin, without a process and without a result, was never started.
  The place of such a run is given back, and the run does not count as lost.
- Failed starts: what a failed start has left is killed. If that takes long, the run counts as launched and
  holds its devices until its last process has ended.
- Folder of a run: a run without its folder cannot report its result, so the run is stopped and has failed.
"""

import asyncio
import logging
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from jupyter_gq.backends.capabilities import Capabilities, CheckpointFolders
from jupyter_gq.backends.control_groups import (
    describe_limits,
    find_own_group,
    kill_group,
    make_group,
    prepare_parent,
    remove_group,
)
from jupyter_gq.backends.enforcers import NO_ENFORCERS, Enforcers
from jupyter_gq.backends.machine_clock import MachineClock
from jupyter_gq.backends.observer import RunObserver
from jupyter_gq.backends.processes import ProcessTable, ProcessTableCache
from jupyter_gq.backends.protocol import Launch, Observation, Outcome, Phase, hash_token
from jupyter_gq.backends.user_threads import UserThreads
from jupyter_gq.devices.linux.control_group import RUN_GROUP
from jupyter_gq.devices.linux.processes import ProcessId, boot_id
from jupyter_gq.devices.linux.signals import send_signal
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import BackendError, StartUnanswered, StorageFull
from jupyter_gq.domain.workload import Kind, TaskPlacement, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .accounts import UnixAccount, UnixAccounts
from .children import Children
from .files import DISK_FULL_ERRORS
from .folders import make_service_folders
from .launching import Preparation, TaskLauncher, choose_limits, choose_task_limits
from .ledger import Ledger, Run, TaskProcess
from .members import Members, find_gone
from .node import MachineNode
from .options import LocalOptions
from .ports import find_free_port
from .results import HALF_STARTED, Result, combine_results
from .run_ends import RunEnds
from .secrets import LocalSecrets
from .size_changes import SizeChanges, make_elasticity
from .standstill import Standstill
from .starts import Starts
from .suspension import RunSuspension
from .task_results import TaskResults
from .tasks import find_folder_fault

log = logging.getLogger(__name__)

#: Seconds that a failed launch waits for the end of its killed processes, and a supervisor for those below it.
_KILL_SECONDS = 5.0


class LocalRuns:
    """The backend for training workloads on this machine; see `backends.protocol.Backend` for the guarantees."""

    kinds = frozenset({Kind.TRAINING})

    def __init__(
        self,
        options: LocalOptions,
        *,
        probe: DeviceProbe,
        clock: MachineClock,
        service_url: str = "",
        shares: RunShares | None = None,
        enforcers: Enforcers = NO_ENFORCERS,
    ) -> None:
        """Make the folders of the service, and read the runs of an earlier service from the ledger.

        `service_url` is the URL to which runners report. `shares` suspends runs; None = they cannot be suspended.
        `enforcers` are those that limit them beside the watchdog.
        """
        self._limits = enforcers.limits
        self._options = options
        self._node = MachineNode(options, probe)
        self._now, self._awake = clock.now, clock.awake
        self._root = options.state_dir.resolve()
        make_service_folders(self._root, open_path=options.system_users)
        self._accounts = UnixAccounts(options.system_users)
        self._threads, self._starts = UserThreads("starts of runs", most=32, most_of_user=2), Starts()
        self._launcher = TaskLauncher(
            root=self._root, options=options, service_url=service_url, devices=self._node.devices, mps=enforcers.mps
        )
        self._ledger = Ledger(self._root / "runs", clock)
        self._members = Members(self._accounts)
        self._parent_group = prepare_parent(find_own_group())
        group_limits = describe_limits(self._parent_group)
        log.info("%s", group_limits)
        self._suspension = RunSuspension(shares, self._ledger, self._members, self._record_if_possible)
        self.capabilities = Capabilities(
            keeps_unknown=True,
            limits=group_limits,
            reached_folders=("/",),
            max_uncounted_tasks=options.max_uncounted_tasks,
            find_folder_fault=partial(find_folder_fault, self._accounts),
            secrets=LocalSecrets(self._accounts),
            checkpoints=CheckpointFolders.SHARED,
            process_signals=self,
            resizing=self,
            suspension=None if shares is None else self._suspension,
            memory_limits=enforcers.limits,
            partitioning=enforcers.mps,
        )
        self._sizes = SizeChanges(
            root=self._root,
            accounts=self._accounts,
            members=self._members,
            launcher=self._launcher,
            parent_group=self._parent_group,
            start=lambda run, slot, prepared: self._start_task(run, slot.number, slot.place, prepared),
            record=self._record,
            current=self._ledger.renew,
            stop_again=self._stop_again,
            threads=self._threads,
            record_if_possible=self._record_if_possible,
            awake=clock.awake,
        )
        self._tables = ProcessTableCache(clock.awake)
        self._observer = RunObserver()
        self._standstill = Standstill(awake=clock.awake)
        self._children = Children()
        self._results = TaskResults(self._root, self._accounts, exit_codes=self._children.exit_codes, awake=self._awake)
        self._ends = RunEnds(self._results, clock.now)
        self._ended: dict[tuple[str, int], Observation] = {}
        #: Since when a run whose tasks have all ended or written a result still has processes.
        self._lingering: dict[tuple[str, int], float] = {}

    def nodes(self) -> tuple[Node, ...]:
        """Return this machine as the only node; see `node.MachineNode`."""
        return (self._node.describe(),)

    async def launch(self, launch: Launch) -> None:
        """Start all tasks of this run; do nothing if all of them were started before, or if a start goes on.

        If only some were started, kill them and start the whole run again. On an error the started tasks are killed,
        and `StorageFull` or `BackendError` is raised with a sentence. Left to `observe` are tasks that do not end in
        time, and a start that goes on because files of the owner answer late.
        """
        workload = launch.workload
        if self._starts.goes_on((workload.id, workload.run)):
            return
        earlier = self._ledger.get(workload.id, workload.run)
        if earlier is not None:
            earlier = self._adopt(earlier, ProcessTable.read())
            if earlier.is_complete or earlier.failed_as is not None:
                return
            if not await self._clean_up(earlier, Outcome.REFUSED, HALF_STARTED):
                return
        account = self._accounts.look_up(workload.owner)
        run = Run(
            job=workload.id,
            number=workload.run,
            owner=workload.owner,
            tasks=(None,) * workload.tasks,
            launched_at=self._now(),
            boot=boot_id(),
            placement=workload.placement,
            milli=workload.request.milli_per_device,
            token_hash=hash_token(launch.token),
            port=self._choose_port(workload),
            group=make_group(
                self._parent_group,
                f"{RUN_GROUP}{workload.id}-{workload.run}",
                choose_limits(workload, self._options),
            ),
            elastic=make_elasticity(launch, choose_task_limits(workload, self._options)),
        )
        await self._starts.begin(run, self._start(run, launch, account))

    async def resize(
        self, workload: Workload, detail: WorkloadDetail, environment: Mapping[str, str], grace: Seconds
    ) -> None:
        """Let the run have one task at each place of the workload; see `backends.capabilities.RunResizing`."""
        run = self._ledger.get(workload.id, workload.run)
        if run is None or run.elastic is None or run.kill_by is not None:
            return
        if run.key in self._ended or self._starts.goes_on(run.key):
            return
        table = ProcessTable.read()
        run = self._sizes.settle(self._adopt(run, table), table)
        if run.is_complete:
            # Only task 0 reports to the service, so that the others need no token.
            launch = Launch(workload=workload, detail=detail, environment=environment)
            closed = self._is_closed(run, find_gone(run, table))
            await self._starts.begin(run, self._sizes.resize(run, launch, grace, closed=closed))

    async def stop(self, workload: str, run: int, grace: Seconds) -> None:
        """Send SIGTERM to the runners of a run; `observe` kills what is left of it after `grace` seconds.

        A suspended run has no grace. A second call never adds time. Nothing happens if the run is unknown or has ended.
        """
        found = self._ledger.get(workload, run)
        if found is None or found.key in self._ended:
            return
        if self._suspension.stands_still(found.key):
            grace = Seconds(0)
        deadline = self._awake() + max(0.0, grace)
        if found.kill_by is not None:
            deadline = min(deadline, found.kill_by)
        self._stop_by(replace(found, stop_asked=True), deadline)

    async def observe(self) -> Sequence[Observation]:
        """Return an observation of each run in the ledger, of ended ones until `forget`; send signals that are due."""
        self._suspension.recover()
        runs = [run for run in self._ledger.all() if run.key not in self._ended]
        # A task without a known process counts as dead, so that the table is read anew and may show its process.
        tasks = [run.tasks[number] for run in runs for number in run.members]
        table = self._tables.read((task.pid, task.ticks) if task else (0, 0) for task in tasks)
        # Reaped after the table was read: each child that is dead in the table has an exit code then.
        self._children.reap()
        await self._results.look([run for run in runs if not self._starts.goes_on(run.key)], table)
        seen = [self._ended.get(run.key) or self._observe_alone(run, table) for run in self._ledger.all()]
        for run in self._sizes.take_untold():
            await self._starts.begin(run, self._sizes.tell_size(run))
        return seen

    async def forget(self, workload: str, run: int) -> None:
        """Remove a run, whose end is recorded, from the ledger, if it is known. The files of its job stay."""
        self._ledger.remove(workload, run)
        self._ended.pop((workload, run), None)
        self._lingering.pop((workload, run), None)
        self._members.forget((workload, run))
        self._sizes.forget((workload, run))
        self._ends.forget((workload, run))
        self._observer.forget((workload, run))
        self._suspension.remove((workload, run))

    def signal_process(self, workload: str, run: int, process: ProcessId, number: signal.Signals) -> bool:
        """Send a signal to a process of the run, if it belongs to the run now; return whether it was sent."""
        found, table = self._ledger.get(workload, run), ProcessTable.read()
        if found is None or process.pid not in self._members.find(found, table):
            return False
        return table.alive(process.pid, process.ticks) and send_signal(process.pid, process.ticks, number)

    # -- starting

    async def _start(self, run: Run, launch: Launch, account: UnixAccount) -> None:
        """Record the run and start its tasks; raise an error, or leave it to `observe` if no caller waits."""
        try:
            self._record(run)
            await self._start_tasks(run, launch, account)
        except (BackendError, StorageFull) as error:
            run = self._ledger.renew(run)
            outcome = Outcome.REFUSED if isinstance(error, StorageFull | StartUnanswered) else Outcome.FAILED
            told = f"The start failed: {error}"
            if await self._clean_up(run, outcome, told):
                if not self._starts.is_late(run.key):
                    raise
                self._record_if_possible(replace(run, failed_as=outcome, failure=told, kill_by=self._awake()))
            return
        self._suspension.add(run)
        log.info("run launched: job=%s run=%d tasks=%d", *run.key, len(run.numbers), extra=launch.workload.log_fields)
        self._stop_again(run)

    async def _start_tasks(self, run: Run, launch: Launch, account: UnixAccount) -> None:
        """Start the tasks one after the other, and record each process; raise the error of the first failure.

        Files are touched in threads. Once the run is told to stop, no further task is started.
        """
        prepared = await self._threads.run(run.owner, self._launcher.prepare, run, launch, account)
        await self._threads.run(run.owner, self._sizes.write_size, run, account)  # before the tasks begin: they read it
        places = launch.workload.placement
        for task in run.numbers:
            if (run := self._ledger.renew(run)).kill_by is not None:
                return
            place = places[task] if task < len(places) else None
            process = await self._start_task(run, task, place, prepared)
            run = self._ledger.renew(run).with_process(task, process)
            self._record(run)

    async def _start_task(self, run: Run, task: int, place: TaskPlacement | None, prepared: Preparation) -> TaskProcess:
        """Start one task in the control group of its run, and return its process."""
        process = await self._threads.run(run.owner, self._launcher.start, run, task, place, prepared)
        self._children.add(process.pid)
        return process

    def _choose_port(self, workload: Workload) -> int:
        """Return the port on which the tasks meet, which no other run of the ledger has; 0 for a single task."""
        taken = {run.port for run in self._ledger.all() if run.key not in self._ended}
        return find_free_port(f"{workload.id}-{workload.run}", taken) if workload.tasks > 1 else 0

    def _record(self, run: Run) -> None:
        """Store the run in the ledger; raise `StorageFull` or `BackendError` if the disk refuses."""
        try:
            self._ledger.put(run)
        except OSError as error:
            kind = StorageFull if error.errno in DISK_FULL_ERRORS else BackendError
            raise kind(f"The run could not be recorded: {error.strerror or error}.") from error

    def _adopt(self, run: Run, table: ProcessTable) -> Run:
        """Return the run with the processes that were started but not recorded, found by their mark; record them."""
        if run.is_complete:
            return run
        for task in run.numbers:
            found = self._members.find_leader(run, task, table) if run.tasks[task] is None else None
            run = run if found is None else run.with_process(task, found)
        if self._ledger.get(*run.key) != run:
            self._record_if_possible(run)
        return run

    async def _clean_up(self, run: Run, outcome: Outcome, sentence: str) -> bool:
        """Kill the processes and the control group of a run that did not start completely; return whether they ended.

        If so, the ledger forgets the run. A run with processes after 5 seconds is left to `observe`, which kills them
        and ends the run with this outcome and sentence.
        """
        waited = 0.0
        kill_group(run.group)  # at once, so that no process starts another one between two looks at the table
        while True:
            table = ProcessTable.read()
            self._children.reap()
            left = self._members.find(run, table)
            if not left:
                break
            if waited >= _KILL_SECONDS:
                log.warning("job=%s run=%d: processes of a failed start do not end: %s", run.job, run.number, left)
                failed = replace(run, failed_as=outcome, failure=sentence, kill_by=self._awake())
                self._record_if_possible(failed)
                return False
            table.signal(left, signal.SIGKILL)
            await asyncio.sleep(0.02)
            waited += 0.02
        self._remove_group(run)
        self._members.forget(run.key)
        self._ledger.remove(*run.key)
        return True

    # -- watching

    def _observe_alone(self, run: Run, table: ProcessTable) -> Observation:
        return self._observer.observe(run.key, Instant(run.launched_at), lambda: self._observe(run, table))

    def _observe(self, run: Run, table: ProcessTable) -> Observation:
        """Return the state of a run that has not been observed as ended: ENDED without living processes, else RUNNING.

        Record processes that were started and not recorded, and stop or kill those that are due.
        """
        if self._starts.goes_on(run.key):
            if run.kill_by is not None and self._awake() >= run.kill_by:
                self._kill(run, self._members.find(run, table), table, run.kill_by)
            return self._observer.last(run.key) or replace(self._describe(run), phase=Phase.STARTING)
        run = self._sizes.settle(self._adopt(run, table), table)
        gone = find_gone(run, table)
        left = self._members.find(run, table)
        if not left:
            return self._observe_end(run) if self._results.knows_end(run, gone) else self._describe(run)
        self._ends.see_alive(run)
        if self._limits is not None:
            self._limits.enter(run.key, run.group)
        self._end_due_processes(run, gone, left, table)
        seen = replace(self._describe(run), pids=tuple(sorted(left)), closed=self._is_closed(run, gone))
        return self._tell_standstill(run, self._suspension.watch(seen, table), table)

    def _describe(self, run: Run) -> Observation:
        """Return what the ledger tells of a run that has not ended."""
        return Observation(
            workload=run.job,
            run=run.number,
            phase=Phase.RUNNING if run.failed_as is None and run.is_complete else Phase.STARTING,
            since=Instant(run.launched_at),
            owner=run.owner,
            placement=run.placement,
            token_hash=run.token_hash,
            leaving=() if run.elastic is None else tuple(slot.place for slot in run.elastic.leaving),
            sentence="" if run.elastic is None else run.elastic.closed,
        )

    def _tell_standstill(self, run: Run, seen: Observation, table: ProcessTable) -> Observation:
        """Return the observation of a live run, with a sentence if it stands still and this service did not stop it."""
        if self._suspension.may_stand_still(run.key):
            self._standstill.forget(run.key)
            return seen
        sentence = self._standstill.describe(run, table)
        return replace(seen, sentence=" ".join(filter(None, [seen.sentence, sentence]))) if sentence else seen

    def _is_closed(self, run: Run, gone: Sequence[int]) -> bool:
        """Return whether no task can join the run: its work is done in part, it stops, or a task could not join."""
        if run.elastic is None:
            return False
        if run.elastic.closed or run.kill_by is not None:
            return True
        return any(task in gone or self._results.read(run, task) is not None for task in run.numbers)

    def _observe_end(self, run: Run) -> Observation:
        """Return the observation of a run without processes, with the result of its tasks; keep it until `forget`."""
        result = combine_results(run, {task: self._results.of_dead_task(run, task) for task in run.numbers})
        if loss := self._suspension.describe_loss(run.key):
            result = Result(outcome=Outcome.LOST, sentence=loss)
        ended = Observation(
            workload=run.job,
            run=run.number,
            phase=Phase.ENDED,
            since=self._ends.find_end(run),
            outcome=result.outcome,
            sentence=result.sentence,
        )
        self._ended[run.key] = ended
        self._suspension.remove(run.key)
        self._standstill.forget(run.key)
        self._remove_group(run)
        log.info("run ended: job=%s run=%d outcome=%s", *run.key, result.outcome, extra=run.log_fields)
        return ended

    def _end_due_processes(self, run: Run, gone: Sequence[int], left: set[int], table: ProcessTable) -> None:
        """Signal the processes `left` of a run that should have ended; `gone` are the numbers of dead tasks.

        After the deadline of the run, or once it cannot go on, they are killed. Once every task is dead or has a
        result, they have `linger_timeout` seconds; if all tasks are dead, they get SIGTERM meanwhile. If a task has
        failed, or has lost its folder, all tasks are stopped.
        """
        now = self._awake()
        if run.kill_by is not None and now >= run.kill_by:
            self._kill(run, left, table, run.kill_by)
            return
        stands_still = run.kill_by is not None and self._suspension.stands_still(run.key)
        if stands_still or self._suspension.describe_loss(run.key):
            self._stop_by(run, now)
            return
        if all(task in gone or self._results.read(run, task) is not None for task in run.numbers):
            # The result of the run is known, but the processes that are left still hold devices.
            since = self._lingering.setdefault(run.key, now)
            orphans = len(gone) == len(run.numbers)
            if now - since >= self._options.linger_timeout:
                self._kill(run, left, table, since + self._options.linger_timeout)
            elif orphans:
                table.signal(left, signal.SIGTERM)
            return
        culprit = self._results.find_culprit(run, gone) if run.kill_by is None else None
        if culprit is not None:
            self._stop_by(replace(run, culprit=culprit), now + self._options.gang_grace)

    def _stop_by(self, run: Run, deadline: float) -> None:
        """Record that the run is killed at `deadline`, and send SIGTERM to its runners.

        If the deadline has passed, all processes of the run are killed now.
        """
        table = ProcessTable.read()
        run = replace(run, kill_by=deadline)
        self._record_if_possible(run)
        if deadline <= self._awake():
            self._kill(run, self._members.find(run, table), table, deadline)
        else:
            leaders = [t.pid for t in run.tasks if t is not None and table.alive(t.pid, t.ticks)]
            table.signal(leaders, signal.SIGTERM)

    def _stop_again(self, run: Run) -> None:
        """Stop a run that was told to stop while tasks were started, of which the last ones were not told."""
        run = self._ledger.renew(run)
        if run.kill_by is not None:
            self._stop_by(run, run.kill_by)

    def _record_if_possible(self, run: Run) -> None:
        """Store the run in the ledger; if the disk refuses, keep it in memory and log that: a stop must not fail."""
        try:
            self._ledger.put(run)
        except OSError as error:
            self._ledger.remember(run)
            log.warning("job=%s run=%d could not be recorded: %s", *run.key, error, extra=run.log_fields)

    def _kill(self, run: Run, left: set[int], table: ProcessTable, due: float) -> None:
        """Kill the processes `left` of a run, whose deadline `due` has passed.

        Processes of tasks are spared for 5 s while others are left: a supervisor ends by itself after those.
        """
        kill_group(run.group)
        leaders = {task.pid for task in run.tasks if task is not None}
        others = left - leaders if self._awake() < due + _KILL_SECONDS else set()
        table.signal(others or left, signal.SIGKILL)

    def _remove_group(self, run: Run) -> None:
        """Remove the control group of a run that has no processes, with the limits of the driver."""
        if self._limits is None:
            remove_group(run.group)
        else:
            self._limits.leave(run.key, run.group)
