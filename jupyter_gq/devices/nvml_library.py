"""The part of the module pynvml (from nvidia-ml-py) that the probe uses, as types. Nothing here imports pynvml."""

from collections.abc import Sequence
from typing import NewType, Protocol

#: A device, as the driver names it in calls.
Handle = NewType("Handle", object)


class NvmlError(Exception):
    """The type of `pynvml.NVMLError`."""

    #: One of the numbers NVML_ERROR_....
    value: int


class Memory(Protocol):
    """Memory of a device, in bytes."""

    @property
    def total(self) -> int:
        """The total memory."""


class RunningProcess(Protocol):
    """A process that uses a device."""

    @property
    def pid(self) -> int:
        """Process id."""

    @property
    def usedGpuMemory(self) -> int | None:
        """Bytes; None = the driver does not say."""


class UtilisationSample(Protocol):
    """Use of a device by one process during a short time."""

    @property
    def pid(self) -> int:
        """Process id."""

    @property
    def timeStamp(self) -> int:
        """Microseconds since the epoch."""

    @property
    def smUtil(self) -> int:
        """Per cent of the device's multiprocessors."""


class Nvml(Protocol):
    """The module itself. Every function raises `NVMLError`."""

    NVMLError: type[NvmlError]
    NVML_SUCCESS: int
    NVML_ERROR_NOT_FOUND: int
    NVML_ERROR_LIBRARY_NOT_FOUND: int
    NVML_ERROR_DRIVER_NOT_LOADED: int
    NVML_ERROR_LIB_RM_VERSION_MISMATCH: int
    NVML_ERROR_NO_PERMISSION: int
    NVML_ERROR_GPU_IS_LOST: int

    def nvmlInit(self) -> None:
        """Open the driver."""

    def nvmlDeviceGetCount(self) -> int:
        """Return the number of devices."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        """Return a device by its index."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Handle:
        """Return a device by its UUID."""

    def nvmlDeviceGetMemoryInfo(self, handle: Handle) -> Memory:
        """Return the memory of a device."""

    def nvmlDeviceGetUUID(self, handle: Handle) -> str | bytes:
        """Return the UUID of a device."""

    def nvmlDeviceGetName(self, handle: Handle) -> str | bytes:
        """Return the product name of a device."""

    def nvmlDeviceGetMinorNumber(self, handle: Handle) -> int:
        """Return the number N of the device file /dev/nvidiaN."""

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Handle) -> Sequence[RunningProcess]:
        """Return the processes that compute on a device."""

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: Handle) -> Sequence[RunningProcess]:
        """Return the processes that compute on a device through MPS."""

    def nvmlDeviceGetProcessUtilization(self, handle: Handle, since: int) -> Sequence[UtilisationSample]:
        """Return the samples that are newer than `since`, in microseconds since the epoch."""
