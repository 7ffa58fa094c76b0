"""Changes that the cluster makes to a new object, such as by a webhook, and that the service does not survive.

The service knows an object by its own labels and annotations, and counts a pod on the node and with the devices that it
asked for. Whatever else a cluster adds to an object is its own affair.
"""

from jupyter_gq.backends.kubernetes.api.quantities import quantity
from jupyter_gq.domain.json_types import JsonMapping

from . import names

#: Resources of this vendor are devices, also where nobody asked for them.
_VENDOR = "nvidia.com/"


def find_changes(wanted: JsonMapping, created: JsonMapping) -> list[str]:
    """Return what the created object lacks or has otherwise than was asked for, sorted: labels, node and devices."""
    asked, got = wanted["metadata"], created["metadata"]
    found = [
        key
        for kind in ("labels", "annotations")
        for key, text in (asked.get(kind) or {}).items()
        if key.startswith(names.PREFIX) and (got.get(kind) or {}).get(key) != text
    ]
    there, here = wanted.get("spec") or {}, created.get("spec") or {}
    if _node_affinity(there) != _node_affinity(here):
        found.append("its node")
    devices = _devices(there)
    found += [
        key for key, count in {**dict.fromkeys(devices, 0), **_devices(here)}.items() if count != devices.get(key, 0)
    ]
    return sorted(found)


def _node_affinity(spec: JsonMapping) -> object:
    """Return what binds the pod to nodes; None if nothing does."""
    return (spec.get("affinity") or {}).get("nodeAffinity") or None


def _devices(spec: JsonMapping) -> dict[str, int]:
    """Return how many devices all containers of a pod ask for, by resource. An object without containers asks for none.

    Devices are the resources of the vendor of GPUs.
    """
    found: dict[str, int] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for key, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if key.startswith(_VENDOR):
                found[key] = found.get(key, 0) + int(quantity(text) or 0)
    return found
