"""Runs whose supervisor or runner has been stopped by a signal, so that they report nothing and cannot end.

Rules
-----
- Seen, not asked: the table of processes shows it, which each observation reads anyway.
- Not at once: a script may stop a process for a moment.
- No debuggers: a process that one holds goes on when the debugger says so, and not by a signal.
- Left alone: whoever stopped the process may want that. The run keeps its devices, and can be cancelled.
- Not what we stop: the processes of a suspended run stand still as well, and so may those of one whose recovery is
  unfinished. They are not looked at.

See docs/decisions/0254-say-that-a-run-stands-still.md.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from jupyter_gq.backends.processes import ProcessTable
from jupyter_gq.devices.linux.processes import Process
from jupyter_gq.domain.workload import RunKey

from .ledger import Run

#: Seconds for which a process must have been seen stopped.
_AFTER = 60.0
_SENTENCE = (
    "The {part} of the job (process {pid}) was stopped by a signal more than a minute ago, so the job does not report "
    "and cannot end by itself. The job keeps what it holds until that process goes on (kill -CONT {pid}), the job is "
    "cancelled, or its time is over."
)


@dataclass(kw_only=True)
class Standstill:
    """The runs that stand still, and since when that is seen."""

    #: Returns the seconds for which the machine has been awake.
    awake: Callable[[], float]
    _since: dict[RunKey, float] = field(init=False, default_factory=dict)

    def describe(self, run: Run, table: ProcessTable) -> str:
        """Return why a run does not answer, as a sentence; "" if its supervisors and runners go on.

        To be called at each observation of a run that shall go on.
        """
        stopped = next(_find_stopped(run, table), None)
        if stopped is None:
            self.forget(run.key)
            return ""
        if self.awake() - self._since.setdefault(run.key, self.awake()) < _AFTER:
            return ""
        part, process = stopped
        return _SENTENCE.format(part=part, pid=process.pid)

    def forget(self, key: RunKey) -> None:
        """Forget since when a run stands still, because it goes on, is suspended or has ended."""
        self._since.pop(key, None)


def _find_stopped(run: Run, table: ProcessTable) -> Iterator[tuple[str, Process]]:
    """Yield the stopped supervisors and runners of the tasks of a run, each with what it is."""
    for number in run.members:
        task = run.tasks[number]
        if task is None or not table.alive(task.pid, task.ticks):
            continue
        # The runner is the first process that its supervisor started; programs that detach come to it later.
        children = [each for pid in table.tree(task.pid) if (each := table.process(pid)) and each.parent == task.pid]
        runners = sorted(children, key=lambda each: (each.ticks, each.pid))[:1]
        supervisor = table.process(task.pid)
        parts = [("supervisor", each) for each in (supervisor,) if each is not None]
        parts += [("runner", each) for each in runners]
        yield from (part for part in parts if part[1].stopped and not part[1].traced)
