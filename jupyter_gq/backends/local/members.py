"""The processes of runs.

Rules
-----
Supervisor: the process of a task is a subreaper (`runner.processes`), so whatever the task starts is below it.
Survivors: if the supervisor is killed, the processes that were seen below it belong to its run until they have ended.
    So do the processes below them, those with the run's mark in their environment, and those in its control group.
"""

from collections.abc import Iterable

from jupyter_gq.backends.control_groups import pids_of
from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.domain.errors import BackendError

from .accounts import UnixAccounts
from .environment import MARK
from .ledger import Run, TaskProcess

#: Id and start time of a process.
_Identity = tuple[int, int]


class Members:
    """The processes of all runs, as far as they were seen."""

    def __init__(self, accounts: UnixAccounts) -> None:
        self._accounts = accounts
        self._seen: dict[tuple[str, int], frozenset[_Identity]] = {}
        #: The same for tasks that leave their run, by number of the task.
        self._seen_leaving: dict[tuple[str, int], dict[int, frozenset[_Identity]]] = {}

    def find(self, run: Run, table: ProcessTable) -> set[int]:
        """Return the ids of the living processes of the run, and remember these processes for later calls."""
        tasks = [run.tasks[number] for number in run.members]
        leaders = [task for task in tasks if task is not None and table.alive(task.pid, task.ticks)]
        roots = {task.pid for task in leaders}
        roots |= {pid for pid, ticks in self._seen.get(run.key, ()) if table.alive(pid, ticks)}
        roots |= pids_of(run.group)
        if len(leaders) < len(tasks):
            roots |= self.find_marked(run, run.members, table)
        found = {pid for root in roots for pid in table.tree(root)}
        self._seen[run.key] = frozenset((pid, each.ticks) for pid in found if (each := table.process(pid)) is not None)
        return found

    def find_leaving(self, run: Run, number: int, table: ProcessTable) -> set[int]:
        """Return the ids of the living processes of one task that leaves its run, and remember them for later calls."""
        leader, seen = run.tasks[number], self._seen_leaving.setdefault(run.key, {})
        roots = {pid for pid, ticks in seen.get(number, ()) if table.alive(pid, ticks)}
        if leader is not None and table.alive(leader.pid, leader.ticks):
            roots.add(leader.pid)
        else:
            roots |= self.find_marked(run, [number], table)
        found = {pid for root in roots for pid in table.tree(root)}
        seen[number] = frozenset((pid, each.ticks) for pid in found if (each := table.process(pid)) is not None)
        return found

    def forget_leaving(self, run: Run, number: int) -> None:
        """Forget the processes of a task that has left its run: a later task may have the same number."""
        self._seen_leaving.get(run.key, {}).pop(number, None)

    def find_marked(self, run: Run, tasks: Iterable[int], table: ProcessTable) -> set[int]:
        """Return the ids of the living processes with the mark of one of these tasks in their environment.

        If each owner has an account, only its processes count; there are none if that account is gone.
        """
        try:
            account = self._accounts.last_known(run.owner)
        except BackendError:
            return set()  # the system user was removed while the job ran
        uid = account.uid if self._accounts.system_users else None
        return {pid for task in tasks for pid in table.find_marked(MARK, run.mark(task), uid)}

    def find_leader(self, run: Run, task: int, table: ProcessTable) -> TaskProcess | None:
        """Return the process of a task that was started and not recorded, found by its mark; None if there is none."""
        marked = [table.process(pid) for pid in self.find_marked(run, [task], table)]
        leaders = [process for process in marked if process is not None and process.session == process.pid]
        first = min(leaders, key=lambda process: process.ticks, default=None)
        return None if first is None else TaskProcess(pid=first.pid, ticks=first.ticks)

    def forget(self, key: tuple[str, int]) -> None:
        """Forget the processes of a run that has ended."""
        self._seen.pop(key, None)
        self._seen_leaving.pop(key, None)


def find_gone(run: Run, table: ProcessTable) -> list[int]:
    """Return the numbers of the tasks of the run whose process is not alive or not known."""
    tasks = ((number, run.tasks[number]) for number in run.numbers)
    return [number for number, task in tasks if task is None or not table.alive(task.pid, task.ticks)]
