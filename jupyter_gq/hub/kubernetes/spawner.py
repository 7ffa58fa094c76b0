"""Servers as pods of a Kubernetes cluster: KubeSpawner, with shares of GPUs.

What is added where (the order is KubeSpawner's)
------------------------------------------------
1. Before a start: `ProfileShares` reads the request from options and profiles, `GPUShareMixin` waits for admission
   and for what the pod must carry.
2. In a start: `OtherPlaces` follows the ticket and tries another place when the cluster refuses one; the pod is
   KubeSpawner's, then ours is merged in, then the administrator's `modify_pod_hook` has the last word.
3. All along: `LastingPods` keeps the view of pods alive over outages, and the reason of an end.

Only KubeSpawner's own asynchronous client is used: whatever blocks here, blocks the Hub.
"""

import asyncio
import json
from collections.abc import Collection
from typing import Any

import aiohttp
from kubernetes_asyncio.client import (
    ApiException,
    V1Affinity,
    V1DeleteOptions,
    V1EnvVar,
    V1NodeAffinity,
    V1NodeSelector,
    V1NodeSelectorTerm,
    V1Pod,
    V1Preconditions,
    V1ResourceRequirements,
    V1Toleration,
    V1Volume,
    V1VolumeMount,
)
from kubespawner import KubeSpawner
from kubespawner.spawner import EventReflector, PodReflector
from kubespawner.utils import get_k8s_model
from traitlets import Integer, List, Unicode, validate

from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.client.sidecars import HIDDEN, unguarded
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.hub.admission.admission import NO_DEVICE, Refused
from jupyter_gq.hub.mixin import GPUShareMixin

from .options import ProfileShares
from .place import OtherPlaces
from .pod_facts import end_of, whole_event
from .pod_parts import WORKLOAD_LABEL, PodParts, parts_of, with_additions, withheld
from .pods import ClusterAway, LastingPods

_NOTEBOOK = "notebook"
_NOT_FOUND, _CONFLICT, _SERVER_FAULT = 404, 409, 500
_ENDED = "jupyter_gq_ended"
#: The part of `start_timeout` that may pass with waiting for an older pod to go, or for another place; the Hub counts
#: what is later as a failure.
_OF_START_TIMEOUT = 0.9


class WholeEvents(EventReflector):  # type: ignore[misc]
    """Events with all the fields that KubeSpawner reads."""

    @property
    def events(self) -> list[JsonObject]:
        """The events, the oldest first."""
        return sorted(map(whole_event, self.resources.values()), key=lambda event: str(event["lastTimestamp"]))


class PodsWithLastWords(PodReflector):  # type: ignore[misc]
    """Pods, and what those that are gone said last, if they were ended by somebody else than the Hub."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        #: Sentences, by namespace and name.
        self.last_words: dict[str, str] = {}
        super().__init__(*args, **kwargs)

    @validate("resources")
    def _listen(self, proposal: Any) -> JsonObject:
        for name in self.resources.keys() - proposal.value.keys():
            self._remember(name, self.resources[name])
        return _Listened(proposal.value, heard_by=self._remember)

    def _remember(self, name: str, pod: JsonObject) -> None:
        end = end_of(pod)
        if end:
            self.last_words[name] = end


class _Listened(JsonObject):
    def __init__(self, pods: JsonObject, heard_by: Any) -> None:
        super().__init__(pods)
        self._heard_by = heard_by

    def pop(self, name: str, *otherwise: Any) -> Any:
        if name in self:
            self._heard_by(name, self[name])
        return super().pop(name, *otherwise)


class GQKubeSpawner(ProfileShares, OtherPlaces, GPUShareMixin, LastingPods, KubeSpawner):  # type: ignore[misc]
    """Each server is a pod, with the share of a GPU that its user was given."""

    servers_are_pods = True
    cluster_errors = (ClusterAway, ApiException, aiohttp.ClientError, ConnectionError)
    reflector_classes = {"events": WholeEvents, "pods": PodsWithLastWords}

    gpu_place_retries = Integer(
        2, min=0, help="How often another place is tried in one start when the cluster refuses the one chosen."
    ).tag(config=True)
    gpu_resources = List(
        Unicode(),
        ["nvidia.com/*", "amd.com/gpu", "gpu.intel.com/*"],
        help="Resources, or patterns of them, that only a share may put into a server's pod. What "
        "`extra_resource_limits` or a profile asks for of them is left out, or quotas would not hold. "
        "Empty: leave them all.",
    ).tag(config=True)

    _pod_made = False

    # --- the pod ----------------------------------------------------------------------------------------------------

    async def get_pod_manifest(self) -> V1Pod:
        """KubeSpawner's pod with what the share needs; `modify_pod_hook` comes after."""
        pod: V1Pod = await super().get_pod_manifest()
        said = self.api.api_client.sanitize_for_serialization(pod)
        parts = parts_of(said, _NOTEBOOK)
        additions = self._additions()
        for name in withheld(parts, additions, self.gpu_resources):
            self.log.warning("%s of %s is left out: only a share gives it", name, self._log_name)
        _write(pod, with_additions(parts, additions, given=self.gpu_resources))
        _hide_devices(pod, unguarded(said["spec"], _NOTEBOOK))
        _keep_last_words(pod)
        return pod

    def _additions(self) -> PodAdditions:
        share = self._share
        if share is None:
            return PodAdditions(environment=NO_DEVICE)
        additions = share.pod or PodAdditions()
        labels = {WORKLOAD_LABEL: share.ticket} if share.ticket else {}
        return additions.model_copy(
            update={"environment": dict(share.environment), "labels": {**labels, **additions.labels}}
        )

    async def _make_create_pod_request(self, pod: V1Pod, request_timeout: float) -> bool:
        """Called by KubeSpawner until it answers True.

        Its own would write the whole pod into the log when the cluster refuses it, the server's token included, and
        call `stop` when another pod has the name, which would give back the share that this very pod is for.
        """
        self.keep_leftovers_apart()
        self.pod_asked_for = True
        try:
            await asyncio.wait_for(self.api.create_namespaced_pod(self.namespace, pod), request_timeout)
        except TimeoutError:
            return False
        except ApiException as error:
            if error.status != _CONFLICT:
                raise
            self.log.info("Another pod has the name %s and is deleted", self.pod_name)
            await self.leave_pod(self.start_until)
            return False
        self._pod_made = True
        self.forget_last_words()  # of a pod that had the same name
        return True

    async def remove_pod_of(self, namespace: str, name: str, ticket: str) -> None:
        """Delete that pod if it belongs to this ticket; it may have gone, and another one may have its name."""
        try:
            found = await self.api.read_namespaced_pod(name, namespace)
            if (found.metadata.labels or {}).get(WORKLOAD_LABEL) == (ticket or None):
                exactly = V1DeleteOptions(preconditions=V1Preconditions(uid=found.metadata.uid))
                await self.api.delete_namespaced_pod(name, namespace, body=exactly)
        except ApiException as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise

    # --- a start ----------------------------------------------------------------------------------------------------

    async def start(self) -> Any:
        """Start the server; what the cluster says no to, or cannot be asked, is a refusal and no failure."""
        self.gpu_ended, self._pod_made, self.pod_asked_for, self._start_future = "", False, False, None
        self.pod_stays = False
        self.start_until = asyncio.get_running_loop().time() + _OF_START_TIMEOUT * self.start_timeout
        self.forget_last_words()
        started = False
        try:
            where = await self._start_or_refuse()
            started = True
        finally:
            # KubeSpawner takes a pod that it does not see yet for one that has ended, and would leave it behind.
            if not started and self.pod_asked_for and not self.pod_is_seen:
                self.remove_later()
        return where

    async def _start_or_refuse(self) -> Any:
        gpus = self._share.gpus if self._share else "0"
        try:
            return await super().start()
        except Refused as error:
            raise self._refusal(error, gpus) from error
        except ApiException as error:
            if error.status is not None and error.status < _SERVER_FAULT:
                raise self._refusal(Refused(_said_no(error), "cluster_refused", 403), gpus) from error
            raise self._refusal(_away(error), gpus) from error
        except self.cluster_errors as error:
            raise self._refusal(_away(error), gpus) from error
        except TimeoutError as error:
            if self._pod_made:
                raise
            raise self._refusal(_away(error), gpus) from error

    # --- state ------------------------------------------------------------------------------------------------------

    def get_state(self) -> JsonObject:
        """The spawner's state; the reason of the last end outlives the server."""
        state: JsonObject = super().get_state()
        if self.gpu_ended:
            state[_ENDED] = self.gpu_ended
        return state

    def load_state(self, state: JsonObject) -> None:
        """After a restart of the Hub, or for the next server of the same name."""
        super().load_state(state)
        self.gpu_ended = state.get(_ENDED, "")


def _write(pod: Any, parts: PodParts) -> None:
    """Put the parts into the pod, as the objects that KubeSpawner makes: a `modify_pod_hook` counts on those."""
    notebook = next(each for each in pod.spec.containers if each.name == _NOTEBOOK)
    pod.metadata.labels, pod.metadata.annotations = dict(parts.labels), dict(parts.annotations)
    pod.spec.scheduler_name, pod.spec.runtime_class_name = parts.scheduler_name, parts.runtime_class
    pod.spec.tolerations = [get_k8s_model(V1Toleration, each) for each in parts.tolerations] or None
    pod.spec.volumes = [get_k8s_model(V1Volume, each) for each in parts.volumes]
    if parts.node_affinity is not None:
        pod.spec.affinity = get_k8s_model(V1Affinity, pod.spec.affinity or {})
        pod.spec.affinity.node_affinity = _node_affinity(parts.node_affinity)
    notebook.env = [get_k8s_model(V1EnvVar, each) for each in parts.environment]
    notebook.volume_mounts = [get_k8s_model(V1VolumeMount, each) for each in parts.volume_mounts]
    notebook.resources = get_k8s_model(V1ResourceRequirements, notebook.resources or {})
    notebook.resources.requests, notebook.resources.limits = dict(parts.requests), dict(parts.limits)


def _hide_devices(pod: Any, containers: Collection[str]) -> None:
    """Those see none, whatever their images say."""
    for container in (*pod.spec.containers, *(pod.spec.init_containers or ())):
        if container.name in containers:
            container.env = [*(container.env or []), get_k8s_model(V1EnvVar, HIDDEN)]


def _keep_last_words(pod: Any) -> None:
    """A server that fails tells why in its log, which is gone with the pod: the cluster shall keep the end of it."""
    notebook = next(each for each in pod.spec.containers if each.name == _NOTEBOOK)
    notebook.termination_message_policy = notebook.termination_message_policy or "FallbackToLogsOnError"


def _node_affinity(data: JsonObject) -> Any:
    affinity = get_k8s_model(V1NodeAffinity, data)
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        terms = [get_k8s_model(V1NodeSelectorTerm, term) for term in required["nodeSelectorTerms"]]
        affinity.required_during_scheduling_ignored_during_execution = V1NodeSelector(node_selector_terms=terms)
    return affinity


def _away(error: Exception) -> Refused:
    sentence = "The cluster does not answer, so no server can be started just now. Try again in a minute."
    refused = Refused(sentence, "cluster_away", 503)
    refused.__cause__ = error
    return refused


def _said_no(error: ApiException) -> str:
    """The sentence of the cluster, out of the answer that it comes in."""
    try:
        told = str(json.loads(error.body or b"")["message"])
    except (TypeError, ValueError, KeyError):
        told = str(error.reason)
    return f"The cluster refused to start the server: {told.rstrip('.')}. Ask your administrator."
