"""The spawner of servers as pods of a Kubernetes cluster: KubeSpawner with shares of GPUs.

Additions, in the order of KubeSpawner
--------------------------------------
1. Before a start: `ProfileShares` reads the request from options and profiles; `GPUShareMixin` waits for admission and
   for the additions to the pod.
2. In a start: `PlaceRetries` follows the ticket and tries another place if the cluster refuses one. The pod is
   KubeSpawner's; the share is merged into it, and the administrator's `modify_pod_hook` runs last. A pod that would
   hide a GPU from the service is refused (`gpu_accounting`).
3. At all times: `ResilientPods` keeps the view of pods alive over outages, and records the reason of an end.

Only KubeSpawner's own asynchronous client is used: code that blocks here blocks the Hub.

See docs/decisions/0025-subclass-kubespawner.md.
"""

import asyncio
import json
from collections.abc import Callable, Collection
from typing import Protocol

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

from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.client.pods.counted_devices import DEVICE_RESOURCES
from jupyter_gq.client.pods.sidecars import HIDDEN, unguarded_containers
from jupyter_gq.domain.json_types import JsonObject, JsonValue
from jupyter_gq.hub.admission.admission import NO_DEVICE_ENVIRONMENT, StartRefused
from jupyter_gq.hub.clock import monotonic
from jupyter_gq.hub.config_parts import find_seen_namespace, get_dict, merge_unique
from jupyter_gq.hub.hub_parts import Address
from jupyter_gq.hub.mixin import GPUShareMixin

from .gpu_accounting import explain_namespace, explain_uncounted_gpu
from .options import ProfileShares
from .place import PlaceRetries
from .pod_parts import WORKLOAD_LABEL, PodParts, add_share, list_withheld, read_parts, without_devices
from .pod_status import complete_event, explain_end
from .pods import ClusterUnreachable, ResilientPods

_NOTEBOOK = "notebook"
_NOT_FOUND, _CONFLICT, _SERVER_FAULT = 404, 409, 500
_ENDED = "jupyter_gq_ended"
#: Part of `start_timeout` that may pass with waiting for an older pod to end, or for another place; after the whole
#: timeout the Hub would count a failure.
_PART_OF_START_TIMEOUT = 0.9


class CompleteEvents(EventReflector):  # type: ignore[misc]
    """A reflector of events with all fields that KubeSpawner reads."""

    @property
    def events(self) -> list[JsonObject]:
        """The events with all fields that KubeSpawner reads, oldest first."""
        return sorted(map(complete_event, self.resources.values()), key=lambda event: str(event["lastTimestamp"]))


class Proposal(Protocol):
    """A new value of a trait that traitlets lets us validate."""

    value: JsonObject


class PodsWithEndReasons(PodReflector):  # type: ignore[misc]
    """A reflector of pods that also records why deleted pods ended."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        #: Sentences on the end of deleted pods, by namespace and name.
        self.end_reasons: dict[str, str] = {}
        super().__init__(*args, **kwargs)

    @validate("resources")
    def _listen(self, proposal: Proposal) -> JsonObject:
        """Record why the pods that a new list lacks ended; return the list in a form that reports later removals."""
        for name in self.resources.keys() - proposal.value.keys():
            self._remember(name, self.resources[name])
        return _ObservedPods(proposal.value, on_removal=self._remember)

    def _remember(self, name: str, pod: JsonObject) -> None:
        """Record why a pod that is being removed ended; do nothing if the cause is not known."""
        end = explain_end(pod)
        if end:
            self.end_reasons[name] = end


class _ObservedPods(JsonObject):
    """The pods of a reflector, which report each pod that is removed from them."""

    def __init__(self, pods: JsonObject, on_removal: Callable[[str, JsonObject], None]) -> None:
        super().__init__(pods)
        self._on_removal = on_removal

    def pop(self, name: str, *otherwise: JsonValue) -> JsonValue:
        if name in self:
            self._on_removal(name, self[name])
        return super().pop(name, *otherwise)


class GQKubeSpawner(ProfileShares, PlaceRetries, GPUShareMixin, ResilientPods, KubeSpawner):  # type: ignore[misc]
    """A spawner whose servers are pods, each with the share of a GPU that its user was given."""

    servers_are_pods = True
    cluster_errors = (ClusterUnreachable, ApiException, aiohttp.ClientError, ConnectionError)
    reflector_classes = {"events": CompleteEvents, "pods": PodsWithEndReasons}

    gpu_place_retries = Integer(
        2, min=0, help="Number of further places that one start tries if the cluster refuses the chosen place."
    ).tag(config=True)
    gpu_resources = List(
        Unicode(),
        list(DEVICE_RESOURCES),
        help="Resources, or patterns of resources, that only a share may add to a server's pod. Requests for them in "
        "`extra_resource_limits` or in a profile are removed, because quotas would not hold otherwise. "
        "Empty: remove none.",
    ).tag(config=True)

    _pod_made = False

    # --- the pod ----------------------------------------------------------------------------------------------------

    async def get_pod_manifest(self) -> V1Pod:
        """Return KubeSpawner's pod with the additions of the share; `modify_pod_hook` runs afterwards.

        Requests for devices that are not of the share are removed and logged; no other container sees a device.
        """
        pod: V1Pod = await super().get_pod_manifest()
        said = self.api.api_client.sanitize_for_serialization(pod)
        parts = read_parts(said, _NOTEBOOK)
        additions, share_only = self._get_additions(), self._list_share_only()
        for name in list_withheld(parts, additions, share_only):
            self.log.warning("%s is removed from the pod of %s: only a share may add it", name, self._log_name)
        _write_parts(pod, add_share(parts, additions, share_only=share_only))
        self._withhold_devices(pod, share_only)
        _keep_log_end(pod)
        return pod

    def _list_share_only(self) -> list[str]:
        """Return the patterns of resources that only a share may add: `gpu_resources` and the resources of all pools.

        If `gpu_resources` is empty, there are none.
        """
        pools = get_dict(self.config.Pools, "pools").values() if "Pools" in self.config else ()
        resources = [pool["resource"] for pool in pools if isinstance(pool, dict) and pool.get("resource")]
        return merge_unique(self.gpu_resources, resources) if self.gpu_resources else []

    def _withhold_devices(self, pod: V1Pod, share_only: Collection[str]) -> None:
        """Change the containers beside the notebook's so that they ask for no device and see none."""
        for container in (*pod.spec.containers, *(pod.spec.init_containers or ())):
            if container.name != _NOTEBOOK:
                kept = without_devices(self.api.api_client.sanitize_for_serialization(container), share_only)
                container.env = [get_k8s_model(V1EnvVar, each) for each in kept["env"]]
                if container.resources is not None:
                    container.resources = get_k8s_model(V1ResourceRequirements, kept["resources"])

    def _refuse_unseen(self, pod: V1Pod) -> None:
        """Log and raise `StartRefused` if the service would not see or count a GPU of this pod."""
        additions = self._get_additions()
        said = self.api.api_client.sanitize_for_serialization(pod)
        sentence = explain_uncounted_gpu(said, additions, _NOTEBOOK, self._list_share_only())
        if additions.node and not sentence:
            sentence = explain_namespace(self.namespace, find_seen_namespace(self.config))
        if sentence:
            self.log.error("The pod of %s is not created. %s", self._log_name, sentence)
            raise StartRefused(sentence, "gpu_unseen", 403)

    def _get_additions(self) -> PodAdditions:
        """Return what the share adds to the pod: variables, the ticket's label, resources.

        Without a share, return only the variables that hide all devices.
        """
        share = self._share
        if share is None:
            return PodAdditions(environment=NO_DEVICE_ENVIRONMENT)
        additions = share.pod or PodAdditions()
        labels = {WORKLOAD_LABEL: share.ticket} if share.ticket else {}
        return additions.model_copy(
            update={"environment": dict(share.environment), "labels": {**labels, **additions.labels}}
        )

    async def _make_create_pod_request(self, pod: V1Pod, request_timeout: float) -> bool:
        """Create the pod and return True; return False if KubeSpawner should try again.

        An older pod of the same name is deleted before the next attempt. Raises `StartRefused` if that takes too long,
        or if the service would not see a GPU of the pod. Replaces KubeSpawner's own method, which logs the whole pod
        with the server's token if the cluster refuses it. That method also calls `stop` for an older pod, which would
        give this share back.
        """
        self._refuse_unseen(pod)
        _hide_devices(pod, unguarded_containers(self.api.api_client.sanitize_for_serialization(pod)["spec"], _NOTEBOOK))
        self.cancel_leftover_removals()
        self.pod_was_requested = True
        try:
            await asyncio.wait_for(self.api.create_namespaced_pod(self.namespace, pod), request_timeout)
        except TimeoutError:
            return False
        except ApiException as error:
            if error.status != _CONFLICT:
                raise
            self.log.info("Another pod has the name %s and is being deleted", self.pod_name)
            await self.remove_pod_or_refuse(self.start_until)
            return False
        self._pod_made = True
        self.forget_earlier_end()
        return True

    async def remove_pod_of(self, namespace: str, name: str, ticket: str) -> None:
        """Delete the pod `name` if it belongs to this ticket; do nothing if it is gone or another pod has its name."""
        try:
            found = await self.api.read_namespaced_pod(name, namespace)
            if (found.metadata.labels or {}).get(WORKLOAD_LABEL) == (ticket or None):
                exactly = V1DeleteOptions(preconditions=V1Preconditions(uid=found.metadata.uid))
                await self.api.delete_namespaced_pod(name, namespace, body=exactly)
        except ApiException as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                raise

    # --- a start ----------------------------------------------------------------------------------------------------

    async def start(self) -> Address:
        """Start the server and return its address; raise the Hub's refusal if the cluster refuses or does not answer.

        Such a refusal does not count as a failure of the Hub. A pod that a failed start may have left is deleted later.
        Raises `TimeoutError`, which is no refusal, if the pod was created and the server did not start in time.
        """
        self.gpu_ended, self._pod_made, self.pod_was_requested, self._start_future = "", False, False, None
        self.pod_is_stuck = False
        self.start_until = monotonic() + _PART_OF_START_TIMEOUT * self.start_timeout
        self.forget_earlier_end()
        started = False
        try:
            address = await self._start_or_refuse()
            started = True
        finally:
            # For KubeSpawner a pod that its reflector does not have yet has ended; the pod would be left behind.
            if not started and self.pod_was_requested and not self.pod_is_known:
                self.remove_later()
        return address

    async def _start_or_refuse(self) -> Address:
        """Start the server and return its address; turn refusals and outages of the cluster into the Hub's refusals.

        A timeout of a pod that was created is raised as it is.
        """
        gpus = self._share.gpus if self._share else "0"
        try:
            address: Address = await super().start()
        except StartRefused as error:
            raise self._make_refusal(error, gpus) from error
        except ApiException as error:
            if error.status is not None and error.status < _SERVER_FAULT:
                raise self._make_refusal(
                    StartRefused(_read_cluster_message(error), "cluster_refused", 403), gpus
                ) from error
            raise self._make_refusal(_make_outage_refusal(error), gpus) from error
        except self.cluster_errors as error:
            raise self._make_refusal(_make_outage_refusal(error), gpus) from error
        except TimeoutError as error:
            if self._pod_made:
                raise
            raise self._make_refusal(_make_outage_refusal(error), gpus) from error
        return address

    # --- state ------------------------------------------------------------------------------------------------------

    def get_state(self) -> JsonObject:
        """Return the spawner's state with the reason of the last end, which outlives the server."""
        state: JsonObject = super().get_state()
        if self.gpu_ended:
            state[_ENDED] = self.gpu_ended
        return state

    def load_state(self, state: JsonObject) -> None:
        """Restore the saved state, with the reason of the last end, after a Hub's restart or for the next server."""
        super().load_state(state)
        self.gpu_ended = state.get(_ENDED, "")


def _write_parts(pod: V1Pod, parts: PodParts) -> None:
    """Write the parts into the pod, as model objects like KubeSpawner's: a `modify_pod_hook` relies on them."""
    notebook = next(each for each in pod.spec.containers if each.name == _NOTEBOOK)
    pod.metadata.labels, pod.metadata.annotations = dict(parts.labels), dict(parts.annotations)
    # None leaves a field out, which the models accept and their types do not say.
    pod.spec.scheduler_name = parts.scheduler_name  # type: ignore[assignment]
    pod.spec.runtime_class_name = parts.runtime_class  # type: ignore[assignment]
    tolerations = [get_k8s_model(V1Toleration, each) for each in parts.tolerations]
    pod.spec.tolerations = tolerations or None  # type: ignore[assignment]
    pod.spec.volumes = [get_k8s_model(V1Volume, each) for each in parts.volumes]
    if parts.node_affinity is not None:
        pod.spec.affinity = get_k8s_model(V1Affinity, pod.spec.affinity or {})
        pod.spec.affinity.node_affinity = _node_affinity(parts.node_affinity)
    notebook.env = [get_k8s_model(V1EnvVar, each) for each in parts.environment]
    notebook.volume_mounts = [get_k8s_model(V1VolumeMount, each) for each in parts.volume_mounts]
    notebook.resources = get_k8s_model(V1ResourceRequirements, notebook.resources or {})
    notebook.resources.requests, notebook.resources.limits = dict(parts.requests), dict(parts.limits)


def _hide_devices(pod: V1Pod, containers: Collection[str]) -> None:
    """Hide all devices from these containers, even if their images make devices visible."""
    for container in (*pod.spec.containers, *(pod.spec.init_containers or ())):
        if container.name in containers:
            container.env = [*(container.env or []), get_k8s_model(V1EnvVar, HIDDEN)]


def _keep_log_end(pod: V1Pod) -> None:
    """Let the cluster keep the end of a failing server's log, which names the error and would be gone with the pod.

    A policy that the administrator has set stays.
    """
    notebook = next(each for each in pod.spec.containers if each.name == _NOTEBOOK)
    notebook.termination_message_policy = notebook.termination_message_policy or "FallbackToLogsOnError"


def _node_affinity(data: JsonObject) -> V1NodeAffinity:
    """Return a node affinity as a model object, all its parts included."""
    affinity = get_k8s_model(V1NodeAffinity, data)  # the parts of the result are still dicts
    required = affinity.required_during_scheduling_ignored_during_execution
    if required is not None:
        terms = [get_k8s_model(V1NodeSelectorTerm, term) for term in required["nodeSelectorTerms"]]
        affinity.required_during_scheduling_ignored_during_execution = V1NodeSelector(node_selector_terms=terms)
    complete: V1NodeAffinity = affinity
    return complete


def _make_outage_refusal(error: Exception) -> StartRefused:
    sentence = "The cluster does not answer, so no server can be started just now. Try again in a minute."
    refused = StartRefused(sentence, "cluster_away", 503)
    refused.__cause__ = error
    return refused


def _read_cluster_message(error: ApiException) -> str:
    """Return a sentence for the user with the reason for which the cluster's API refused the pod."""
    try:
        told = str(json.loads(error.body or b"")["message"])
    except (TypeError, ValueError, KeyError):
        told = str(error.reason)
    return f"The cluster refused to start the server: {told.rstrip('.')}. Ask your administrator."
