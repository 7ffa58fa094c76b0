"""The part of the module pynvml (from nvidia-ml-py) that is used here, as types, without importing pynvml.

`find_handle` is the one function of our own: it finds a device also while another one fails.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import NewType, Protocol

#: A device, as calls of the driver refer to it.
Handle = NewType("Handle", object)


class NvmlError(Exception):
    """The type of `pynvml.NVMLError`."""

    #: The error code, one of the numbers `NVML_ERROR_*`.
    value: int


class Memory(Protocol):
    """The memory of a device, in bytes."""

    @property
    def total(self) -> int:
        """The total memory, in bytes."""

    @property
    def free(self) -> int:
        """The memory that no process holds, in bytes."""


class RunningProcess(Protocol):
    """A process that uses a device."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def usedGpuMemory(self) -> int | None:
        """The memory that the process uses, in bytes; None if the driver does not tell."""


class UtilisationSample(Protocol):
    """A sample of the use of a device by one process during a short time."""

    @property
    def pid(self) -> int:
        """The process id."""

    @property
    def timeStamp(self) -> int:
        """The time of the sample, in microseconds since the epoch."""

    @property
    def smUtil(self) -> int:
        """The use of the device's multiprocessors, in per cent."""


class GroupLimits(Protocol):
    """The limits on the memory that the programs of a control group may hold of a device, in bytes."""

    #: Path of the folder of the control group.
    nameSpace: bytes
    #: Memory that is kept for the group.
    softLimit: int
    #: Memory above which the driver refuses more.
    hardLimit: int


class Nvml(Protocol):
    """The module pynvml. Every function raises `NVMLError` if the driver reports an error."""

    NVMLError: type[NvmlError]
    NVML_SUCCESS: int
    NVML_DEVICE_MIG_ENABLE: int
    NVML_FEATURE_ENABLED: int
    NVML_ERROR_UNINITIALIZED: int
    NVML_ERROR_INVALID_ARGUMENT: int
    NVML_ERROR_NOT_FOUND: int
    NVML_ERROR_LIBRARY_NOT_FOUND: int
    NVML_ERROR_DRIVER_NOT_LOADED: int
    NVML_ERROR_LIB_RM_VERSION_MISMATCH: int
    NVML_ERROR_NO_PERMISSION: int
    NVML_ERROR_GPU_IS_LOST: int
    NVML_ERROR_NOT_SUPPORTED: int
    NVML_ERROR_FUNCTION_NOT_FOUND: int
    #: The limit of a group that has none, in bytes.
    NVML_DEVICE_MEMORY_LIMIT_MAX: int
    c_nvmlSetMemoryLimits_v1_t: Callable[[], GroupLimits]
    c_nvmlGetMemoryLimits_v1_t: Callable[[], GroupLimits]

    def nvmlInit(self) -> None:
        """Open the driver; a further call is only counted."""

    def nvmlShutdown(self) -> None:
        """Undo one call of `nvmlInit`; the driver is closed once all of them are undone."""

    def nvmlDeviceGetCount(self) -> int:
        """Return the number of devices."""

    def nvmlDeviceGetHandleByIndex(self, index: int) -> Handle:
        """Return the handle of the device with this index."""

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> Handle:
        """Return the handle of the device with this UUID."""

    def nvmlDeviceGetMemoryInfo(self, handle: Handle) -> Memory:
        """Return the sizes of a device's memory, in bytes."""

    def nvmlDeviceGetUUID(self, handle: Handle) -> str | bytes:
        """Return the UUID of a device."""

    def nvmlDeviceGetName(self, handle: Handle) -> str | bytes:
        """Return the product name of a device."""

    def nvmlDeviceGetMinorNumber(self, handle: Handle) -> int:
        """Return the number N of the device file /dev/nvidiaN."""

    def nvmlDeviceGetMigMode(self, handle: Handle) -> Sequence[int]:
        """Return the present and the pending mode of partitioning of a device."""

    def nvmlDeviceGetPersistenceMode(self, handle: Handle) -> int:
        """Return whether the driver keeps a device ready while no program uses it."""

    def nvmlDeviceGetComputeRunningProcesses(self, handle: Handle) -> Sequence[RunningProcess]:
        """Return the processes that compute on a device."""

    def nvmlDeviceGetMPSComputeRunningProcesses(self, handle: Handle) -> Sequence[RunningProcess]:
        """Return the processes that compute on a device through MPS."""

    def nvmlDeviceGetProcessUtilization(self, handle: Handle, since: int) -> Sequence[UtilisationSample]:
        """Return the samples of each process's use of a device since `since`, in microseconds since the epoch."""

    def nvmlDeviceSetMemoryLimits_v1(self, handle: Handle, limits: GroupLimits) -> None:
        """Set the limits of a control group on a device; the driver must be of version 615 or newer."""

    def nvmlDeviceGetMemoryLimits_v1(self, handle: Handle, limits: GroupLimits) -> None:
        """Write the limits of a control group on a device into `limits`, which names the group."""


def find_handle(nvml: Nvml, device: str) -> Handle:
    """Return the handle of the device with this id; raise `NVMLError` if there is none, or if that device is lost.

    While any device is lost, or fails otherwise, the driver's own search by id may fail for all of them. Then each one
    is asked for its id.
    """
    try:
        return nvml.nvmlDeviceGetHandleByUUID(device)
    except nvml.NVMLError as error:
        if error.value in (nvml.NVML_ERROR_NOT_FOUND, nvml.NVML_ERROR_UNINITIALIZED, nvml.NVML_ERROR_INVALID_ARGUMENT):
            raise  # no other device can be the reason
        for index in range(nvml.nvmlDeviceGetCount()):
            with suppress(nvml.NVMLError):
                handle = nvml.nvmlDeviceGetHandleByIndex(index)
                if to_text(nvml.nvmlDeviceGetUUID(handle)) == device:
                    return handle
        raise


def to_text(value: str | bytes) -> str:
    """Return a text of the driver, which older versions of pynvml give as bytes."""
    return value.decode() if isinstance(value, bytes) else value
