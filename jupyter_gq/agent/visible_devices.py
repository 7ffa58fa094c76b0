"""The GPUs that the containers of a pod can open: the device nodes in their /dev.

Rules
-----
- All or unknown: if one process cannot be inspected, the answer is unknown, because that process may see more devices.
- Ended processes do not count: if no process is left, the answer is unknown.
- Nameless devices: the driver may count devices that it cannot describe, such as one that was lost before the agent
  began. Then a device node without a known device may be one of them, and the answer for its pod alone is unknown.

See docs/decisions/0317-leave-only-the-pods-of-a-nameless-gpu-unclear.md.
"""

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from jupyter_gq.devices.probe import DeviceInfo

_DEVICE_NODE = re.compile(r"nvidia(\d+)")


def map_minors_to_uuids(devices: Sequence[DeviceInfo]) -> dict[int, str] | None:
    """Return the UUID of each device by the number N of its device node /dev/nvidiaN.

    Return None if there is no device, or if the driver does not tell the number of one of them.
    """
    uuids = {device.minor: device.uuid for device in devices if device.minor is not None}
    return uuids if len(uuids) == len(devices) and devices else None


def find_visible_devices(
    proc: Path, pids: Iterable[int], uuids: Mapping[int, str] | None, *, are_all_named: bool = True
) -> list[str] | None:
    """Return the UUIDs of the devices that these processes have in their /dev, sorted; None if that is unknown.

    `uuids` has the UUID of each device by its minor number (see `map_minors_to_uuids`); `proc` is the node's /proc.
    If `are_all_named` is false, the node has devices that are not in `uuids`: a device node with another number then
    makes the answer None.
    """
    if uuids is None:
        return None
    visible: set[str] = set()
    #: Identities of the folders that were listed: most processes of a pod have the same /dev.
    listed: set[tuple[int, int]] = set()
    is_known = False
    for pid in pids:
        try:
            minors = _list_minors(proc / str(pid) / "root" / "dev", listed)
        except (FileNotFoundError, ProcessLookupError):
            continue
        except OSError:
            return None
        is_known = True
        if not (are_all_named or uuids.keys() >= set(minors)):
            return None
        # If all devices are named, a device node of another number has no device behind it and cannot be opened.
        visible.update(uuids[minor] for minor in minors if minor in uuids)
    return sorted(visible) if is_known else None


def _list_minors(folder: Path, listed: set[tuple[int, int]]) -> list[int]:
    """Return the numbers of the device nodes of GPUs in a container's /dev; none if that folder was listed before.

    The folder is added to `listed`. Raises `OSError` if it cannot be read.
    """
    # NOFOLLOW: the container's user may have replaced /dev by a link, which would be resolved outside of the container.
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        found_as = os.fstat(handle)
        identity = (found_as.st_dev, found_as.st_ino)
        if identity in listed:
            return []
        listed.add(identity)
        return [int(found[1]) for found in map(_DEVICE_NODE.fullmatch, os.listdir(handle)) if found is not None]
    finally:
        os.close(handle)
