"""The containers of a pod beside its main one, which must see no device. Pure.

Images made for CUDA set `NVIDIA_VISIBLE_DEVICES=all` themselves. Under NVIDIA's runtime such a sidecar sees all GPUs of
its node. The agent, which looks at whole pods, then finds that this pod sees devices of others.
"""

from collections.abc import Iterator

from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .counted_devices import VISIBLE

#: The variable that hides all devices from a container.
HIDDEN = {"name": VISIBLE, "value": "void"}


def unguarded_containers(spec: JsonMapping, main: str) -> frozenset[str]:
    """Return the names of containers beside `main` that may see devices by accident, init containers included.

    A container whose spec names its visible devices, or asks for a device by count, does so on purpose and is left out.
    """
    return frozenset(each["name"] for each in _others(spec, main) if not _sees_by_intent(each))


def hide_devices(spec: JsonObject, main: str) -> JsonObject:
    """Return a copy of a pod's spec in which `NVIDIA_VISIBLE_DEVICES=void` hides all devices from unguarded containers.

    Unguarded are the containers that `unguarded_containers` finds beside `main`; all others are unchanged.
    """
    hidden = unguarded_containers(spec, main)
    parts = {
        part: [
            {**each, "env": [*(each.get("env") or []), dict(HIDDEN)]} if each["name"] in hidden else each
            for each in spec[part]
        ]
        for part in ("containers", "initContainers")
        if spec.get(part)
    }
    return {**spec, **parts}


def _others(spec: JsonMapping, main: str) -> Iterator[JsonMapping]:
    yield from (each for each in spec.get("containers") or () if each["name"] != main)
    yield from spec.get("initContainers") or ()


def _sees_by_intent(container: JsonMapping) -> bool:
    said = any(each.get("name") == VISIBLE for each in container.get("env") or ())
    # Resources of Kubernetes itself (cpu, memory) have no vendor before a slash.
    asked = (container.get("resources") or {}).get("limits") or {}
    return said or any("/" in name for name in asked)
