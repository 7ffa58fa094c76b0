"""The files that stand for the device memory of processes on simulated devices.

All lie in the folder `<temporary folder>/jupyter-gq-sim-<uid>` of the user of the process:

- `<pid>` holds the memory in whole MiB that the process reports (`jupyter_gq.simulate_memory`);
- `<pid>.gpu` holds what the simulated driver did to the process, as JSON, so that it outlives the service;
- `fault-<name>` makes the simulated driver fail (`SimulatedFault`): for the processes whose ids it holds, separated by
  white space, or for all if it is empty. The fault stays until the file is removed.
"""

import json
import os
import stat
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

import psutil

from jupyter_gq.devices.checkpointer import CheckpointState
from jupyter_gq.devices.linux.processes import ProcessId, read_process
from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.amount import MiB

#: Bytes of a memory report that are read.
_MAX_REPORT_BYTES = 32
#: Bytes of a record or a fault that are read.
_MAX_BYTES = 64 * 1024
#: MiB; a process may report any number.
_MAX_REPORT = 2**31
_FOLDER = "jupyter-gq-sim-"
_DEVICES = "JUPYTER_GQ_DEVICES"


class SimulatedFault(StrEnum):
    """The failures that a simulated driver can be told to have; see the files of this module."""

    LOCK_TIMEOUT = "lock_timeout"  # the GPU work of the process never ends
    RESTORE_OOM = "restore_oom"  # a restore finds too little device memory, whatever is free
    MANAGED_MEMORY = "managed_memory"  # the process uses managed memory, which cannot be checkpointed
    NVML_LOST = "nvml_lost"  # the probe has lost the devices
    PID_RECYCLED = "pid_recycled"  # the id of the process belongs to another process by now


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulatedRecord:
    """The record of the acts of the simulated driver on one process."""

    state: CheckpointState = CheckpointState.RUNNING
    #: New device by former device, of all restores so far.
    moves: Mapping[str, str] = field(default_factory=dict)

    @property
    def holds_memory(self) -> bool:
        """True if the memory of the process is on a device."""
        return self.state in (CheckpointState.RUNNING, CheckpointState.LOCKED)


def reported_memory(process: psutil.Process) -> MiB:
    """Return the memory in MiB that the process reported in its file; 0 if there is no valid report.

    Raises `psutil.Error` if the process has ended.
    """
    uid = process.uids().real
    text = _read(_folder_of(uid), str(process.pid), _MAX_REPORT_BYTES, owner=uid, since=process.create_time() - 1)
    try:
        return MiB(min(_MAX_REPORT, max(0, int(text))))
    except ValueError:
        return MiB(0)


def read_record(process: ProcessId) -> SimulatedRecord:
    """Return what the simulated driver did to the process; a process without a valid record is RUNNING."""
    with suppress(psutil.Error, ValueError, KeyError):
        # The folder belongs to the user of the process, who may write anything into the file.
        found = bounded_json.parse(_read(_folder_of_process(process.pid), _record_name(process.pid), _MAX_BYTES))
        moves = found["moves"] if isinstance(found, dict) else None
        if isinstance(found, dict) and found["ticks"] == process.ticks and isinstance(moves, dict):
            return SimulatedRecord(
                state=CheckpointState(str(found["state"])), moves={old: str(new) for old, new in moves.items()}
            )
    return SimulatedRecord()


def write_record(process: ProcessId, record: SimulatedRecord) -> None:
    """Replace the record of a process at once.

    Raises `OSError` if the file cannot be written, and `psutil.Error` if the process has ended.
    """
    content = {"ticks": process.ticks, "state": record.state.value, "moves": dict(record.moves)}
    name = _record_name(process.pid)
    # The folder belongs to the user of the process: names are followed through its handle, and no link is.
    folder = os.open(_folder_of_process(process.pid), os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        with suppress(FileNotFoundError):
            os.unlink(f"{name}.tmp", dir_fd=folder)
        handle = os.open(f"{name}.tmp", os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644, dir_fd=folder)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(content, file)
        os.rename(f"{name}.tmp", name, src_dir_fd=folder, dst_dir_fd=folder)
    finally:
        os.close(folder)


def memory_on_device(device: str) -> MiB:
    """Return the memory in MiB of all processes that hold this simulated device by their environment or by a move."""
    return MiB(sum(_memory_of(pid, device) for pid in reporting_pids()))


def reporting_pids() -> Iterator[int]:
    """Yield the ids of all running processes that have a record.

    The ids come from the list of processes, not from the names of records: users can make any number of files there.
    """
    for pid in psutil.pids():
        with suppress(OSError):
            if (_folder_of(os.stat(f"/proc/{pid}").st_uid) / str(pid)).is_file():
                yield pid


def held_devices(pid: int, record: SimulatedRecord) -> frozenset[str]:
    """Return the simulated devices that a process was started with, after the moves of its record.

    Raises `psutil.Error` if the process has ended or may not be read.
    """
    named = psutil.Process(pid).environ().get(_DEVICES, "").split(",")
    return frozenset(record.moves.get(device, device) for device in named if device)


def has_fault(fault: SimulatedFault, pid: int | None = None) -> bool:
    """Tell whether the simulated driver shall fail in this way, for the process with this id or in general."""
    name = f"fault-{fault.value}"
    folder = _folder_of(os.geteuid())
    if not (folder / name).is_file():
        return False
    pids = _read(folder, name, _MAX_BYTES).split()
    return not pids or (pid is not None and str(pid) in pids)


def set_fault(fault: SimulatedFault, pids: Collection[int] = ()) -> None:
    """Let the simulated driver fail in this way for these processes, or for all without `pids`."""
    folder = _folder_of(os.geteuid())
    folder.mkdir(mode=0o700, exist_ok=True)
    (folder / f"fault-{fault.value}").write_text(" ".join(map(str, pids)), encoding="ascii")


def clear_fault(fault: SimulatedFault) -> None:
    """End a fault; does nothing if there is none."""
    (_folder_of(os.geteuid()) / f"fault-{fault.value}").unlink(missing_ok=True)


def _memory_of(pid: int, device: str) -> MiB:
    """Return the memory in MiB of a process on a device; 0 if the process has ended or does not hold the device."""
    found = read_process(pid)
    if found is None or found.dead:
        return MiB(0)
    with suppress(psutil.Error):
        record = read_record(found.id)
        if record.holds_memory and device in held_devices(pid, record):
            return reported_memory(psutil.Process(pid))
    return MiB(0)


def _folder_of(uid: int) -> Path:
    try:
        parent = tempfile.gettempdir()
    except FileNotFoundError:  # all disks are full, or can only be read: nothing new is there
        parent = "/tmp"  # noqa: S108 - each file in it is read with care
    return Path(parent, f"{_FOLDER}{uid}")


def _folder_of_process(pid: int) -> Path:
    """Return the folder of this module's files for the user who runs the process.

    Raises `psutil.Error` if the process has ended.
    """
    return _folder_of(psutil.Process(pid).uids().real)


def _record_name(pid: int) -> str:
    return f"{pid}.gpu"


def _read(folder: Path, name: str, most: int, *, owner: int | None = None, since: float = 0) -> str:
    """Return the text of a plain file; "" if it is missing, a link, of another owner, or not changed after `since`."""
    try:
        handle = os.open(folder / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        found = os.fstat(handle)
        # A file that is older than the process was left by an earlier process with the same id.
        if not stat.S_ISREG(found.st_mode) or owner not in (None, found.st_uid) or found.st_mtime < since:
            return ""
        return os.read(handle, most).decode("utf-8", errors="replace")
    except OSError:
        return ""
    finally:
        os.close(handle)
