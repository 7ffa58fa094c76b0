"""The devices of NVIDIA's driver. The only module that imports pynvml (from nvidia-ml-py), at the first use.

Rules
-----
- States instead of exceptions: each way in which the driver can be missing is a named state with a sentence.
- Unknown is None: a value that the driver does not tell is never reported as 0.
- No hole between looks: the utilisation of a process is the highest since the last look at it. Looks that follow each
  other soon all tell what the first one told: a second report of an agent takes the place of the one before.
- One device alone: a device that is lost, or fails otherwise, is left out and named; the others are as ever.
- Held open, and opened anew after a failure: NVML goes on to report a device as lost, or a driver as unloaded, until it
  was closed by everybody in the process. So each opening is closed once. Beside devices that work that is done seldom,
  because their use is unknown to other threads meanwhile.

See docs/decisions/0304-leave-a-lost-gpu-out-and-keep-the-others.md and
docs/decisions/0502-look-at-the-gpu-use-since-the-last-look.md.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import NamedTuple, cast

from jupyter_gq.devices.probe import DeviceInfo, DeviceModes, ProbeState, ProbeStatus, Usage
from jupyter_gq.domain.amount import MiB

from .nvml_library import Handle, Nvml, NvmlError, RunningProcess, find_handle, to_text

_MIB = 1024 * 1024
#: Age in seconds up to which a sample of utilisation counts.
_WINDOW = 10.0
#: Seconds after which a look at a process counts for nothing.
_LONGEST_WINDOW = 90.0
#: Seconds after which the driver is opened anew while a device fails beside others, which may have been reset.
_REOPENED_EVERY = 60.0
#: Stands for the index of a device if the driver cannot count them.
_NO_INDEX = -1
_SENTENCES = {
    ProbeState.NOT_INSTALLED: "The Python module pynvml is missing: install nvidia-ml-py.",
    ProbeState.NO_DRIVER: "NVIDIA's driver is not on this machine (libnvidia-ml.so.1 was not found or not loaded).",
    ProbeState.DRIVER_MISMATCH: "NVIDIA's library and kernel module are of different versions: restart the machine.",
    ProbeState.NO_PERMISSION: "The service may not ask NVIDIA's driver: give its user access to /dev/nvidia*.",
    ProbeState.NO_DEVICES: "NVIDIA's driver works and finds no GPU.",
    ProbeState.LOST: "A GPU fell off the bus: look at the kernel's log and restart the machine.",
}


class _Look(NamedTuple):
    """A look at a process, in seconds since the epoch; the looks within `_WINDOW` after it count as the same one."""

    at: float
    #: Use of the GPU since then is told.
    since: float


class NvmlProbe:
    """The probe of NVIDIA GPUs; see `devices.probe.DeviceProbe`.

    The driver is opened at the first call. If that fails, each later call tries again. If the driver fails
    to describe a device, it is closed, so that the next call opens it anew. Beside devices that work, this happens when
    other devices fail than at the last listing, and once a minute.
    """

    def __init__(self, *, now: Callable[[], float], load: Callable[[], Nvml] | None = None) -> None:
        """Create a probe that does not open the driver yet.

        `now` returns the time in seconds since the epoch; `load` imports pynvml, and tests replace it.
        """
        self._now = now
        self._load = load or import_pynvml
        self._module: Nvml | None = None
        self._is_open = False
        #: The devices that the driver has described so far, by id.
        self._known: dict[str, DeviceInfo] = {}
        #: The indexes of the devices that failed at the last listing.
        self._failing: frozenset[int] = frozenset()
        #: When the driver was last closed because of a device, in seconds since the epoch.
        self._closed_at = float("-inf")
        #: The looks at processes, by device.
        self._looks: dict[str, dict[int, _Look]] = {}
        #: Held while the driver is opened or closed.
        self._opening = threading.Lock()

    def status(self) -> ProbeStatus:
        """Return OK if a device works, or else the state that says why not; each with a sentence for people.

        Devices that have worked before and do not work now are named.
        """
        return self._read_devices()[0]

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices in order of their index; an empty tuple if the state of `status` is not OK."""
        return self._read_devices()[1]

    def usage(self, device: str, pids: Sequence[int]) -> tuple[Usage, ...] | None:
        """Return the use of the device by each of these processes that uses it; None if the driver cannot say."""
        if self._open() is not None:
            return None
        try:
            handle = find_handle(self._nvml, device)
            clients = self._clients(handle)
            memory = _memory_by_pid([*self._nvml.nvmlDeviceGetComputeRunningProcesses(handle), *clients])
        except self._nvml.NVMLError:
            return None
        used, through_mps = self._utilisation_by_pid(device, handle, pids), {each.pid for each in clients}
        return tuple(
            Usage(
                pid=pid,
                memory=memory[pid],
                utilisation=None if used is None else used.get(pid, 0),
                through_mps=pid in through_mps,
            )
            for pid in pids
            if pid in memory
        )

    def free_memory(self, device: str) -> MiB | None:
        """Return the memory of the device in MiB, rounded down, that no process holds; None if that is unknown."""
        if self._open() is not None:
            return None
        try:
            handle = find_handle(self._nvml, device)
            return MiB(self._nvml.nvmlDeviceGetMemoryInfo(handle).free // _MIB)
        except self._nvml.NVMLError:
            return None

    def modes(self, device: str) -> DeviceModes:
        """Return the modes of the device; unknown ones are None."""
        if self._open() is not None:
            return DeviceModes(partitioned=None, persistent=None)
        persistent: bool | None = None
        with suppress(self._nvml.NVMLError):
            mode = self._nvml.nvmlDeviceGetPersistenceMode(find_handle(self._nvml, device))
            persistent = mode == self._nvml.NVML_FEATURE_ENABLED
        return DeviceModes(partitioned=self._is_partitioned(device), persistent=persistent)

    def suspension_obstacle(self, device: str, pids: Sequence[int]) -> str | None:
        """Return a sentence if the device is partitioned or one of the processes uses it through MPS; else None."""
        if self._open() is not None:
            return None
        if self._is_partitioned(device):
            return "The GPU is partitioned (MIG), and the driver suspends no process on a partitioned GPU."
        with suppress(self._nvml.NVMLError):
            clients = {each.pid for each in self._clients(find_handle(self._nvml, device))}
            if clients & set(pids):
                return "The program uses the GPU through MPS, and the driver does not suspend programs under MPS."
        return None

    def _is_partitioned(self, device: str) -> bool | None:
        """Return whether an open driver shows the device as partitioned; None if it has no such mode."""
        with suppress(self._nvml.NVMLError):
            handle = find_handle(self._nvml, device)
            current, _pending = self._nvml.nvmlDeviceGetMigMode(handle)
            return current == self._nvml.NVML_DEVICE_MIG_ENABLE
        return None

    def _read_devices(self) -> tuple[ProbeStatus, tuple[DeviceInfo, ...]]:
        """Return the state of the driver and its devices; no devices unless the state is OK."""
        problem = self._open()
        if problem is not None:
            return problem, ()
        devices: list[DeviceInfo] = []
        failed: dict[int, NvmlError] = {}
        try:
            for index in range(self._nvml.nvmlDeviceGetCount()):
                try:
                    devices.append(self._describe(index))
                except self._nvml.NVMLError as error:
                    failed[index] = error
        except self._nvml.NVMLError as error:
            failed[_NO_INDEX] = error
        self._close_after(frozenset(failed), works=bool(devices))
        failures = list(failed.values())
        if not devices:
            return self._status_of_error(failures[0]) if failures else _named_status(ProbeState.NO_DEVICES), ()
        self._known.update({device.uuid: device for device in devices})
        sentences = [_summary(devices), *self._describe_missing(devices, failures)]
        status = ProbeStatus(state=ProbeState.OK, detail=". ".join(sentences), undescribed=len(failures))
        return status, tuple(devices)

    def _close_after(self, failing: frozenset[int], *, works: bool) -> None:
        """Close the driver if a device fails and that may help; `works` says whether another device works.

        `failing` are the indexes of the devices that failed at this listing.
        """
        before, self._failing = self._failing, failing
        now = self._now()
        # Outside of these bounds, the time is up or the clock was set.
        is_recent = 0 <= now - self._closed_at < _REOPENED_EVERY
        if failing and not (works and failing == before and is_recent):
            self._closed_at = now
            self._close()

    def _describe_missing(self, devices: Sequence[DeviceInfo], failures: Sequence[NvmlError]) -> list[str]:
        """Return a sentence on the devices that do not work beside `devices`, which do; none if there are no others."""
        present = {device.uuid for device in devices}
        missing = [f"the {each.model} {each.uuid}" for each in self._known.values() if each.uuid not in present]
        if not missing and not failures:
            return []
        # A device that has never worked has no name.
        missing += ["another GPU"] * (len(failures) - len(missing))
        why = self._status_of_error(failures[0]).detail if failures else _SENTENCES[ProbeState.LOST]
        return [f"Not usable: {', '.join(missing)}. {why}"]

    def _open(self) -> ProbeStatus | None:
        """Load pynvml and open the driver; return None if that succeeds, else the state that says what is missing."""
        if self._module is None:
            try:
                module = self._load()
            except ImportError:
                return _named_status(ProbeState.NOT_INSTALLED)
            if not hasattr(module, "nvmlDeviceGetProcessUtilization"):
                detail = (
                    "The installed module pynvml is not the one of nvidia-ml-py: uninstall it and install nvidia-ml-py."
                )
                return ProbeStatus(state=ProbeState.NOT_INSTALLED, detail=detail)
            self._module = module
        with self._opening:
            if not self._is_open:
                try:
                    self._nvml.nvmlInit()
                except self._nvml.NVMLError as error:
                    return self._status_of_error(error)
                self._is_open = True
        return None

    def _close(self) -> None:
        """Close the driver; the next call opens it again."""
        with self._opening:
            if self._is_open:
                self._is_open = False
                with suppress(self._nvml.NVMLError):
                    self._nvml.nvmlShutdown()

    @property
    def _nvml(self) -> Nvml:
        """The module pynvml, once `_open` has loaded it."""
        assert self._module is not None
        return self._module

    def _describe(self, index: int) -> DeviceInfo:
        """Return the description of the device with this index; raise `NVMLError` if the driver fails."""
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        total = self._nvml.nvmlDeviceGetMemoryInfo(handle).total
        return DeviceInfo(
            uuid=to_text(self._nvml.nvmlDeviceGetUUID(handle)),
            index=index,
            model=to_text(self._nvml.nvmlDeviceGetName(handle)).removeprefix("NVIDIA "),
            memory=MiB(total // _MIB),
            minor=self._minor_number(handle),
        )

    def _minor_number(self, handle: Handle) -> int | None:
        """Return the number N of the device node /dev/nvidiaN; None if the driver does not tell."""
        try:
            return int(self._nvml.nvmlDeviceGetMinorNumber(handle))
        except self._nvml.NVMLError:
            return None

    def _clients(self, handle: Handle) -> Sequence[RunningProcess]:
        """Return the processes that use a device through MPS; none if the driver cannot say."""
        with suppress(self._nvml.NVMLError):  # older drivers do not have this function
            return self._nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)
        return ()

    def _utilisation_by_pid(self, device: str, handle: Handle, pids: Sequence[int]) -> dict[int, int] | None:
        """Return each process's highest utilisation since the last look at it, 0 to 100; None if the driver cannot say.

        That is at least the last `_WINDOW` seconds. A look longer ago than `_LONGEST_WINDOW` counts as none. Processes
        without a sample in that time are left out.
        """
        now = self._now()
        known = {pid: look for pid, look in self._looks.get(device, {}).items() if _is_recent(look, now)}
        looks = {pid: _look_again(known.get(pid), now) for pid in pids}
        # The driver's time is in microseconds since the epoch; older samples stay in its buffer for long.
        since = {pid: int(min(now - _WINDOW, look.since) * 1_000_000) for pid, look in looks.items()}
        used: dict[int, int] = {}
        try:
            samples = self._nvml.nvmlDeviceGetProcessUtilization(handle, min(since.values(), default=0))
        except self._nvml.NVMLError as error:
            # NOT_FOUND: no process had a sample. Value 0: "success, but no samples".
            if error.value not in (self._nvml.NVML_ERROR_NOT_FOUND, self._nvml.NVML_SUCCESS):
                return None
            samples = []
        for sample in samples:
            if sample.pid in since and sample.timeStamp >= since[sample.pid]:
                used[sample.pid] = max(used.get(sample.pid, 0), min(100, int(sample.smUtil)))
        self._looks[device] = {**known, **looks}
        return used

    def _status_of_error(self, error: NvmlError) -> ProbeStatus:
        """Return the state for an error of the driver; BROKEN with the driver's text if it has no name of its own."""
        states = {
            self._nvml.NVML_ERROR_LIBRARY_NOT_FOUND: ProbeState.NO_DRIVER,
            self._nvml.NVML_ERROR_DRIVER_NOT_LOADED: ProbeState.NO_DRIVER,
            self._nvml.NVML_ERROR_LIB_RM_VERSION_MISMATCH: ProbeState.DRIVER_MISMATCH,
            self._nvml.NVML_ERROR_NO_PERMISSION: ProbeState.NO_PERMISSION,
            self._nvml.NVML_ERROR_GPU_IS_LOST: ProbeState.LOST,
        }
        state = states.get(error.value, ProbeState.BROKEN)
        if state is ProbeState.BROKEN:
            return ProbeStatus(state=state, detail=f"NVIDIA's driver says: {error}.")
        return _named_status(state)


def import_pynvml() -> Nvml:
    """Return the module pynvml; raise `ImportError` if it is not installed."""
    import pynvml

    return cast(Nvml, pynvml)


def _memory_by_pid(running: Iterable[RunningProcess]) -> dict[int, MiB | None]:
    """Return the memory of each process in MiB, rounded up; None for a process of which the driver does not tell it."""
    memory: dict[int, MiB | None] = {}
    for process in running:
        used = process.usedGpuMemory
        memory[process.pid] = None if used is None else MiB(-(-used // _MIB))
    return memory


def _named_status(state: ProbeState) -> ProbeStatus:
    return ProbeStatus(state=state, detail=_SENTENCES[state])


def _summary(devices: Sequence[DeviceInfo]) -> str:
    """Return the number of devices of each model, such as "2x A100-SXM4-40GB"."""
    counts: dict[str, int] = {}
    for device in devices:
        counts[device.model] = counts.get(device.model, 0) + 1
    return ", ".join(f"{count}x {model}" for model, count in counts.items())


def _look_again(last: _Look | None, now: float) -> _Look:
    """Return the look at a process now, after its last one; None = there is none."""
    if last is None:
        return _Look(at=now, since=now - _WINDOW)
    if now - last.at < _WINDOW:
        return last
    return _Look(at=now, since=last.at)


def _is_recent(look: _Look, now: float) -> bool:
    """Return whether a look counts: it is not long ago, and no clock was set back since."""
    return 0 <= now - look.at <= _LONGEST_WINDOW
