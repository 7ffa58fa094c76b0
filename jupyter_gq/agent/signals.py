"""The signals that the agent sends to processes of watched pods, and why it may send none.

Rules
-----
- Exactly one process: the process must have the id and the start time of the command, and be in the pod of the
  command, at the moment of the signal.
- Main processes get no signal: the end of a notebook server or of a job's runner would be the end of all their work.
- Host ids: NVIDIA's driver names processes by their ids on the host. If the agent sees other ids, those of the driver
  belong to other processes.

See docs/decisions/0161-let-agents-signal-one-process-by-order.md.
"""

import os
import signal
from collections.abc import Callable, Iterable
from contextlib import suppress

from jupyter_gq.client.agents import AgentCommand
from jupyter_gq.devices.limits import is_simulated
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.linux.signals import deliver_signal

from .processes import Processes

#: The signal of each command that is about one process.
SIGNALS = {"interrupt": signal.SIGINT, "terminate": signal.SIGTERM, "kill": signal.SIGKILL}
OFF = (
    "This agent may not signal programs, so nothing ends a program above its memory limit. To change that, set "
    "agent.endPrograms: true in the chart, or c.NodeAgent.end_programs = True."
)
NO_HOST_IDS = (
    "The agent does not see the processes by their ids on the host, so the ids that the driver tells belong to others. "
    "The agent's pod needs hostPID, and its node must not be a container."
)
NO_RIGHT = (
    "The agent may not signal the programs of pods (the system refused it for process {pid}). Its container must be "
    "privileged, or run as root with the capability KILL."
)
MAIN = "The process is the main process of its container, which gets no signal."
ELSEWHERE = "The process is not in this pod."
GONE = "The process has ended."


def may_signal(pid: int) -> bool:
    """Return whether the system lets the agent signal a process; True if the process is gone."""
    with suppress(ProcessLookupError):
        try:
            os.kill(pid, 0)
        except PermissionError:
            return False
    return True


class PodSignals:
    """The sender of signals to processes of pods on this node."""

    def __init__(
        self,
        processes: Processes,
        *,
        allowed: bool,
        host_ids: Callable[[], bool],
        may_signal: Callable[[int], bool] = may_signal,
    ) -> None:
        """Create a sender; `allowed`: whether an administrator lets this agent send signals.

        `host_ids` returns whether the processes are seen here by their ids on the host; `may_signal` tells whether the
        system lets the agent signal a process, and tests replace it.
        """
        self._processes, self._allowed, self._host_ids, self._may_signal = processes, allowed, host_ids, may_signal

    def knows_processes(self, devices: Iterable[str]) -> bool:
        """Return whether the processes that the driver of these devices names are those that the agent sees."""
        return all(map(is_simulated, devices)) or self._host_ids()

    def explain_missing(self, devices: Iterable[str], pids: Iterable[int]) -> str:
        """Return why the agent cannot signal these processes on these devices, as a sentence; "" if it can."""
        if not self._allowed:
            return OFF
        if not self.knows_processes(devices):
            return NO_HOST_IDS
        refused = next((pid for pid in pids if not self._may_signal(pid)), None)
        return "" if refused is None else NO_RIGHT.format(pid=refused)

    def send(self, command: AgentCommand) -> str:
        """Send the signal of a command to its process; return "" if it was sent, else a sentence that says why not."""
        if not self._allowed:
            return OFF
        process = command.process
        if process is None:
            return "The command names no process."
        refusal = ""

        def is_wanted() -> bool:
            nonlocal refusal
            refusal = self._refuse(process.pid, command.pod_uid)
            return not refusal

        try:
            sent = deliver_signal(ProcessId(process.pid, process.ticks), SIGNALS[command.kind], is_wanted)
        except PermissionError:
            return NO_RIGHT.format(pid=process.pid)
        return "" if sent else refusal or GONE

    def _refuse(self, pid: int, uid: str) -> str:
        """Return why a process gets no signal on behalf of this pod; "" if it may get one."""
        if not self._processes.is_in_pod(pid, uid):
            return ELSEWHERE
        return MAIN if pid in self._processes.find_main_processes(uid) else ""
