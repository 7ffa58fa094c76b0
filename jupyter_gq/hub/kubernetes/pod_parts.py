"""What a notebook's pod gets beside what its administrator set up: pure functions from data to data.

Rules
-----
1. Everything comes from the additions of this one share, never from what an earlier start left on the spawner.
2. Nothing of the administrator is dropped, except where both say different things about the same name: ours wins,
   because without it the server would have a device that nobody gave it, or none.
3. Of the nodes that it could run on before, it can run on the one that was decided (`client.pinning`).
4. Devices are given by the service alone: a resource of the kinds named in `given` is in the pod only if the
   additions say so, and so is a variable that makes devices visible.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase

from jupyter_gq.client.pinning import pinned_affinity
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.json_types import JsonObject

#: Variables that name the devices of a container: never those of somebody else.
VISIBILITY = ("NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES")
#: Labels and annotations of ours begin with it.
PREFIX = "jupyter-gq.org/"
#: Says which ticket a notebook's pod belongs to.
WORKLOAD_LABEL = f"{PREFIX}workload"


@dataclass(frozen=True, kw_only=True, slots=True)
class PodParts:
    """Those parts of a pod that a share has a say in, in the words of the Kubernetes API."""

    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    node_affinity: JsonObject | None = None
    scheduler_name: str | None = None
    runtime_class: str | None = None
    tolerations: Sequence[JsonObject] = ()
    volumes: Sequence[JsonObject] = ()
    #: Of the notebook's container, as are the ones below.
    environment: Sequence[JsonObject] = ()
    requests: Mapping[str, str] = field(default_factory=dict)
    limits: Mapping[str, str] = field(default_factory=dict)
    volume_mounts: Sequence[JsonObject] = ()


def parts_of(pod: JsonObject, container: str) -> PodParts:
    """What a pod, in the words of the API, says so far; `container` is the notebook's."""
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


def with_additions(parts: PodParts, additions: PodAdditions, *, given: Collection[str] = ()) -> PodParts:
    """The parts with what the share needs. `given` are patterns of resources that only a share may hold."""
    return replace(
        parts,
        labels={**parts.labels, **additions.labels},
        annotations={**parts.annotations, **additions.annotations},
        node_affinity=pinned_affinity(parts.node_affinity, additions.node) if additions.node else parts.node_affinity,
        scheduler_name=additions.scheduler_name or parts.scheduler_name,
        runtime_class=additions.runtime_class or parts.runtime_class,
        tolerations=[*parts.tolerations, *(each for each in additions.tolerations if each not in parts.tolerations)],
        volumes=_replaced(parts.volumes, additions.volumes, "name"),
        environment=_environment(parts.environment, additions.environment),
        requests=_resources(parts.requests, additions.resources, given),
        limits=_resources(parts.limits, additions.resources, given),
        volume_mounts=_replaced(parts.volume_mounts, additions.volume_mounts, "mountPath"),
    )


def withheld(parts: PodParts, additions: PodAdditions, given: Collection[str]) -> list[str]:
    """Resources that the pod asked for and does not get, for the log."""
    asked = {**parts.requests, **parts.limits}
    return sorted(name for name in asked if _is_given(name, given) and name not in additions.resources)


def _environment(present: Sequence[JsonObject], ours: Mapping[str, str]) -> list[JsonObject]:
    others = [each for each in present if each["name"] not in ours and each["name"] not in VISIBILITY]
    return [*others, *({"name": name, "value": _literal(value)} for name, value in ours.items())]


def _literal(value: str) -> str:
    """Kubernetes puts another variable in the place of `$(NAME)`; the names of devices are no such thing."""
    return value.replace("$(", "$$(")


def _resources(present: Mapping[str, str], ours: Mapping[str, str], given: Collection[str]) -> dict[str, str]:
    return {**{name: amount for name, amount in present.items() if not _is_given(name, given)}, **ours}


def _is_given(resource: str, given: Collection[str]) -> bool:
    return any(fnmatchcase(resource, pattern) for pattern in given)


def _replaced(present: Sequence[JsonObject], ours: Sequence[JsonObject], key: str) -> list[JsonObject]:
    mine = {each[key] for each in ours}
    return [*(each for each in present if each.get(key) not in mine), *ours]
