"""The part of NVIDIA's library libcuda.so.1 that suspends processes, by ctypes. The library is loaded at the first use.

Rules
-----
- Nothing at import: a machine without a driver imports this module, and is told in a sentence what is missing.
- Opened once: `cuInit` stays in effect for the life of the process. If it fails, each later call tries again.
- Arguments of the checkpoint functions are structures of 64 bytes whose unused parts are zero.
"""

import ctypes
import platform
from collections.abc import Callable, Mapping
from typing import Protocol

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.errors import MachineError

#: Functions that every driver with the checkpoint API has.
FUNCTIONS = tuple(
    f"cuCheckpointProcess{name}"
    for name in ("GetState", "GetRestoreThreadId", "Lock", "Checkpoint", "Restore", "Unlock")
)
#: First version of CUDA, as `cuDriverGetVersion` gives it, whose driver restores on another device (r580).
_MOVES_FROM = 13000
_NAME = "libcuda.so.1"
#: Errors that mean that a process has no context: an invalid value, not initialised, an invalid context, an invalid
#: handle, and not found.
_NO_CONTEXT = frozenset({1, 3, 201, 400, 500})
_HINTS = {
    "CUDA_ERROR_NO_DEVICE": "It finds no GPU: is CUDA_VISIBLE_DEVICES empty for this program?",
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": "Library and kernel module are of different versions: restart the machine.",
    "CUDA_ERROR_STUB_LIBRARY": "This is the library of the CUDA toolkit for building: use that of the driver.",
}


class LockArguments(ctypes.Structure):
    """The arguments of `cuCheckpointProcessLock`."""

    _fields_ = [("timeout_ms", ctypes.c_uint), ("reserved0", ctypes.c_uint), ("reserved1", ctypes.c_uint64 * 7)]


class Pair(ctypes.Structure):
    """A former device and the device to use instead, by their UUIDs."""

    _fields_ = [("old", ctypes.c_ubyte * 16), ("new", ctypes.c_ubyte * 16)]


class RestoreArguments(ctypes.Structure):
    """The arguments of `cuCheckpointProcessRestore`."""

    _fields_ = [
        ("pairs", ctypes.POINTER(Pair)),
        ("count", ctypes.c_uint),
        ("reserved", ctypes.c_char * 52),
    ]


class CudaCallFailed(MachineError):
    """A call of libcuda that returned an error."""

    def __init__(self, call: str, code: int, name: str) -> None:
        super().__init__(f"{call} returned {name} ({code})")
        self.code, self.name = code, name


class CudaUnusable(MachineError):
    """A machine whose libcuda cannot suspend; the text is a sentence that says why and what to do."""


class _Function(Protocol):
    """A function of the library: it returns 0, or the number of an error."""

    def __call__(self, *arguments: object) -> int: ...


class CudaLibrary:
    """The functions of libcuda that suspend processes.

    Every method but `open` and `can_move` raises `CudaUnusable` or `CudaCallFailed`.
    """

    def __init__(self, load: Callable[[], ctypes.CDLL] | None = None) -> None:
        """Create the access without loading the library; `load` loads it, by default by its name."""
        self._load = load or _load
        self._library: ctypes.CDLL | None = None

    def open(self) -> None:
        """Load and initialise the library; does nothing if that is done. Raises `CudaUnusable`."""
        if self._library is not None:
            return
        if platform.machine() != "x86_64":
            raise CudaUnusable(
                f"NVIDIA's driver suspends processes on x86-64 machines only, and this one is {platform.machine()}."
            )
        try:
            library = self._load()
        except OSError as error:
            raise CudaUnusable(
                f"NVIDIA's library {_NAME} cannot be loaded ({error}): install a driver of version 570 or newer. "
                "In a container, NVIDIA_DRIVER_CAPABILITIES must name `compute`."
            ) from error
        if not all(hasattr(library, name) for name in FUNCTIONS):
            raise CudaUnusable("NVIDIA's driver is too old to suspend processes: install version 570 or newer.")
        code = library.cuInit(0)
        if code:
            name = _error_name(library, code)
            raise CudaUnusable(
                f"NVIDIA's driver cannot be used: cuInit returned {name} ({code}). {_HINTS.get(name, '')}".rstrip()
            )
        self._library = library

    def can_move(self) -> bool:
        """Tell whether the driver can restore a process on another device; False if it cannot be used at all."""
        version = ctypes.c_int()
        try:
            self._call("cuDriverGetVersion", ctypes.byref(version))
        except (CudaUnusable, CudaCallFailed):
            return False
        return version.value >= _MOVES_FROM

    def state(self, pid: int) -> int:
        """Return the number of the state of a process."""
        state = ctypes.c_int()
        self._call("cuCheckpointProcessGetState", pid, ctypes.byref(state))
        return state.value

    def has_context(self, pid: int) -> bool:
        """Tell whether the process uses a device: whether the driver names its thread that restores.

        An error that may have another cause, such as a missing right, is raised: the process may well use one.
        """
        thread = ctypes.c_int()
        try:
            self._call("cuCheckpointProcessGetRestoreThreadId", pid, ctypes.byref(thread))
        except CudaCallFailed as error:
            if error.code not in _NO_CONTEXT:
                raise
            return False
        return True

    def lock(self, pid: int, timeout: Seconds) -> None:
        """Lock a process, and wait for at most `timeout` seconds until its work on the GPU has ended."""
        # For the driver, 0 would mean to wait for ever.
        arguments = LockArguments(timeout_ms=max(1, round(timeout * 1000)))
        self._call("cuCheckpointProcessLock", pid, ctypes.byref(arguments))

    def checkpoint(self, pid: int) -> None:
        """Checkpoint a locked process."""
        self._call("cuCheckpointProcessCheckpoint", pid, None)

    def restore(self, pid: int, devices: Mapping[str, str]) -> None:
        """Restore a process; `devices` maps every UUID of this machine to the device to use, or is empty."""
        if not devices:
            self._call("cuCheckpointProcessRestore", pid, None)
            return
        pairs = (Pair * len(devices))(*(Pair(_bytes_of(old), _bytes_of(new)) for old, new in devices.items()))
        arguments = RestoreArguments(pairs=pairs, count=len(devices))
        self._call("cuCheckpointProcessRestore", pid, ctypes.byref(arguments))

    def unlock(self, pid: int) -> None:
        """Unlock a process."""
        self._call("cuCheckpointProcessUnlock", pid, None)

    def _call(self, name: str, *arguments: object) -> None:
        """Call a function of the library; raise `CudaCallFailed` if it returns an error."""
        self.open()
        assert self._library is not None
        function: _Function = getattr(self._library, name)
        code = function(*arguments)
        if code:
            raise CudaCallFailed(name, code, _error_name(self._library, code))


def _load() -> ctypes.CDLL:
    return ctypes.CDLL(_NAME)


def _error_name(library: ctypes.CDLL, code: int) -> str:
    """Return the driver's name of an error, such as CUDA_ERROR_NOT_READY."""
    name = ctypes.c_char_p()
    library.cuGetErrorName(code, ctypes.byref(name))
    return (name.value or b"an unknown error").decode(errors="replace")


def _bytes_of(uuid: str) -> "ctypes.Array[ctypes.c_ubyte]":
    """Return the 16 bytes of a UUID such as GPU-00000000-0000-0000-0000-000000000001."""
    return (ctypes.c_ubyte * 16)(*bytes.fromhex(uuid.removeprefix("GPU-").replace("-", "")))
