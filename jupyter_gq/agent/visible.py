"""Which GPUs the containers of a pod can open: the device nodes in their /dev.

Rules
-----
1. Any process that cannot be looked into makes the answer unknown: a device that is not seen may still be there.
2. A process that has ended meanwhile counts nothing; when none is left, nothing is known.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jupyter_gq.devices.probe import DeviceInfo

_NODE = re.compile(r"nvidia(\d+)")


def uuids_by_minor(devices: Sequence[DeviceInfo]) -> dict[int, str] | None:
    """Return the device behind each number of a device node; None if the driver does not tell all numbers."""
    numbers = {device.minor: device.uuid for device in devices if device.minor is not None}
    return numbers if len(numbers) == len(devices) and devices else None


def visible_devices(proc: Path, pids: Iterable[int], uuids: Mapping[int, str] | None) -> list[str] | None:
    """UUIDs of the devices that these processes find in their /dev; None = unknown."""
    if uuids is None:
        return None
    seen: set[str] = set()
    looked = False
    for pid in pids:
        try:
            numbers = _numbers_in(proc / str(pid) / "root" / "dev")
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            return None
        looked = True
        # A node without a device behind it cannot be opened.
        seen.update(uuids[number] for number in numbers if number in uuids)
    return sorted(seen) if looked else None


def _numbers_in(folder: Path) -> list[int]:
    # The container's own user may have made a link of it, which would be followed from here and not from there.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        return [int(found[1]) for found in map(_NODE.fullmatch, os.listdir(handle)) if found is not None]
    finally:
        os.close(handle)
