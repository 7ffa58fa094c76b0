"""Stands in for NVIDIA's driver in a container of the stand-in kubelet, whose runtime `GQ_RUNTIME` says.

`names`: it obeys the variable of the runtime where that names devices. `all`: it shows every device to everybody.
"""

import os
from types import SimpleNamespace

_ALL = ("GPU-one", "GPU-two")


class NVMLError(Exception):
    """Never raised here."""


def _visible():
    if os.environ.get("GQ_RUNTIME") == "all":
        return list(_ALL)
    named = os.environ.get("NVIDIA_VISIBLE_DEVICES", "").split(",")
    return [name for name in named if name.startswith("GPU-")]


def nvmlInit():
    """Opened."""


def nvmlDeviceGetCount():
    return len(_visible())


def nvmlDeviceGetHandleByIndex(index):
    return _visible()[index]


def nvmlDeviceGetUUID(handle):
    return handle


def nvmlDeviceGetName(handle):
    return "NVIDIA A100-SXM4-40GB"


def nvmlDeviceGetMinorNumber(handle):
    return 0


def nvmlDeviceGetMemoryInfo(handle):
    return SimpleNamespace(total=40 * 2**30)


def nvmlDeviceGetProcessUtilization(handle, since):
    return []
