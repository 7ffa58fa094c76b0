"""The devices that NVIDIA's driver shows. The only module that imports pynvml (from nvidia-ml-py), and only when asked.

Rules
-----
1. Each way in which it can be missing is a named state with a sentence; nothing is raised, at import or later.
2. What the driver does not say is None, never 0.
"""

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import cast

from jupyter_gq.domain.amount import MiB

from .nvml_library import Handle, Nvml, NvmlError, RunningProcess
from .probe import DeviceInfo, ProbeState, ProbeStatus, Usage

_MIB = 1024 * 1024
#: Samples of the last so many seconds count.
_WINDOW = 10.0
_SENTENCES = {
    ProbeState.NOT_INSTALLED: "The Python module pynvml is missing: install nvidia-ml-py.",
    ProbeState.NO_DRIVER: "NVIDIA's driver is not on this machine (libnvidia-ml.so.1 was not found or not loaded).",
    ProbeState.DRIVER_MISMATCH: "NVIDIA's library and kernel module are of different versions: restart the machine.",
    ProbeState.NO_PERMISSION: "The service may not ask NVIDIA's driver: give its user access to /dev/nvidia*.",
    ProbeState.NO_DEVICES: "NVIDIA's driver works and finds no GPU.",
    ProbeState.LOST: "A GPU fell off the bus: look at the kernel's log and restart the machine.",
}


class NvmlProbe:
    """Observes NVIDIA GPUs; see `devices.probe.DeviceProbe`.

    The driver is opened at the first question, and again at each later one for as long as it is not there.
    """

    def __init__(self, *, now: Callable[[], float], load: Callable[[], Nvml] | None = None) -> None:
        """`now` tells the time in seconds since the epoch; `load` imports pynvml (tests pass one of their own)."""
        self._now = now
        self._load = load or _import_pynvml
        self._opened: Nvml | None = None

    def status(self) -> ProbeStatus:
        """Whether there is something to observe."""
        return self._look()[0]

    def devices(self) -> tuple[DeviceInfo, ...]:
        """Return the devices by index; none unless the state is OK."""
        return self._look()[1]

    def usage(self, device: str, pids: Sequence[int]) -> tuple[Usage, ...] | None:
        """Return the use of each of these processes that uses the device; None if it cannot be known."""
        if self._open() is not None:
            return None
        try:
            handle = self._nvml.nvmlDeviceGetHandleByUUID(device)
            memory = _memory_by_pid(self._running(handle))
        except self._nvml.NVMLError:
            return None
        used = self._utilisation(handle)
        return tuple(
            Usage(pid=pid, memory=memory[pid], utilisation=None if used is None else used.get(pid, 0))
            for pid in pids
            if pid in memory
        )

    def _look(self) -> tuple[ProbeStatus, tuple[DeviceInfo, ...]]:
        missing = self._open()
        if missing is not None:
            return missing, ()
        try:
            count = self._nvml.nvmlDeviceGetCount()
            devices = tuple(self._describe(index) for index in range(count))
        except self._nvml.NVMLError as error:
            return self._problem(error), ()
        if not devices:
            return _status(ProbeState.NO_DEVICES), ()
        return ProbeStatus(state=ProbeState.OK, detail=_summary(devices)), devices

    def _open(self) -> ProbeStatus | None:
        """Make the driver ready; None when it is."""
        if self._opened is None:
            try:
                module = self._load()
            except ImportError:
                return _status(ProbeState.NOT_INSTALLED)
            if not hasattr(module, "nvmlDeviceGetProcessUtilization"):
                detail = "The module pynvml here is not the one of nvidia-ml-py: remove the other and install that."
                return ProbeStatus(state=ProbeState.NOT_INSTALLED, detail=detail)
            self._opened = module
        try:
            # nvmlInit counts its callers: a call costs nothing once the driver is open, and is tried until then.
            self._nvml.nvmlInit()
        except self._nvml.NVMLError as error:
            return self._problem(error)
        return None

    @property
    def _nvml(self) -> Nvml:
        """The module; `_open` has been called before."""
        assert self._opened is not None
        return self._opened

    def _describe(self, index: int) -> DeviceInfo:
        handle = self._nvml.nvmlDeviceGetHandleByIndex(index)
        total = self._nvml.nvmlDeviceGetMemoryInfo(handle).total
        return DeviceInfo(
            uuid=_text(self._nvml.nvmlDeviceGetUUID(handle)),
            index=index,
            model=_text(self._nvml.nvmlDeviceGetName(handle)).removeprefix("NVIDIA "),
            memory=MiB(total // _MIB),
            minor=self._minor(handle),
        )

    def _minor(self, handle: Handle) -> int | None:
        try:
            return int(self._nvml.nvmlDeviceGetMinorNumber(handle))
        except self._nvml.NVMLError:
            return None

    def _running(self, handle: Handle) -> list[RunningProcess]:
        running = list(self._nvml.nvmlDeviceGetComputeRunningProcesses(handle))
        with suppress(self._nvml.NVMLError):  # older drivers do not know the question
            running += self._nvml.nvmlDeviceGetMPSComputeRunningProcesses(handle)
        return running

    def _utilisation(self, handle: Handle) -> dict[int, int] | None:
        """Return the highest sample of each process in the window; None if the driver does not say."""
        try:
            # The driver's time is in microseconds since the epoch; older samples stay in its buffer for long.
            since = int((self._now() - _WINDOW) * 1_000_000)
            samples = self._nvml.nvmlDeviceGetProcessUtilization(handle, since)
        except self._nvml.NVMLError as error:
            # NOT_FOUND: no process had a sample. Value 0: "success, but no samples".
            quiet = error.value in (self._nvml.NVML_ERROR_NOT_FOUND, self._nvml.NVML_SUCCESS)
            return {} if quiet else None
        used: dict[int, int] = {}
        for sample in samples:
            if sample.timeStamp >= since:
                used[sample.pid] = max(used.get(sample.pid, 0), min(100, int(sample.smUtil)))
        return used

    def _problem(self, error: NvmlError) -> ProbeStatus:
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
        return _status(state)


def _import_pynvml() -> Nvml:
    import pynvml

    return cast(Nvml, pynvml)


def _memory_by_pid(running: Iterable[RunningProcess]) -> dict[int, MiB | None]:
    memory: dict[int, MiB | None] = {}
    for process in running:
        used = process.usedGpuMemory
        memory[process.pid] = None if used is None else MiB(-(-used // _MIB))
    return memory


def _status(state: ProbeState) -> ProbeStatus:
    return ProbeStatus(state=state, detail=_SENTENCES[state])


def _summary(devices: Sequence[DeviceInfo]) -> str:
    counts: dict[str, int] = {}
    for device in devices:
        counts[device.model] = counts.get(device.model, 0) + 1
    return ", ".join(f"{count}x {model}" for model, count in counts.items())


def _text(value: str | bytes) -> str:
    return value.decode() if isinstance(value, bytes) else value
