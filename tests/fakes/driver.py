"""A driver of GPUs in memory, which lives on when the service is killed, with the failures of a real one."""

import threading
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from jupyter_gq.devices.checkpointer import CheckpointError, CheckpointProblem, CheckpointState, CheckpointSupport
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.nvidia.cuda_checkpointer import complete_moves
from jupyter_gq.devices.nvidia.driver_limits import LimitError
from jupyter_gq.devices.probe import DeviceInfo, DeviceModes, ProbeState, ProbeStatus, Usage
from jupyter_gq.devices.suspension.host_memory import HostRoom
from jupyter_gq.devices.suspension.journal import FileJournal, JournalEntry
from jupyter_gq.domain.amount import MiB, Seconds

from .time_and_death import Fuse

S = CheckpointState


@dataclass
class DriverProcess:
    """A process on one device, and perhaps on others too."""

    id: ProcessId
    memory: int
    device: str = "GPU-0"
    state: CheckpointState = S.RUNNING
    #: Problems that calls have, by the name of the call.
    fails: dict[str, CheckpointProblem] = field(default_factory=dict)
    #: Memory in MiB on each device beside `device`.
    elsewhere: dict[str, int] = field(default_factory=dict)

    @property
    def held(self) -> dict[str, int]:
        """Memory in MiB by device, wherever its bytes are now."""
        return {self.device: self.memory, **self.elsewhere}


class FakeDriver:
    """The checkpointer, probe and host memory of a machine in memory; the service can be killed in each call."""

    def __init__(self, devices: int = 2, memory: int = 10_000, fuse: Fuse | None = None) -> None:
        self.total = {f"GPU-{index}": memory for index in range(devices)}
        self.processes: dict[int, DriverProcess] = {}
        self.fuse = fuse or Fuse()
        self.available = True
        self.can_move = True
        self.blind = False
        #: Devices that have fallen off the bus for the probe, while others answer.
        self.lost: set[str] = set()
        self.obstacle_of: dict[str, str] = {}
        #: Host memory in MiB that each program has beside its GPU state.
        self.own_memory = 500
        self.host: HostRoom | None = HostRoom(memory=MiB(100_000), place="this machine")
        #: Called before each restore and checkpoint with the name of the call.
        self.before = lambda call, process: None

    # --- what a test does ---------------------------------------------------------------------------------------------

    def start(
        self, pid: int, memory: int, device: str = "GPU-0", *, ticks: int | None = None, **fails: CheckpointProblem
    ) -> ProcessId:
        process = DriverProcess(id=ProcessId(pid, ticks or pid * 10), memory=memory, device=device, fails=fails)
        self.processes[pid] = process
        return process.id

    def end(self, pid: int) -> None:
        del self.processes[pid]

    def used(self, device: str) -> int:
        return sum(p.held.get(device, 0) for p in self.processes.values() if p.state in (S.RUNNING, S.LOCKED))

    def in_host_memory(self, pids: Collection[int]) -> int:
        found = [self.processes[pid] for pid in pids]
        return sum(sum(p.held.values()) for p in found if p.state is S.CHECKPOINTED)

    def held_by(self, pids: Collection[int]) -> dict[str, int]:
        """Return the memory in MiB of these processes together by device, wherever its bytes are now."""
        found: dict[str, int] = {}
        for pid in pids:
            for device, memory in self.processes[pid].held.items():
                found[device] = found.get(device, 0) + memory
        return found

    def states(self) -> dict[int, CheckpointState]:
        return {pid: process.state for pid, process in self.processes.items()}

    # --- the checkpointer ---------------------------------------------------------------------------------------------

    def support(self) -> CheckpointSupport:
        detail = "This works." if self.available else "The driver is too old."
        return CheckpointSupport(available=self.available, can_move=self.can_move, detail=detail)

    def uses_device(self, process: ProcessId) -> bool:
        found = self.processes.get(process.pid)
        return found is not None and found.id == process and (any(found.held.values()) or found.state is not S.RUNNING)

    def state(self, process: ProcessId) -> CheckpointState:
        return self._call("state", process, None).state

    def lock(self, process: ProcessId, timeout: Seconds) -> None:
        self._change("lock", process, S.RUNNING, S.LOCKED)

    def checkpoint(self, process: ProcessId) -> None:
        self._change("checkpoint", process, S.LOCKED, S.CHECKPOINTED)

    def restore(self, process: ProcessId, moves: Mapping[str, str]) -> None:
        found = self._call("restore", process, S.CHECKPOINTED)
        moves = complete_moves(moves, list(self.total))
        held = {moves.get(device, device): memory for device, memory in found.held.items()}
        if any(self.total[device] - self.used(device) < memory for device, memory in held.items()):
            found.state = S.FAILED
            raise CheckpointError(CheckpointProblem.OUT_OF_MEMORY, "The GPU is full.")
        found.device, found.state = moves.get(found.device, found.device), S.LOCKED
        found.elsewhere = {device: memory for device, memory in held.items() if device != found.device}
        self.fuse.burn()

    def unlock(self, process: ProcessId) -> None:
        self._change("unlock", process, S.LOCKED, S.RUNNING)

    def _change(self, call: str, process: ProcessId, before: CheckpointState, after: CheckpointState) -> None:
        self._call(call, process, before).state = after
        self.fuse.burn()

    def _call(self, call: str, process: ProcessId, wanted: CheckpointState | None) -> DriverProcess:
        if call != "state":
            self.fuse.burn()
            self.before(call, process)
        found = self.processes.get(process.pid)
        if found is None or found.id != process:
            raise CheckpointError(CheckpointProblem.NO_PROCESS, "The process has ended.")
        problem = found.fails.get(call)
        if problem is not None:
            if problem in (CheckpointProblem.OUT_OF_MEMORY, CheckpointProblem.LOST):
                found.state = S.FAILED
            raise CheckpointError(problem, f"The driver refuses: {problem.value}.")
        if wanted not in (None, found.state):
            lost = found.state is S.FAILED
            problem = CheckpointProblem.LOST if lost else CheckpointProblem.WRONG_STATE
            raise CheckpointError(problem, f"The process is {found.state.value}.")
        return found

    # --- the probe and the host memory --------------------------------------------------------------------------------

    def status(self) -> ProbeStatus:
        return ProbeStatus(state=ProbeState.OK, detail="In memory, for tests.")

    def devices(self) -> tuple[DeviceInfo, ...]:
        return tuple(
            DeviceInfo(uuid=uuid, index=index, model="A100-40GB", memory=MiB(memory))
            for index, (uuid, memory) in enumerate(self.total.items())
            if uuid not in self.lost
        )

    def usage(self, device: str, pids: Sequence[int]) -> tuple[Usage, ...] | None:
        if self.blind or device in self.lost:
            return None
        found = [self.processes[pid] for pid in pids if pid in self.processes]
        return tuple(
            Usage(pid=process.id.pid, memory=MiB(process.held[device]), utilisation=0)
            for process in found
            if device in process.held and process.state in (S.RUNNING, S.LOCKED)
        )

    def free_memory(self, device: str) -> MiB | None:
        return None if self.blind or device in self.lost else MiB(self.total[device] - self.used(device))

    def modes(self, device: str) -> DeviceModes:
        return DeviceModes(partitioned=False, persistent=True)

    def suspension_obstacle(self, device: str, pids: Sequence[int]) -> str | None:
        return self.obstacle_of.get(device)

    def room(self, pids: Collection[int]) -> HostRoom | None:
        return self.host

    def most_state(self, pid: int) -> MiB | None:
        return None if self.blind else MiB(self.in_host_memory([pid]) + self.own_memory)


class JournalOfAServiceThatDies(FileJournal):
    """A journal whose service can be killed before and after each change."""

    def __init__(self, path, fuse: Fuse) -> None:
        super().__init__(path, boot="boot-1")
        self._fuse = fuse

    def write(self, entry: JournalEntry) -> None:
        self._fuse.burn()
        super().write(entry)
        self._fuse.burn()

    def remove(self, name: str) -> None:
        self._fuse.burn()
        super().remove(name)
        self._fuse.burn()


class DriverThatKeepsLimits:
    """A driver in memory; what it does wrong is set by the test."""

    def __init__(self):
        self.limits, self.calls = {}, []
        self.refusal, self.forgets = "", False
        #: Errors of reading a limit, by device.
        self.unread = {}
        self.answers = threading.Event()
        self.answers.set()

    def set_limit(self, device, group, limit):
        self.answers.wait()
        self.calls.append((device, limit))
        if self.refusal:
            raise LimitError(self.refusal)
        if not self.forgets:
            self.limits[(device, group)] = limit

    def read_limit(self, device, group):
        if device in self.unread:
            raise self.unread[device]
        return self.limits.get((device, group))
