"""Refusals of settings and of pods with which the scheduler service would not see who uses a GPU. Pure.

The service gives a GPU to others when it believes that nobody uses the GPU any more. The service sees the pods of one
namespace, and knows them by their labels and annotations.

Rules
-----
- Two checks: settings are checked when the Hub starts. A pod is checked again when it is created, because profiles and
  hooks may change everything.
- Observed pods: a server with a share runs in the namespace that the service watches, with the labels and annotations
  that the service asked for, and on the node that the service chose.
- Counted devices: no container of a server's pod has a device that is not of its share.
- No privileged server, with a share or without: it could use every GPU of its node.

See docs/decisions/0066-refuse-pods-that-the-service-would-not-see.md.
See docs/decisions/0320-refuse-privileged-servers-without-a-share-too.md.
"""

from collections.abc import Collection, Iterator, Mapping

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.pods.counted_devices import POD_FIELDS, VISIBLE, find_uncounted_devices
from jupyter_gq.client.pods.pinning import is_pinned
from jupyter_gq.domain.json_types import JsonMapping, JsonValue

_OVERRIDE = "kubespawner_override"
#: KubeSpawner's own spelling of the fields that no setting may set.
_SPELT = {"node_name": "nodeName", "resource_claims": "resourceClaims"}


# --- settings


def find_unsupported_settings(settings: Mapping[str, JsonValue], namespace: str) -> list[str]:
    """Return a sentence on each setting of KubeSpawner with which a GPU in use could be given to somebody else.

    `settings` are values by trait. `namespace` is the one that the service watches; "" = not known.
    """
    found = [*_check_settings(settings, namespace, "c.KubeSpawner.")]
    for override in _find_overrides(settings.get("profile_list")):
        found.extend(_check_settings(override, namespace, f"{_OVERRIDE} of a profile: "))
    return list(dict.fromkeys(found))


def _check_settings(settings: Mapping[str, JsonValue], namespace: str, where: str) -> Iterator[str]:
    if settings.get("enable_user_namespaces"):
        yield (
            f"{where}enable_user_namespaces is True, but the GPU service sees the servers of one namespace only. The "
            "GPUs of servers in other namespaces would be given to others. Set enable_user_namespaces to False."
        )
    wanted = settings.get("namespace")
    if isinstance(wanted, str) and wanted and namespace and wanted != namespace:
        yield (
            f"{where}namespace is {wanted}, but the GPU service sees the servers of {namespace} only. The GPUs of "
            "servers elsewhere would be given to others. Set the same namespace here and in "
            "c.KubernetesBackend.hub_namespace."
        )
    config = settings.get("extra_pod_config")
    pod = config if isinstance(config, Mapping) else {}
    for name in (*POD_FIELDS, *_SPELT):
        if pod.get(name):
            yield f"{where}extra_pod_config sets {name}: {POD_FIELDS[_SPELT.get(name, name)]}. Remove that field."
    yield from _check_privilege(settings, where)


def _check_privilege(settings: Mapping[str, JsonValue], where: str) -> Iterator[str]:
    container = settings.get("extra_container_config")
    raw = container if isinstance(container, Mapping) else {}
    contexts = {
        "privileged": {"privileged": settings.get("privileged")},
        "container_security_context": settings.get("container_security_context"),
        "extra_container_config": raw.get("securityContext") or raw.get("security_context"),
    }
    for name, context in contexts.items():
        if isinstance(context, Mapping) and context.get("privileged"):
            yield (
                f"{where}{name} makes servers privileged. A privileged server can use every GPU of its node, "
                "whoever the GPU belongs to. Remove that setting."
            )


def _find_overrides(value: JsonValue) -> Iterator[JsonMapping]:
    """Yield all `kubespawner_override` mappings in a list of profiles, those of options included.

    Yields nothing if the list is made by a function.
    """
    if isinstance(value, Mapping):
        for key, part in value.items():
            if key == _OVERRIDE and isinstance(part, Mapping):
                yield part
            else:
                yield from _find_overrides(part)
    elif isinstance(value, list | tuple):
        for part in value:
            yield from _find_overrides(part)


# --- pods


def explain_uncounted_gpu(pod: JsonMapping, additions: PodAdditions, notebook: str, share_only: Collection[str]) -> str:
    """Return why the service would not see or count a GPU of this pod, as a sentence; "" = it does.

    `notebook` is the name of the server's container. `share_only` are patterns of resources that only a share may add.
    """
    spec = pod.get("spec") or {}
    problems = [
        *_check_devices(spec, additions, notebook, share_only),
        *(_check_marks(pod, additions, notebook) if additions.node else ()),
    ]
    return f"The server's pod cannot be created: {problems[0]}. Ask your administrator." if problems else ""


def explain_namespace(namespace: str, seen: str) -> str:
    """Return a sentence on why the service would not see a pod in `namespace`; "" if it would.

    `seen` is the namespace that the service watches; if that is "", not known, return "" too.
    """
    if not seen or namespace == seen:
        return ""
    return (
        f"The server would run in the namespace {namespace}, and the GPU service sees the servers of {seen} only. "
        "Choose no GPU, or ask your administrator."
    )


def _check_marks(pod: JsonMapping, additions: PodAdditions, notebook: str) -> Iterator[str]:
    meta, spec = pod.get("metadata") or {}, pod.get("spec") or {}
    for kind, wanted in (("label", additions.labels), ("annotation", additions.annotations)):
        present = meta.get(f"{kind}s") or {}
        for name, value in wanted.items():
            if present.get(name) != value:
                yield f"the {kind} {name}, by which the GPU service knows the pod, was removed or changed"
    if additions.node and not is_pinned(spec, additions.node):
        yield f"the pod may run elsewhere than on the node {additions.node}, which the GPU service chose"
    if all(each.get("name") != notebook for each in spec.get("containers") or ()):
        yield f"the pod has no container {notebook}"


def _check_devices(
    spec: JsonMapping, additions: PodAdditions, notebook: str, share_only: Collection[str]
) -> Iterator[str]:
    found = [each for each in spec.get("containers") or () if each.get("name") == notebook]
    is_told = bool(additions.environment.get(VISIBLE))
    if is_told and any(VISIBLE not in {each.get("name") for each in server.get("env") or ()} for server in found):
        yield f"the container {notebook} does not say in {VISIBLE} which devices it sees, so its image would"
    if any((each.get("securityContext") or {}).get("privileged") for each in found):
        yield "the server is privileged, and could use every GPU of its node"
    yield from find_uncounted_devices(spec, share_only, notebook, additions)
