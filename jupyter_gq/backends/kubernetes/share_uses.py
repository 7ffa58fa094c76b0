"""The use of shares whose pods are on one or several nodes, by the names that the core gives to devices.

Rules
-----
- Slots: the core knows a device of a pod by its slot, and agents know it by its UUID. Pods that name both connect them.
- All or unknown: if one device of one pod is unknown, the use by device and process is.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from jupyter_gq.devices.meter import DeviceUse, ShareUse
from jupyter_gq.domain.amount import MiB

from .api.views import PodView


def name_slots(pod: PodView, use: ShareUse, memory_of: Callable[[str], MiB | None]) -> ShareUse:
    """Return the use of a pod with its slots as names of the devices, and the devices' own memory.

    `memory_of` returns the memory of a device by its UUID. The use by device and process is left out unless the pod
    names all of its devices and each of them was reported.
    """
    slots = dict(zip(pod.devices, pod.slots, strict=False))
    if len(slots) != len(pod.slots) or {each.device for each in use.devices} != slots.keys():
        return replace(use, devices=())
    devices = (replace(each, device=slots[each.device], total=memory_of(each.device)) for each in use.devices)
    return replace(use, devices=tuple(devices))


def add_up(uses: Sequence[ShareUse]) -> ShareUse:
    """Return the sum of the pods' memory and the largest of their utilisations, and their use by device and process.

    If an amount of one pod is unknown, that result is None. If the use by device of one pod is unknown, it is empty.
    """
    memory = [use.memory for use in uses if use.memory is not None]
    work = [use.utilisation for use in uses if use.utilisation is not None]
    return ShareUse(
        memory=MiB(sum(memory)) if len(memory) == len(uses) else None,
        utilisation=max(work) if len(work) == len(uses) else None,
        devices=_join([each for use in uses for each in use.devices]) if all(use.devices for use in uses) else (),
    )


def _join(uses: Sequence[DeviceUse]) -> tuple[DeviceUse, ...]:
    """Return one entry for each device, with the processes of all pods that have a part of it."""
    found: dict[str, DeviceUse] = {}
    for use in uses:
        before = found.get(use.device)
        if before is None:
            found[use.device] = use
            continue
        both = None if before.processes is None or use.processes is None else (*before.processes, *use.processes)
        found[use.device] = replace(use, processes=both)
    return tuple(found.values())
