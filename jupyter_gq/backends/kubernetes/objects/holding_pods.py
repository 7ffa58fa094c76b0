"""Pods that only hold devices, as data: reservation pods, and placeholder pods for nodes that may come. Pure."""

from collections.abc import Collection

from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.domain.pod_pool import PodPool

from . import names
from .manifests import container_security, plain_pod
from .merging import pinned

_SAFE_TO_EVICT = "cluster-autoscaler.kubernetes.io/safe-to-evict"
#: Kubernetes evicts pods from a node that is silent for some minutes, unless they tolerate these taints for ever. A pod
#: of a DaemonSet does too.
_TOLERATES_SILENCE = tuple(
    {"key": f"node.kubernetes.io/{taint}", "operator": "Exists", "effect": "NoExecute"}
    for taint in ("not-ready", "unreachable")
)


def reservation_pod(slot: str, pool: PodPool, options: KubernetesOptions, number: int = 0) -> JsonObject:
    """Return the pod that holds one whole device for a slot, pinned to the node of the slot.

    `number` counts the earlier tries to get the right device, and is added to the name of the pod unless it is 0. The
    pod stays while its node is silent, since shares may go on there and end slowly once the node is back.
    """
    meta = {
        "name": names.reservation_name(slot, number),
        "labels": {
            **names.labels(options.installation, names.RESERVATIONS),
            names.RESERVATION: names.slot_slug(slot),
        },
        "annotations": {names.SLOT: slot, "karpenter.sh/do-not-disrupt": "true", _SAFE_TO_EVICT: "false"},
    }
    pod = _pause_pod(meta, pool, 1, options, options.reservation_priority_class)
    pod["spec"]["tolerations"] += [dict(each) for each in _TOLERATES_SILENCE]
    return pinned(pod, names.node_of(slot))


def placeholder_pod(pool: PodPool, number: int, options: KubernetesOptions, not_on: Collection[str] = ()) -> JsonObject:
    """Return the unpinned pod that asks for all devices of a new node of the pool; `pool.scale_up` must be set.

    `not_on` names the present nodes that have room for the pod. `number` tells the placeholder pods of a pool apart.
    """
    assert pool.scale_up is not None
    meta = {
        "name": names.placeholder_name(pool.name, number),
        "labels": names.labels(options.installation, names.PLACEHOLDERS),
        # The pod blocks neither a drain nor the removal of a node.
        "annotations": {names.GROWS: pool.name, _SAFE_TO_EVICT: "true"},
    }
    pod = _pause_pod(meta, pool, pool.scale_up.gpus, options, options.placeholder_priority_class)
    if pool.selector:
        pod["spec"]["nodeSelector"] = dict(pool.selector)
    if not_on:
        fields = [{"key": "metadata.name", "operator": "NotIn", "values": [node]} for node in sorted(not_on)]
        required = {"nodeSelectorTerms": [{"matchFields": fields}]}
        pod["spec"]["affinity"] = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return pod


def _pause_pod(
    meta: JsonMapping, pool: PodPool, devices: int, options: KubernetesOptions, priority_class: str
) -> JsonObject:
    small = {"cpu": "10m", "memory": "32Mi", pool.resource: str(devices)}
    spec: JsonObject = {
        "restartPolicy": "Always",
        "serviceAccountName": names.RESERVATION_ACCOUNT,
        "terminationGracePeriodSeconds": 1,
        "securityContext": {"runAsNonRoot": True, "runAsUser": 65535, "seccompProfile": {"type": "RuntimeDefault"}},
        "tolerations": [dict(each) for each in pool.tolerations],
        "containers": [
            {
                "name": names.HOLDER,
                "image": options.reservation_image,
                "resources": {"requests": dict(small), "limits": dict(small)},
                "securityContext": container_security(),
            }
        ],
    }
    return plain_pod({**meta, "namespace": options.nodes_namespace}, spec, options, priority_class)
