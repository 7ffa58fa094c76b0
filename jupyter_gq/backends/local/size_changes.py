"""The changes of the number of tasks of elastic runs: `resizing` computes them, and here they are recorded and done.

Rules
-----
Ledger first: that a task joins or leaves is recorded before its process is started or signalled. So a service that
    opens the ledger later completes both.
Surplus only: a task that leaves is told to stop and killed after its grace, with what it has started, and nothing of
    it counts for the result of the run.
"""

import contextlib
import logging
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gq.backends.control_groups import ParentGroup, RunLimits, set_limits
from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.backends.protocol import Launch
from jupyter_gq.backends.run_size import SIZE_FILE, describe_size, plan_resize
from jupyter_gq.backends.user_threads import UserThreads
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import BackendError, StorageFull
from jupyter_gq.domain.workload import RunKey, TaskPlacement

from .accounts import UnixAccount, UnixAccounts
from .files import make_private_folder, write_private
from .folders import run_folder
from .launching import Preparation, TaskLauncher
from .ledger import Elasticity, Run, Slot, TaskProcess
from .members import Members
from .resizing import (
    begin_joining,
    begin_leaving,
    finish_joining,
    finish_leaving,
    give_up_joining,
)

log = logging.getLogger(__name__)

#: Seconds that the process of a killed task is spared after its deadline, while processes below it are killed.
_SPARED_SECONDS = 5.0


@dataclass(kw_only=True)
class SizeChanges:
    """The tasks that join and leave elastic runs."""

    root: Path
    accounts: UnixAccounts
    members: Members
    launcher: TaskLauncher
    parent_group: ParentGroup | None
    #: Starts a task of a run at the place of the slot.
    start: Callable[[Run, Slot, Preparation], Awaitable[TaskProcess]]
    #: Returns a run as the ledger has it now.
    current: Callable[[Run], Run]
    #: Stops a run that was told to stop while a task joined.
    stop_again: Callable[[Run], None]
    #: Threads for the files of owners.
    threads: UserThreads
    #: Stores a run in the ledger; raises `StorageFull` or `BackendError` if the disk refuses.
    record: Callable[[Run], None]
    #: Stores a run in the ledger, or in memory if the disk refuses.
    record_if_possible: Callable[[Run], None]
    #: Returns the seconds for which the machine has been awake since its start.
    awake: Callable[[], float]
    #: Runs whose tasks read a size that is not theirs any more.
    _untold: dict[RunKey, Run] = field(default_factory=dict)
    #: Leaving tasks that this process has told to stop.
    _told: set[tuple[tuple[str, int], int]] = field(default_factory=set)

    async def resize(self, run: Run, launch: Launch, grace: Seconds, *, closed: bool) -> None:
        """Let tasks leave and join so that the run has one task at each place of the workload, as far as it can.

        If the run is `closed`, no task joins. Raises `BackendError` if task 0 would have to leave.
        """
        members = dict(zip(run.numbers, run.placement, strict=True))
        plan, table = plan_resize(members, launch.workload.placement), ProcessTable.read()
        if 0 in plan.leaving:
            raise BackendError(f"Task 0 of {run.job} cannot leave: the other tasks meet there.")
        for number in plan.leaving:
            if run.elastic is not None:
                run = begin_leaving(run, run.elastic, number, self.awake() + max(0.0, grace))
        if plan.leaving:
            self.record_if_possible(run)
            run = self.settle(run, table)
            log.info("run shrinks: job=%s run=%d tasks=%s leave", run.job, run.number, plan.leaving)
        account = self.accounts.look_up(run.owner)
        if plan.joining and not closed:
            run = await self._join_all(run, plan.joining, launch, account)
        await self.threads.run(run.owner, self.write_size, run, account)
        self.stop_again(run)

    async def _join_all(self, run: Run, places: tuple[TaskPlacement, ...], launch: Launch, account: UnixAccount) -> Run:
        """Start a task at each of these places; if that fails once, the run is closed, and the failure is logged."""
        try:
            prepared = await self.threads.run(run.owner, self.launcher.prepare, run, launch, account)
            for place in places:
                run = self.current(run)
                elastic = None if run.kill_by is not None else run.elastic
                joining = None if elastic is None or elastic.closed else begin_joining(run, elastic, place)
                if joining is None:
                    return run
                run = joining
                self.record(run)
                # Before the task begins, which reads it.
                await self.threads.run(run.owner, self.write_size, run, account)
                run = await self._start_joining(self.current(run), prepared)
                self.record_if_possible(run)
        except (BackendError, StorageFull) as error:
            run = self.current(run)
            if run.elastic is not None:
                run = give_up_joining(run, run.elastic, why=f"No task can be added to this run. {error}")
                self.record_if_possible(run)
            log.warning("job=%s run=%d: no task can be added: %s", run.job, run.number, error)
        return run

    async def _start_joining(self, run: Run, prepared: Preparation) -> Run:
        """Start the task that joins, with room for it in the limits of the run, and return the run with it."""
        elastic = run.elastic
        if elastic is None or elastic.joining is None:
            return run
        set_limits(self.parent_group, run.group, elastic.limits.times(len(run.members)))
        process = await self.start(run, elastic.joining, prepared)
        # Meanwhile the run may have been told to stop, but only this method changes its tasks.
        run = finish_joining(self.current(run), elastic, elastic.joining, process)
        log.info("run grows: job=%s run=%d task=%d joins", run.job, run.number, elastic.joining.number)
        return run

    def settle(self, run: Run, table: ProcessTable) -> Run:
        """Return the run without the leaving tasks whose processes have all ended; signal those that still have some.

        If a task was joining when an earlier service ended, its process is found by its mark. Without a process, the
        number of that task is free again.
        """
        before = run
        run = self._settle_joining(run, table)
        for slot in () if run.elastic is None else run.elastic.leaving:
            left = self.members.find_leaving(run, slot.number, table)
            if left:
                self._end_leaving(run, slot, left, table)
            elif run.elastic is not None:
                run = finish_leaving(run, run.elastic, slot.number)
                self.members.forget_leaving(run, slot.number)
                self._told.discard((run.key, slot.number))
        if run != before:
            self.record_if_possible(run)
            if run.elastic is not None:
                set_limits(self.parent_group, run.group, run.elastic.limits.times(len(run.members)))
            if before.elastic is not None and before.elastic.joining is not None:
                self._untold[run.key] = run
        return run

    def _settle_joining(self, run: Run, table: ProcessTable) -> Run:
        elastic = run.elastic
        if elastic is None or elastic.joining is None:
            return run
        process = self.members.find_leader(run, elastic.joining.number, table)
        if process is None:
            return give_up_joining(run, elastic)
        return finish_joining(run, elastic, elastic.joining, process)

    def _end_leaving(self, run: Run, slot: Slot, left: set[int], table: ProcessTable) -> None:
        """Tell a task that leaves to stop, once; after its deadline kill its processes, the runner's last."""
        leader = run.tasks[slot.number]
        above = {leader.pid} if leader is not None else set()
        now = self.awake()
        if now >= slot.kill_by:
            others = left - above if now < slot.kill_by + _SPARED_SECONDS else set()
            table.signal(others or left, signal.SIGKILL)
        elif (run.key, slot.number) not in self._told:
            self._told.add((run.key, slot.number))
            table.signal(above or left, signal.SIGTERM)

    def write_size(self, run: Run, account: UnixAccount) -> None:
        """Write the size of an elastic run into its folder, where its tasks read it; a failure is logged.

        A task that joins counts from before its start on, so that it finds itself among the present tasks.
        """
        if run.elastic is None:
            return
        joining = () if run.elastic.joining is None else (run.elastic.joining.number,)
        try:
            size = describe_size(sorted({*run.elastic.numbers, *joining}), run.elastic.least, len(run.tasks))
            folder = run_folder(self.root, run.job, run.number)
            make_private_folder(folder, account)
            write_private(folder / SIZE_FILE, size, account)
        except OSError as error:
            log.warning("job=%s run=%d: its tasks are not told how many they are: %s", run.job, run.number, error)

    def take_untold(self) -> list[Run]:
        """Return the runs whose tasks read an old size, so that `tell_size` must be called; forget these runs here."""
        untold, self._untold = list(self._untold.values()), {}
        return untold

    async def tell_size(self, run: Run) -> None:
        """Write the size of a run in a thread."""
        with contextlib.suppress(BackendError):  # the system user was removed while the job ran
            account = self.accounts.last_known(run.owner)
            await self.threads.run(run.owner, self.write_size, self.current(run), account)

    def forget(self, key: tuple[str, int]) -> None:
        """Forget which tasks of a run were told to stop."""
        self._told = {each for each in self._told if each[0] != key}


def make_elasticity(launch: Launch, limits: RunLimits) -> Elasticity | None:
    """Return the elasticity of the run of a workload that can go on with fewer tasks; None for any other workload.

    `limits` are those of one task.
    """
    workload = launch.workload
    if not workload.can_shrink or not workload.placement:
        return None
    return Elasticity(least=workload.min_members, numbers=tuple(range(len(workload.placement))), limits=limits)
