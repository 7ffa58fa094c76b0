"""The limits that NVIDIA's driver sets on the device memory of control groups, from version 615 on.

Rules
-----
- Detected: an installed pynvml or a driver without the functions is an error with a sentence, not a crash.
- Hard limit only: nothing is kept for a group (soft limit 0), so that memory of a suspended share can be lent, and so
  that no reservation is left behind by a group that is removed.
- Read back: a limit counts only if the driver shows it. The driver may round it, so a small difference is no failure.

See docs/decisions/0205-let-the-driver-limit-control-groups.md.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from jupyter_gq.devices.probe import DeviceInfo
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import MachineError

from .nvml import import_pynvml
from .nvml_library import Nvml, NvmlError, find_handle

_MIB = 1024 * 1024
#: MiB by which the limit that the driver shows may be above the one that was set.
_ROUNDING = MiB(256)
#: First version of the driver that limits the memory of control groups.
LIMITS_FROM = 615
_NO_MODULE = (
    "The installed nvidia-ml-py does not know the memory limits of the driver: install version 13.615 or newer."
)
_TOO_OLD = f"NVIDIA's driver cannot limit the memory of control groups: install version {LIMITS_FROM} or newer."


class LimitError(MachineError):
    """The failure to set or read a limit; its text is a sentence for people."""


class NeverLimitedError(LimitError):
    """The refusal of a device on which the driver limits no group, so that none has a limit there."""


class MemoryLimiter(Protocol):
    """The limits on the memory that the programs of a control group may hold of a device."""

    def set_limit(self, device: str, group: str, limit: MiB | None) -> None:
        """Set the limit of the group in the folder `group` on a device; None = no limit. Raises `LimitError`."""
        ...

    def read_limit(self, device: str, group: str) -> MiB | None:
        """Return the limit of a group on a device, in MiB rounded up; None if it has none. Raises `LimitError`."""
        ...


class NvmlLimiter:
    """The limiter of NVIDIA's driver. Setting a limit needs root; reading one does not."""

    def __init__(self, load: Callable[[], Nvml] = import_pynvml) -> None:
        """Create a limiter that does not open the driver yet; `load` imports pynvml, and tests replace it."""
        self._load = load

    def set_limit(self, device: str, group: str, limit: MiB | None) -> None:
        """Set the hard limit of a group, and keep no memory for it; see `MemoryLimiter`."""
        with self._driver() as nvml:
            limits = nvml.c_nvmlSetMemoryLimits_v1_t()
            limits.nameSpace, limits.softLimit = group.encode(), 0
            limits.hardLimit = nvml.NVML_DEVICE_MEMORY_LIMIT_MAX if limit is None else limit * _MIB
            self._call(nvml, lambda: nvml.nvmlDeviceSetMemoryLimits_v1(find_handle(nvml, device), limits))

    def read_limit(self, device: str, group: str) -> MiB | None:
        """Return the hard limit of a group; see `MemoryLimiter`."""
        with self._driver() as nvml:
            limits = nvml.c_nvmlGetMemoryLimits_v1_t()
            limits.nameSpace = group.encode()
            self._call(nvml, lambda: nvml.nvmlDeviceGetMemoryLimits_v1(find_handle(nvml, device), limits))
            found = limits.hardLimit
            return None if found == nvml.NVML_DEVICE_MEMORY_LIMIT_MAX else MiB(-(-found // _MIB))

    @contextmanager
    def _driver(self) -> Iterator[Nvml]:
        """Return pynvml with the driver open until the end of the block.

        Raises `LimitError` if either is missing or too old. The driver is closed again, so that the probe, which holds
        it open, can open it anew after a failure.
        """
        try:
            nvml = self._load()
        except ImportError:
            raise LimitError(_NO_MODULE) from None
        if not hasattr(nvml, "nvmlDeviceSetMemoryLimits_v1"):
            raise LimitError(_NO_MODULE)
        self._call(nvml, nvml.nvmlInit)
        try:
            yield nvml
        finally:
            with suppress(nvml.NVMLError):
                nvml.nvmlShutdown()

    def _call(self, nvml: Nvml, function: Callable[[], None]) -> None:
        """Call a function of the driver, and raise its error as `LimitError`."""
        try:
            function()
        except nvml.NVMLError as error:
            never = error.value in (nvml.NVML_ERROR_NOT_SUPPORTED, nvml.NVML_ERROR_FUNCTION_NOT_FOUND)
            raise (NeverLimitedError if never else LimitError)(_sentence_of(nvml, error)) from error


class NoLimiter:
    """The limiter of devices whose memory no driver limits, such as simulated ones."""

    def __init__(self, why: str) -> None:
        """Create a limiter that refuses every call with the sentence `why`."""
        self._why = why

    def set_limit(self, device: str, group: str, limit: MiB | None) -> None:
        """Raise `NeverLimitedError`."""
        raise NeverLimitedError(self._why)

    def read_limit(self, device: str, group: str) -> MiB | None:
        """Raise `NeverLimitedError`."""
        raise NeverLimitedError(self._why)


def describe_obstacle(limiter: MemoryLimiter, devices: Sequence[DeviceInfo], group: str) -> str:
    """Return why the driver cannot limit memory on the first device, as it says for a group; "" if it can."""
    try:
        for device in devices[:1]:
            limiter.read_limit(device.uuid, group)
    except LimitError as error:
        return str(error)
    return ""


def is_kept(wanted: MiB, found: MiB | None) -> bool:
    """Return whether the limit that the driver shows, None = none, is the wanted one or below it."""
    return found is not None and found <= wanted + _ROUNDING


def _sentence_of(nvml: Nvml, error: NvmlError) -> str:
    """Return what an error of the driver means here, and what to do."""
    return {
        nvml.NVML_ERROR_FUNCTION_NOT_FOUND: _TOO_OLD,
        nvml.NVML_ERROR_NOT_SUPPORTED: "NVIDIA's driver does not limit the memory of this GPU (MIG is one reason).",
        nvml.NVML_ERROR_NO_PERMISSION: "NVIDIA's driver lets only root set memory limits: run the service as root.",
        nvml.NVML_ERROR_NOT_FOUND: "NVIDIA's driver finds no memory controller in the control group: have the "
        "controller dmem delegated to the service, or let the driver count without it.",
    }.get(error.value, f"NVIDIA's driver says: {error}.")
