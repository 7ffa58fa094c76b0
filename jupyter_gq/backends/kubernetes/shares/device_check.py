"""A trial on one node of each way to make a device visible to the container of a share, with one pod for each way.

Rules
-----
- The trial rule: a pod with a whole device from the device plugin says which device that is. Each way is then tried
  with a pod that names this device. The pods use no device, so nothing is reserved for them.
- The success rule: a way works if its container sees that device and no other, and if a container without a device sees
  none.
- The clean-up rule: the pods belong to no run, so no service takes them for its own. They are deleted when the trial
  ends, however it ends.
"""

import asyncio
import logging
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from jupyter_gq.backends.kubernetes.api.errors import ClusterError
from jupyter_gq.backends.kubernetes.api.resources import NODES, PODS
from jupyter_gq.backends.kubernetes.api.views import NodeView, PodView, node_view, pod_view
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.manifests import (
    GRACE,
    TERMINATION_LOG,
    container_security,
    plain_pod,
    pod_security,
)
from jupyter_gq.backends.kubernetes.objects.merging import merged, pinned, variables, with_additions
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.pods.results import find_trouble
from jupyter_gq.backends.kubernetes.providers.allocation import Allocation, additions_without_gpu
from jupyter_gq.backends.kubernetes.providers.reservation import ReservationProvider
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.devices.visible import MESSAGE_VARIABLE
from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.pod_pool import PodPool, Visibility

if TYPE_CHECKING:
    from jupyter_gq.backends.kubernetes.api.cluster import Cluster

log = logging.getLogger(__name__)

_UNKNOWN = MiB(0)
#: Seconds between two reads of a pod, and until it is given up.
_INTERVAL, _TIMEOUT = 0.5, 120.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Finding:
    """The devices that the container of one pod saw."""

    #: None = that could not be found out.
    devices: tuple[str, ...] | None = None
    #: Why it could not be found out, or why a device is missing.
    problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """The findings on one node."""

    node: str
    #: The finding with a whole device from the device plugin.
    whole: Finding
    #: The finding without a device; None = it was not tried.
    void: Finding | None = None
    #: The findings with that device by name, in each way.
    ways: tuple[tuple[Visibility, Finding], ...] = ()

    def works(self, way: Visibility) -> bool:
        """Return whether this way shows the named device and no other, and no device where none is given."""
        found = dict(self.ways).get(way)
        hides = self.void is not None and self.void.devices == ()
        return hides and found is not None and found.devices == self.whole.devices


class DeviceCheck:
    """A trial of the ways to make a device visible, one pod after the other."""

    def __init__(self, cluster: "Cluster", options: KubernetesOptions) -> None:
        """Create a check with pods of the image `options.runner_image`."""
        self._cluster, self._options = cluster, options
        self._mark = secrets.token_hex(3)

    async def nodes(self, pool: PodPool) -> list[NodeView]:
        """Return the pool's nodes that are ready, not cordoned and have devices: most devices first, then by name."""
        listed = await asyncio.to_thread(lambda: list(self._cluster.pages(NODES, "", {})))
        views = [node_view(item) for items, _ in listed for item in items]
        fit = [
            view
            for view in views
            if pool.matches(view.labels) and view.ready and not view.cordoned and view.devices.get(pool.resource)
        ]
        return sorted(fit, key=lambda view: (-view.devices[pool.resource], view.name))

    async def run(self, node: str, pool: PodPool) -> Report:
        """Try all ways on a node of the pool, one pod after the other, and return what was seen.

        If the container with a whole device from the device plugin does not see exactly one, nothing else is tried.
        """
        provider, slots = ReservationProvider(), (names.slot_of(node, 0),)
        allocation = Allocation(node=node, pool=pool, slots=slots)
        whole = await self._try("whole", provider.additions(allocation))
        if whole.devices is None or len(whole.devices) != 1:
            return Report(node=node, whole=whole)
        void = await self._try("void", additions_without_gpu(Allocation(node=node, pool=pool)))
        named = replace(allocation, devices=(_device(whole.devices[0], pool),))
        ways = []
        for way in Visibility:
            added = provider.additions(replace(named, pool=replace(pool, visibility=way)))
            ways.append((way, await self._try(way.value, added)))
        return Report(node=node, whole=whole, void=void, ways=tuple(ways))

    async def _try(self, what: str, added: PodAdditions) -> Finding:
        """Create a pod with these additions, wait for its end, delete it, and return what its container saw.

        If the cluster refuses the pod, the finding says why. A pod that cannot be deleted is logged.
        """
        pod = self._pod(what, added)
        meta = pod["metadata"]
        try:
            await self._cluster.create(PODS, pod)
            return await self._wait_for_end(meta["namespace"], meta["name"])
        except ClusterError as error:
            return Finding(problem=error.sentence)
        finally:
            await self._delete(meta["namespace"], meta["name"])

    async def _delete(self, namespace: str, name: str) -> None:
        """Delete a pod; log a refusal of the cluster, since what the pod has shown counts all the same."""
        try:
            await self._cluster.delete(PODS, namespace, name, grace=1)
        except ClusterError as error:
            log.warning("the pod %s/%s could not be deleted, delete it by hand: %s", namespace, name, error.sentence)

    async def _wait_for_end(self, namespace: str, name: str) -> Finding:
        last = "nothing was heard of it"
        for _ in range(round(_TIMEOUT / _INTERVAL)):
            found = await self._cluster.get(PODS, namespace, name)
            if found is None:
                return Finding(problem="Somebody deleted the pod of the trial.")
            pod = pod_view(found)
            if pod.is_over:
                return _read_finding(pod)
            last = pod.unschedulable or pod.held_back or find_trouble(pod)[0] or last
            await asyncio.sleep(_INTERVAL)
        return Finding(problem=f"The pod did not run within {_TIMEOUT:.0f} s: {last}")

    def _pod(self, what: str, added: PodAdditions) -> JsonObject:
        options = self._options
        labels = {names.NAME: names.PRODUCT, names.INSTANCE: options.installation, names.COMPONENT: names.CHECKS}
        container = {
            "name": names.RUNNER,
            "image": options.runner_image,
            "command": ["python", "-m", "jupyter_gq.devices.visible"],
            "env": variables({MESSAGE_VARIABLE: TERMINATION_LOG}),
            "securityContext": container_security(),
            "terminationMessagePath": TERMINATION_LOG,
        }
        spec: JsonObject = {
            "restartPolicy": "Never",
            "serviceAccountName": names.RUNNER_ACCOUNT,
            "terminationGracePeriodSeconds": GRACE,
            "securityContext": pod_security(),
            "containers": [container],
        }
        meta = {"name": f"gq-check-{what}-{self._mark}", "namespace": options.training_namespace, "labels": labels}
        pod = plain_pod(meta, spec, options, "")
        return pinned(merged(with_additions(pod, added), options.pod_overrides), added.node)


def describe_finding(finding: Finding, given: Sequence[str]) -> str:
    """Return what a container saw that was given these devices, without a subject, such as "sees no device".

    If that is not known, return the problem instead.
    """
    if finding.devices is None:
        return finding.problem
    if not finding.devices:
        return "sees no device" + (f": {finding.problem}" if finding.problem else "")
    if list(finding.devices) == list(given):
        return "sees that device and no other"
    count = len(finding.devices)
    return f"sees {count} devices" if count > 1 else f"sees another device: {finding.devices[0]}"


def _read_finding(pod: PodView) -> Finding:
    """Return what the container of an ended pod reported; without a readable report, a finding that says why."""
    told = pod.ended.message if pod.ended is not None else ""
    try:
        document = bounded_json.parse(told)
        return Finding(devices=tuple(document["devices"]), problem=str(document["problem"]))
    except (ValueError, KeyError, TypeError):
        reason = pod.message or pod.reason or (pod.ended.reason if pod.ended is not None else "")
        return Finding(problem=f"The pod ended without a result: {(told or reason or 'no reason is known')[:400]}")


def _device(uuid: str, pool: PodPool) -> Device:
    return Device(id=uuid, index=0, model="", memory=_UNKNOWN, pool=pool.name)
