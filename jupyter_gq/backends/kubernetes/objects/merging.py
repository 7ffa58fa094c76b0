"""Merging of pods: what a share needs, what an administrator wants, and the node, laid on a pod. Pure.

Nothing is changed in place. The result shares its unchanged parts with the arguments, so nobody may write into it.
"""

from collections.abc import Mapping, Sequence

from jupyter_gq.client.environment.variables import add_share_variables, read_limits
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.pods.counted_devices import escape_variable
from jupyter_gq.client.pods.pinning import pinned_affinity
from jupyter_gq.domain.json_types import JsonObject, JsonValue

#: Keys by which entries of lists of a pod are told apart.
_KEYS = ("name", "mountPath", "containerPort", "ip")


def with_additions(pod: JsonObject, added: PodAdditions) -> JsonObject:
    """Return the pod with these additions; variables, resources and mounts go to its first container.

    The node is pinned separately (`pinned`).
    """
    meta, spec = pod["metadata"], dict(pod["spec"])
    if added.runtime_class:
        spec["runtimeClassName"] = added.runtime_class
    if added.scheduler_name:
        spec["schedulerName"] = added.scheduler_name
    spec["tolerations"] = [*spec.get("tolerations", []), *added.tolerations]
    spec["volumes"] = [*spec.get("volumes", []), *added.volumes]
    first, *others = spec["containers"]
    spec["containers"] = [_container_with(first, added), *others]
    marks = {
        "labels": {**meta.get("labels", {}), **added.labels},
        "annotations": {**meta.get("annotations", {}), **added.annotations},
    }
    return {**pod, "metadata": {**meta, **marks}, "spec": spec}


def _container_with(container: JsonObject, added: PodAdditions) -> JsonObject:
    resources = dict(container.get("resources", {}))
    for side in ("requests", "limits"):
        both = {**resources.get(side, {}), **added.resources}
        if both:
            resources[side] = both
    env = container.get("env", [])
    limits = read_limits(env)
    merged_env = add_share_variables(limits, added.environment)
    # Of two names for one limit, one is left.
    present = [each for each in env if each["name"] not in limits or each["name"] in merged_env]
    return {
        **container,
        "env": _merged_list(present, variables(merged_env)),
        "volumeMounts": [*container.get("volumeMounts", []), *added.volume_mounts],
        "resources": resources,
    }


def pinned(pod: JsonObject, node: str | None) -> JsonObject:
    """Return the pod with a node affinity that allows only this node; the unchanged pod if `node` is None."""
    if not node:
        return pod
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    affinity = {**affinity, "nodeAffinity": pinned_affinity(affinity.get("nodeAffinity"), node)}
    return {**pod, "spec": {**spec, "affinity": affinity}}


def merged(base: JsonValue, over: JsonValue) -> JsonValue:
    """Return `over` laid on `base`: mappings are merged by key; any other value of `over` replaces that of `base`.

    In lists, mounts match by mount path, and other mappings by name, container port or IP. An entry that matches is
    merged. All other entries are appended unless an equal one is there.
    """
    if isinstance(base, Mapping) and isinstance(over, Mapping):
        return {**base, **{key: merged(base[key], value) if key in base else value for key, value in over.items()}}
    if isinstance(base, list) and isinstance(over, list | tuple):
        return _merged_list(base, over)
    return over


def _merged_list(base: Sequence[JsonValue], over: Sequence[JsonValue]) -> list[JsonValue]:
    out = list(base)
    for entry in over:
        at = next((i for i, known in enumerate(out) if _same(known, entry)), None)
        if at is None:
            out.append(entry)
        else:
            out[at] = merged(out[at], entry)
    return out


def _same(one: JsonValue, other: JsonValue) -> bool:
    """Return True if an entry `other` of a list is to be merged into the entry `one`.

    Two mappings are compared by the first of name, mount path, container port and IP that `other` has; the name of a
    mount does not count. All other entries are compared as a whole.
    """
    if not isinstance(one, Mapping) or not isinstance(other, Mapping):
        return bool(one == other)
    for key in _KEYS:
        if key in other:
            mounts = key == "name" and "mountPath" in other
            if not mounts:
                return bool(one.get(key) == other[key])
    return bool(one == other)


def variables(values: Mapping[str, str]) -> list[JsonObject]:
    """Return the variables of a container, sorted by name; their values reach it as they are."""
    return [{"name": name, "value": escape_variable(value)} for name, value in sorted(values.items())]
