"""Overrides that an administrator lays on the pods of jobs: their form, and what only the service may set.

Rules
-----
1. Form. The parts that are merged or read here have the form of a pod. The API server judges all others.
2. Counted devices. No container gets a device in a way that neither slots nor quotas count.
3. Ours. Nothing that says whose pod it is and where it runs can be set. `objects.manifests` makes it win as well.

See docs/decisions/0275-refuse-overrides-that-jobs-cannot-have.md.
"""

from collections.abc import Iterator, Mapping

from traitlets import Dict, TraitError
from traitlets.config import Config, Configurable
from traitlets.config.loader import LazyConfigValue

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.pods.counted_devices import DEVICE_RESOURCES, POD_FIELDS, find_uncounted_devices
from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue
from jupyter_gq.domain.plain_text import quoted

from .objects.names import COMPONENT, INSTANCE, NAME, PREFIX, RUNNER

#: A mapping of texts to texts, such as labels.
_TEXTS = "texts"
#: Forms: a mapping has these keys and perhaps others, and needs those that are a text; a list has entries of one form.
_NAMED = {"name": str}
_CONTAINER = {
    **_NAMED,
    "env": [_NAMED],
    "envFrom": [{}],
    "ports": [{}],
    "resources": {"limits": {}, "requests": {}},
    "securityContext": {},
    "volumeMounts": [{}],
}
_NODE_TERM: JsonMapping = {"matchExpressions": [{}], "matchFields": [{}]}
_NODE_AFFINITY = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [_NODE_TERM]}}
_POD: JsonMapping = {
    "metadata": {"annotations": _TEXTS, "labels": _TEXTS},
    "spec": {
        "affinity": {"nodeAffinity": _NODE_AFFINITY, "podAffinity": {}, "podAntiAffinity": {}},
        "containers": [_CONTAINER],
        "imagePullSecrets": [_NAMED],
        "initContainers": [_CONTAINER],
        "nodeSelector": _TEXTS,
        "securityContext": {},
        "tolerations": [{}],
        "volumes": [_NAMED],
    },
}
_OUR_LABELS = (NAME, INSTANCE, COMPONENT)
#: Beginnings of annotations by which a runtime or a scheduler gives devices to a pod.
_DEVICE_ANNOTATIONS = ("cdi.k8s.io/", "gpu-fraction", "gpu-memory")
#: Part of the path of mounts by which a runtime gives devices to a container.
_DEVICE_MOUNTS = "nvidia-container-devices"


class PodOverrides(Dict):
    """A trait for a part of a pod that is merged into the pods of jobs."""

    def validate(self, obj: object, value: object) -> JsonObject:
        """Return the dict if jobs can have it; raise `TraitError` with the first problem."""
        given: JsonObject = super().validate(obj, value) or {}
        resources = _list_pool_resources(obj.config) if isinstance(obj, Configurable) else []
        if problem := next(find_problems(given, resources), ""):
            raise TraitError(f"c.KubernetesBackend.{self.name} (training.podOverrides of the chart): {problem}")
        return given


def find_problems(overrides: JsonMapping, resources: list[str]) -> Iterator[str]:
    """Yield a sentence for each part of these overrides that the pod of a job cannot have.

    `resources` are the names of resources, beside the known ones, that are devices. All other
    problems are looked for only if all parts have the right form.
    """
    misshapen = list(_find_misshapen(overrides, _POD, ""))
    yield from misshapen
    if not misshapen:
        yield from _find_ours(overrides)
        yield from _find_devices(overrides, (*DEVICE_RESOURCES, *resources))


def _list_pool_resources(config: Config) -> list[str]:
    """Return the resources that the pools of a configuration name; what is wrong with a pool is told elsewhere."""
    pools = config.Pools.get("pools") if "Pools" in config else None
    if isinstance(pools, LazyConfigValue):
        pools = pools.get_value({})
    named = pools.values() if isinstance(pools, Mapping) else ()
    return [pool["resource"] for pool in named if isinstance(pool, Mapping) and isinstance(pool.get("resource"), str)]


# --- form


def _find_misshapen(value: JsonValue, form: JsonValue, path: str) -> Iterator[str]:
    """Yield a sentence for each part of `value`, which is at `path` of a pod, that has not this form."""
    if isinstance(form, list):
        if not isinstance(value, list | tuple):
            yield _describe(path, value, "a list", "Begin each entry with a hyphen in YAML, or put [] around them")
            return
        for number, entry in enumerate(value):
            yield from _find_misshapen(entry, form[0], f"{path}[{number}]")
    elif form is _TEXTS:
        if not isinstance(value, Mapping) or not all(isinstance(text, str) for pair in value.items() for text in pair):
            yield _describe(path, value, "a mapping of texts", "Put numbers, true and false into quotes")
    elif not isinstance(value, Mapping):
        yield _describe(path, value, "a mapping", "Write keys with their values")
    else:
        yield from _find_misshapen_keys(value, form, path)


def _find_misshapen_keys(value: JsonMapping, form: JsonMapping, path: str) -> Iterator[str]:
    for key, inner in form.items():
        where = f"{path}.{key}" if path else key
        if inner is str:
            if not isinstance(value.get(key), str) or not value[key]:
                yield f"{path} is {quoted(value)}, without a {key} that is a text. Entries are merged by it: add one."
        elif key in value:
            yield from _find_misshapen(value[key], inner, where)
    if not path:
        yield from _find_foreign_keys(value)


def _find_foreign_keys(overrides: JsonMapping) -> Iterator[str]:
    for key in overrides:
        if key not in _POD:
            yield f"{quoted(key)} is no part of a pod that can be set; expected metadata and spec. Put it under spec."
    for odd in _find_no_json(overrides):
        yield f"{quoted(odd)} cannot stand there. Use lists, dicts with texts as keys, texts, numbers, True and False."


def _find_no_json(value: JsonValue) -> Iterator[object]:
    """Yield each part of `value` that JSON does not have."""
    if isinstance(value, Mapping):
        yield from (key for key in value if not isinstance(key, str))
        value = list(value.values())
    if isinstance(value, list | tuple):
        for part in value:
            yield from _find_no_json(part)
    elif value is not None and not isinstance(value, str | int | float):
        yield value


def _describe(path: str, value: JsonValue, expected: str, fix: str) -> str:
    return f"{path} is {quoted(value)}; expected {expected}, as in a pod of Kubernetes. {fix}, or leave it out."


# --- what is the service's


def _find_ours(overrides: JsonMapping) -> Iterator[str]:
    meta, spec = overrides.get("metadata", {}), overrides.get("spec", {})
    for key in meta:
        if key not in _POD["metadata"]:
            yield f"metadata.{key} cannot be set: only labels and annotations of a job's pod can. Remove that field."
    for part in ("labels", "annotations"):
        for name in meta.get(part, {}):
            if name.startswith(PREFIX) or (part == "labels" and name in _OUR_LABELS):
                yield f"metadata.{part} sets {name}, by which the GPU service knows the pod. Remove it."
    for name, why in POD_FIELDS.items():
        if spec.get(name):
            yield f"spec sets {name}: {why}. Remove that field."
    if spec.get("restartPolicy", "Never") != "Never":
        yield "spec sets restartPolicy: only the GPU service starts a job again. Remove that field."
    if any(each["name"] == RUNNER for each in spec.get("initContainers", ())):
        yield f"spec.initContainers has a container {RUNNER}, the name of a job's own container. Choose another name."


def _find_devices(overrides: JsonMapping, resources: tuple[str, ...]) -> Iterator[str]:
    spec, fix = overrides.get("spec", {}), "Remove that: jobs have the GPUs that they ask for, and no others."
    for clause in find_uncounted_devices(spec, resources, "", PodAdditions()):
        yield f"{clause}. {fix}"
    for name in overrides.get("metadata", {}).get("annotations", {}):
        if name.startswith(_DEVICE_ANNOTATIONS):
            yield f"the annotation {name} gives devices to the pod, which the GPU service does not count. {fix}"
    for container in (*spec.get("containers", ()), *spec.get("initContainers", ())):
        if any(_DEVICE_MOUNTS in str(mount.get("mountPath")) for mount in container.get("volumeMounts", ())):
            yield f"the container {container['name']} names devices by a mount in /var/run/{_DEVICE_MOUNTS}. {fix}"
        if container["name"] == RUNNER and container.get("securityContext", {}).get("privileged"):
            yield (
                "the job is privileged, and could use every GPU of its node, whoever the GPU belongs to. Remove that "
                "setting."
            )
