"""Devices that a pod may have from the service alone: one rule for the pods of notebooks and of jobs. Pure.

The service counts the devices that it gives. A device that a pod takes in another way is in use and counts as free.

See docs/decisions/0066-refuse-pods-that-the-service-would-not-see.md.
"""

from collections.abc import Collection, Iterator
from fnmatch import fnmatchcase

from jupyter_gq.domain.json_types import JsonMapping

from .additions import PodAdditions

#: The variable that makes devices visible to a container.
VISIBLE = "NVIDIA_VISIBLE_DEVICES"
#: Values of `VISIBLE` with which a container sees no device.
_NOTHING = frozenset({"void", "none"})
#: Patterns of the resources that are devices, unless an administrator names others.
DEVICE_RESOURCES = ("nvidia.com/*", "amd.com/gpu", "gpu.intel.com/*")
#: Fields of a pod's spec that nobody but the service may set, and why.
POD_FIELDS = {
    "nodeName": "it would keep pods from the node that the GPU service chose",
    "resourceClaims": "the GPU service does not count devices that a pod has by a claim",
}


def is_share_only(resource: str, share_only: Collection[str]) -> bool:
    """Return whether only a share may add this resource: its name matches one of the patterns."""
    return any(fnmatchcase(resource, pattern) for pattern in share_only)


def escape_variable(value: str) -> str:
    """Return the text that Kubernetes turns into this value.

    Kubernetes replaces `$(NAME)` by another variable and `$$` by one dollar, so each dollar is doubled.
    """
    return value.replace("$", "$$")


def find_uncounted_devices(
    spec: JsonMapping, share_only: Collection[str], main: str, additions: PodAdditions
) -> Iterator[str]:
    """Yield a clause for each device in a pod's spec that is not of the additions, which `main`, a container, has.

    `share_only` are patterns of resources that only the service may add. Annotations, mounts and `envFrom` are not
    looked at.
    """
    if spec.get("resourceClaims"):
        yield "the pod claims devices (resourceClaims), which the GPU service does not count"
    given = escape_variable(additions.environment.get(VISIBLE, ""))
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        name, resources = container.get("name"), container.get("resources") or {}
        granted = additions.resources if name == main else {}
        for asked in (resources.get("requests") or {}, resources.get("limits") or {}):
            for resource, amount in asked.items():
                if is_share_only(resource, share_only) and granted.get(resource) != str(amount):
                    yield f"the container {name} asks for {resource}: {amount}, which is not of a share"
        for variable in container.get("env") or ():
            value = variable.get("value")
            if variable.get("name") == VISIBLE and value not in _NOTHING and (not given or value != given):
                yield f"the container {name} names devices in {VISIBLE} that are not of the pod's share"
