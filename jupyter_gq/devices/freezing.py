"""The stop of all processes of a run, so that they compute nothing while their GPU state is in host memory.

Rules
-----
- All of them: the processes are looked for until none of them goes on, since a process may start another one meanwhile.
- After the checkpoint, and never before: the driver moves the GPU state with the help of the process.

See docs/decisions/0165-stop-the-processes-of-a-suspended-job.md.
"""

import signal
from collections.abc import Callable, Collection

from .processes import ProcessId, read_process
from .signals import send_signal

#: Looks at the processes, and seconds between two of them. A process that waits for a disk stops later.
_LOOKS, _PAUSE = 20, 0.02


def freeze(find_processes: Callable[[], Collection[ProcessId]], sleep: Callable[[float], None]) -> None:
    """Send SIGSTOP to all processes that `find_processes` returns, again until none of them goes on.

    After 20 looks nothing more is done. A process that waits for a disk stops later.
    """
    for _look in range(_LOOKS):
        going_on = [process for process in find_processes() if _goes_on(process)]
        if not going_on:
            return
        for process in going_on:
            send_signal(process.pid, process.ticks, signal.SIGSTOP)
        sleep(_PAUSE)


def thaw(processes: Collection[ProcessId]) -> None:
    """Let these processes go on, by SIGCONT; does nothing to a process that was not stopped."""
    for process in processes:
        send_signal(process.pid, process.ticks, signal.SIGCONT)


def _goes_on(process: ProcessId) -> bool:
    """Return whether exactly this process is alive and not stopped."""
    found = read_process(process.pid)
    return found is not None and found.ticks == process.ticks and not found.dead and not found.stopped
