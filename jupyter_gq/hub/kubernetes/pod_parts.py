"""The parts of a notebook's pod that a share adds or changes: pure functions from data to data.

Rules
-----
- One source: all additions come from this share, never from values that an earlier start left on the spawner.
- Our values win: nothing of the administrator is dropped, except if both set the same name to different values.
  Otherwise the server would have a device that the service did not give it, or none.
- Pinned node: of the nodes on which the pod could run before, only the chosen one is left (`client.pods.pinning`).
- Devices come from the service alone: a container has a resource that `share_only` names, or a variable that makes
  devices visible, only if the additions contain it. They are for the notebook's container; all others get no device.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gq.client.environment.variables import add_share_variables, read_limits
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.pods.counted_devices import VISIBLE, escape_variable, is_share_only
from jupyter_gq.client.pods.pinning import pinned_affinity
from jupyter_gq.domain.json_types import JsonObject

#: Variables that name the devices of a container; values of other origin are dropped.
VISIBILITY = (VISIBLE, "CUDA_VISIBLE_DEVICES")
#: Prefix of our labels and annotations.
PREFIX = "jupyter-gq.org/"
#: Label with the ticket of a notebook's pod.
WORKLOAD_LABEL = f"{PREFIX}workload"


@dataclass(frozen=True, kw_only=True, slots=True)
class PodParts:
    """The parts of a pod that a share may change, as data of the Kubernetes API."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_affinity: JsonObject | None = None
    scheduler_name: str | None = None
    runtime_class: str | None = None
    tolerations: Sequence[JsonObject] = ()
    volumes: Sequence[JsonObject] = ()
    #: This field and those below belong to the notebook's container.
    environment: Sequence[JsonObject] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    volume_mounts: Sequence[JsonObject] = ()


def read_parts(pod: JsonObject, container: str) -> PodParts:
    """Return the parts of a pod that a share may change; `container` is the name of the notebook's container."""
    metadata, spec = pod.get("metadata") or {}, pod["spec"]
    notebook = next(each for each in spec["containers"] if each["name"] == container)
    resources = notebook.get("resources") or {}
    return PodParts(
        labels=metadata.get("labels") or {},
        annotations=metadata.get("annotations") or {},
        node_affinity=(spec.get("affinity") or {}).get("nodeAffinity"),
        scheduler_name=spec.get("schedulerName"),
        runtime_class=spec.get("runtimeClassName"),
        tolerations=spec.get("tolerations") or [],
        volumes=spec.get("volumes") or [],
        environment=notebook.get("env") or [],
        requests=resources.get("requests") or {},
        limits=resources.get("limits") or {},
        volume_mounts=notebook.get("volumeMounts") or [],
    )


def add_share(parts: PodParts, additions: PodAdditions, *, share_only: Collection[str] = ()) -> PodParts:
    """Return the parts with the additions of a share; where both set the same name, the share's value wins.

    A smaller limit of GPU memory wins over that of the share.

    Variables that name devices are kept only from the share. `share_only` are patterns of resources that only a share
    may add; other requests for them are removed.
    """
    return replace(
        parts,
        labels={**parts.labels, **additions.labels},
        annotations={**parts.annotations, **additions.annotations},
        node_affinity=pinned_affinity(parts.node_affinity, additions.node) if additions.node else parts.node_affinity,
        scheduler_name=additions.scheduler_name or parts.scheduler_name,
        runtime_class=additions.runtime_class or parts.runtime_class,
        tolerations=[*parts.tolerations, *(each for each in additions.tolerations if each not in parts.tolerations)],
        volumes=_merge_by_key(parts.volumes, additions.volumes, "name"),
        environment=_merge_environment(parts.environment, additions.environment),
        requests=_merge_resources(parts.requests, additions.resources, share_only),
        limits=_merge_resources(parts.limits, additions.resources, share_only),
        volume_mounts=_merge_by_key(parts.volume_mounts, additions.volume_mounts, "mountPath"),
    )


def without_devices(container: JsonObject, share_only: Collection[str]) -> JsonObject:
    """Return a copy of a container that asks for no device and sees none, whatever its image says.

    `share_only` are patterns of the resources to remove.
    """
    others = [each for each in container.get("env") or () if each["name"] not in VISIBILITY]
    resources = {
        side: _merge_resources(amounts, {}, share_only) if side in ("requests", "limits") else amounts
        for side, amounts in (container.get("resources") or {}).items()
    }
    return {**container, "env": [*others, {"name": VISIBLE, "value": "void"}], "resources": resources}


def list_withheld(parts: PodParts, additions: PodAdditions, share_only: Collection[str]) -> list[str]:
    """Return the names of resources that the notebook's container requests and that only a share may add.

    Resources that this share adds are left out.
    """
    asked = {**parts.requests, **parts.limits}
    return sorted(name for name in asked if is_share_only(name, share_only) and name not in additions.resources)


def _merge_environment(present: Sequence[JsonObject], ours: Mapping[str, str]) -> list[JsonObject]:
    limits = read_limits(present)
    replaced = {*limits, *ours, *VISIBILITY}
    others = [each for each in present if each["name"] not in replaced]
    added = add_share_variables(limits, ours)
    return [*others, *({"name": name, "value": escape_variable(value)} for name, value in added.items())]


def _merge_resources(
    present: Mapping[str, str], ours: Mapping[str, str], share_only: Collection[str]
) -> dict[str, str]:
    return {**{name: amount for name, amount in present.items() if not is_share_only(name, share_only)}, **ours}


def _merge_by_key(present: Sequence[JsonObject], ours: Sequence[JsonObject], key: str) -> list[JsonObject]:
    mine = {each[key] for each in ours}
    return [*(each for each in present if each.get(key) not in mine), *ours]
