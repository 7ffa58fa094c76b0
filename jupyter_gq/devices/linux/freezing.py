"""The stop of all processes of a run, so that they compute nothing while their GPU state is in host memory.

Rules
-----
- All of them: the processes are looked for until none of them goes on, since a process may start another one meanwhile.
- After the checkpoint, and never before: the driver moves the GPU state with the help of the process.
- Again and again: the owner of a process may let it go on with SIGCONT. So each look at a suspended run stops what
  goes on. A control group that can be frozen holds its processes whatever signals they get.
- Nothing ends by itself: of processes that stand still, one that is gone was killed.

See docs/decisions/0165-stop-the-processes-of-a-suspended-job.md and
docs/decisions/0174-stop-the-processes-of-a-suspended-job-again.md.
"""

import signal
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from .processes import Process, ProcessId, read_process
from .signals import send_signal

#: Looks at the processes, and seconds between two of them. A process that waits for a disk stops later.
_LOOKS, _PAUSE = 20, 0.02


@dataclass(kw_only=True)
class Freezer:
    """The stop of all processes of one run; for one thread at a time."""

    #: Returns all processes of the run as they are now.
    find_processes: Callable[[], Collection[ProcessId]]
    #: Freezes (True) or thaws (False) the control group of the run; does nothing for a run without one.
    freeze_group: Callable[[bool], None]
    #: The processes that stood still after the last call of `freeze`; none after `thaw`.
    stopped: frozenset[ProcessId] = field(init=False, default=frozenset())

    def freeze(self, sleep: Callable[[float], None]) -> None:
        """Send SIGSTOP to all processes of the run, again until none of them goes on; then freeze its control group.

        `sleep` waits for so many seconds. After 20 looks no more signals are sent.
        """
        found = self.find_processes()
        for _look in range(_LOOKS):
            if not _stop_running(found):
                break
            sleep(_PAUSE)
            found = self.find_processes()
        self.stopped = frozenset(process for process in found if _is_stopped(process))
        self.freeze_group(True)

    def freeze_again(self, processes: Collection[ProcessId]) -> None:
        """Stop those of the `processes` that go on although the run was frozen, and freeze its control group again."""
        self.freeze_group(True)
        _stop_running(processes)

    def stands_still(self) -> bool:
        """Return whether any process of the run is stopped, whoever stopped it."""
        return any(map(_is_stopped, self.find_processes()))

    def thaw(self, processes: Collection[ProcessId] | None = None) -> None:
        """Let the `processes` go on, with the control group; without `processes`, let all processes of the run go on.

        Does nothing to a process that was not stopped.
        """
        self.freeze_group(False)
        thaw(self.find_processes() if processes is None else processes)
        self.stopped = frozenset()


def thaw(processes: Collection[ProcessId]) -> None:
    """Let these processes go on, by SIGCONT; does nothing to a process that was not stopped."""
    for process in processes:
        send_signal(process.pid, process.ticks, signal.SIGCONT)


def _stop_running(processes: Collection[ProcessId]) -> bool:
    """Send SIGSTOP to those of the processes that go on; return whether there was one."""
    going_on = [process for process in processes if (found := _read(process)) is not None and not found.stopped]
    for process in going_on:
        send_signal(process.pid, process.ticks, signal.SIGSTOP)
    return bool(going_on)


def _is_stopped(process: ProcessId) -> bool:
    """Return whether exactly this process is alive and stopped."""
    found = _read(process)
    return found is not None and found.stopped


def _read(process: ProcessId) -> Process | None:
    """Return exactly this process as it is now; None if it has ended."""
    found = read_process(process.pid)
    return found if found is not None and found.ticks == process.ticks and not found.dead else None
