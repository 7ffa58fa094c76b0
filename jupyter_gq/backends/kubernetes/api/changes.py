"""Changes that the cluster makes to a new object, such as by a webhook, and that the service does not survive.

The service knows an object by its own labels and annotations, and counts a pod on the node and with the devices that it
asked for. Whatever else a cluster adds to an object is its own affair.
"""

from collections.abc import Collection, Sequence

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.client.pods.counted_devices import DEVICE_RESOURCES, is_share_only
from jupyter_gq.domain.json_types import JsonMapping

from .quantities import quantity

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def find_changes(wanted: JsonMapping, created: JsonMapping) -> list[str]:
    """Return what the created object lacks or has otherwise than was asked for, sorted.

    The entries are the keys of our labels and annotations, "its node", and the names of resources of devices. Of a Job,
    the template of its pods counts; the pods that the cluster makes from it are compared when they are seen.
    """
    found = _lost_marks(wanted, created) + _lost_marks(_template(wanted), _template(created))
    return sorted({*found, *find_moved(wanted, created)})


def describe_changes(noun: str, name: str, namespace: str, changed: Sequence[str]) -> str:
    """Return why an object that the cluster created with these changes was deleted, and what the admin can do."""
    return (
        f"The cluster changed the {noun} {name} at its creation ({', '.join(changed)}), so that the service would not "
        f"know it or count it right, and it was deleted again. Leave the namespace {namespace} out of the webhook or "
        "policy that does so."
    )


def find_moved(wanted: JsonMapping, existing: JsonMapping) -> list[str]:
    """Return what an object has otherwise than was asked for of what the service counts: node and devices, sorted.

    For the entries see `find_changes`.
    """
    found = []
    there, here = _template(wanted).get("spec") or {}, _template(existing).get("spec") or {}
    if not _keeps_node(_node_terms(there), _node_terms(here)):
        found.append("its node")
    kinds = (*DEVICE_RESOURCES, *_limits(there))
    devices = _devices(there, kinds)
    found += [
        key
        for key, count in {**dict.fromkeys(devices, 0), **_devices(here, kinds)}.items()
        if count != devices.get(key, 0)
    ]
    return sorted(found)


def _template(body: JsonMapping) -> JsonMapping:
    """Return the template of the pods of a Job, and any other object itself."""
    template: JsonMapping = (body.get("spec") or {}).get("template") or body
    return template


def _lost_marks(wanted: JsonMapping, created: JsonMapping) -> list[str]:
    """Return the labels and annotations of ours that were asked for and that the object does not have so."""
    asked, got = wanted.get("metadata") or {}, created.get("metadata") or {}
    return [
        key
        for kind in ("labels", "annotations")
        for key, text in (asked.get(kind) or {}).items()
        if key.startswith(names.PREFIX) and (got.get(kind) or {}).get(key) != text
    ]


def _node_terms(spec: JsonMapping) -> Sequence[JsonMapping]:
    """Return the terms of which a node must meet one; none if the pod may go to any node."""
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms: Sequence[JsonMapping] = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    return terms


def _keeps_node(wanted: Sequence[JsonMapping], found: Sequence[JsonMapping]) -> bool:
    """Tell whether each term that is there demands all that one of the wanted terms does; it may demand more."""
    return not wanted or (bool(found) and all(any(_demands(term, each) for each in wanted) for term in found))


def _demands(term: JsonMapping, wanted: JsonMapping) -> bool:
    return all(
        each in (term.get(kind) or ())
        for kind in ("matchFields", "matchExpressions")
        for each in wanted.get(kind) or ()
    )


def _devices(spec: JsonMapping, kinds: Collection[str]) -> dict[str, int]:
    """Return how many devices all containers of a pod ask for, by resource. An object without containers asks for none.

    `kinds` are patterns of the resources that are devices.
    """
    return {key: count for key, count in _limits(spec).items() if is_share_only(key, kinds)}


def _limits(spec: JsonMapping) -> dict[str, int]:
    """Return the limits of all containers of a pod together, by resource, of all resources that have a vendor."""
    found: dict[str, int] = {}
    for container in (*(spec.get("initContainers") or ()), *(spec.get("containers") or ())):
        for key, text in ((container.get("resources") or {}).get("limits") or {}).items():
            if "/" in key:
                found[key] = found.get(key, 0) + int(quantity(text) or 0)
    return found
