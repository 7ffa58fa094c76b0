"""A spawner's view of its pod: over outages of the cluster's API, with the reason of the pod's end.

Rules
-----
- Unknown is not ended: a server whose pod cannot be looked up counts as running.
- Recorded end: the reason of a pod's end is read before KubeSpawner deletes the pod, and is kept for the options page.
- No leftovers: a pod that could not be deleted is deleted as soon as the cluster answers, and only if it is still the
  same pod.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import ClassVar

from jupyter_gq.domain.errors import MachineError
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.hub.admission.admission import StartRefused
from jupyter_gq.hub.base import SpawnerMixin

from .pod_status import explain_end, find_exit_code, is_running
from .reflectors import HubReflector, ReflectorReplacements

#: Progress at which KubeSpawner's events begin: the wait for a share is the first half, KubeSpawner counts 0 to 90.
_OUR_HALF = 50
#: Deletion of a leftover pod: first and longest pause in seconds, and number of attempts (more than an hour).
_FIRST_PAUSE, _SLOWEST, _TRIES = 1.0, 10.0, 400


class ClusterUnreachable(MachineError):
    """An error of the cluster's API: it cannot be reached."""


class ResilientPods(SpawnerMixin):  # type: ignore[misc]  # jupyterhub has no types
    """The mixin that keeps pods correct over outages of the API; it stands between `GPUShareMixin` and KubeSpawner."""

    #: Errors which mean that the API cannot be reached; a subclass sets them.
    cluster_errors: ClassVar[tuple[type[Exception], ...]] = (ClusterUnreachable,)
    #: Classes that replace KubeSpawner's reflectors, by the kind of object that they watch.
    reflector_classes: ClassVar[dict[str, type]] = {}

    gpu_ended: str
    #: Whether there may be a pod: False only from the beginning of a start until its pod is requested.
    pod_was_requested = True
    #: Whether a pod was told to stop and did not end in time.
    pod_is_stuck = False
    #: Loop time at which the present start is given up.
    start_until: float
    _replacements = ReflectorReplacements()
    #: Pending deletions, by namespace, pod and ticket.
    _leftovers: ClassVar[dict[tuple[str, str, str], "asyncio.Task[None]"]] = {}

    # --- the view of all pods ---------------------------------------------------------------------------------------

    async def _start_reflector(
        self, kind: str, reflector_class: type, replace: bool = False, **more: object
    ) -> HubReflector:
        """Return the live reflector of the objects `kind`; start one if there is none or the present one has died.

        KubeSpawner's own method never replaces a dead one. Raises `ClusterUnreachable` if the objects cannot be listed.
        """
        make = partial(self.reflector_classes.get(kind, reflector_class), parent=self, namespace=self.namespace, **more)
        try:
            return await self._replacements.ensure_alive(
                type(self).reflectors, self._get_reflector_key(kind), make, replace=replace
            )
        except Exception as error:
            raise ClusterUnreachable(f"The {kind} of namespace {self.namespace} cannot be listed: {error}") from error

    def is_pod_running(self, pod: JsonObject | None) -> bool:
        """Return whether the pod runs and is ready; KubeSpawner's own method fails on an incomplete status."""
        return is_running(pod)

    async def progress(self) -> AsyncIterator[JsonObject]:
        """Yield the events of the pod, with the progress from 50 on; log a warning and end if the API is away."""
        try:
            async with aclosing(super().progress()) as events:
                async for event in events:
                    if "progress" in event:
                        event["progress"] = _OUR_HALF + event["progress"] // 2
                    yield event
        except self.cluster_errors as error:
            self.log.warning("The events of %s cannot be shown: %s", self.pod_name, error)

    # --- the end of the pod -----------------------------------------------------------------------------------------

    async def poll(self) -> int | None:
        """Return the server's exit code; None if the server runs or the cluster cannot be reached.

        Also record why the pod ended. A pod in which only sidecars are left is deleted: it would hold its share for
        ever.
        """
        try:
            await self._record_end()
            code = find_exit_code(self.pod_reflector.pods.get(self._place))
            if code is not None:
                await self.stop()
                return code
            status: int | None = await super().poll()
        except self.cluster_errors as error:
            self.log.warning("The state of %s is unknown just now: %s", self.pod_name, error)
            return None
        return status

    async def stop(self, now: bool = False) -> None:
        """Delete the pod and wait until it is gone; if the cluster does not answer, delete it later.

        A pod that an earlier deletion did not remove in time is only deleted later. Raises `TimeoutError` if the pod is
        not gone in time; its deletion is then tried again later. `now` has no effect: without a grace period Kubernetes
        forgets a pod whose processes may still run.
        """
        if self.pod_is_stuck:  # an earlier deletion has timed out already
            self.remove_later()
            return
        try:
            await self._record_end()
            await self.remove_pod()
        except self.cluster_errors as error:
            # Not raised: the Hub would say that the server has been stopped, and log nothing.
            if self.pod_was_requested:
                self.log.warning("Pod %s will be deleted as soon as the cluster answers: %s", self._place, error)
                self.remove_later()
        except TimeoutError:
            self.remove_later()
            raise

    async def remove_pod(self) -> None:
        """Delete the pod with KubeSpawner's own method and wait until it is gone; errors are raised as they come."""
        await super().stop(now=False)

    async def remove_pod_or_refuse(self, until: float, *, told: str = "") -> None:
        """Delete the pod; raise `StartRefused` if it is not gone at the loop time `until`; `told` begins the sentence.

        Then the pod also counts as stuck. A pod on a silent node stays, and its successor would need its name, its
        volumes and its share.
        """
        try:
            async with asyncio.timeout_at(until):
                await self.remove_pod()
        except TimeoutError as error:
            self.pod_is_stuck = True
            stays = f"The server's earlier pod on {self._node} cannot be removed yet. Try again in a few minutes."
            sentence = f"{told} {stays}"
            raise StartRefused(sentence.strip(), "gpu_no_place", 503) from error

    async def _record_end(self) -> None:
        """Set `gpu_ended` to the reason of the pod's end: from its status, else from the reflector, else as it was."""
        await self._start_watching_pods()
        view, place = self.pod_reflector, self._place
        self.gpu_ended = explain_end(view.pods.get(place)) or _get_end_reasons(view).get(place, "") or self.gpu_ended

    def forget_earlier_end(self) -> None:
        """Delete the recorded end of an earlier pod of this name; do nothing if there is none."""
        _get_end_reasons(self.pod_reflector).pop(self._place, None)

    @property
    def pod_is_known(self) -> bool:
        """Whether the reflector is there and has this server's pod."""
        view = self.pod_reflector
        return view is not None and self._place in view.pods

    @property
    def _node(self) -> str:
        pod = self.pod_reflector.pods.get(self._place) if self.pod_is_known else None
        node = ((pod or {}).get("spec") or {}).get("nodeName")
        return node or "its node"

    @property
    def _place(self) -> str:
        return f"{self.namespace}/{self.pod_name}"

    def remove_later(self) -> None:
        """Start a task that deletes this share's pod with retries, unless one runs; the task outlives this spawner."""
        leftover = (self.namespace, self.pod_name, self._share.ticket if self._share else "")
        if leftover not in self._leftovers:
            task = self._leftovers[leftover] = asyncio.create_task(self._remove_leftover(*leftover))
            task.add_done_callback(lambda _: self._leftovers.pop(leftover))

    def cancel_leftover_removals(self) -> None:
        """Cancel pending deletions of older pods that have the name which the new pod will get."""
        for leftover, task in self._leftovers.items():
            if leftover[:2] == (self.namespace, self.pod_name):
                task.cancel()

    async def _remove_leftover(self, namespace: str, name: str, ticket: str) -> None:
        """Delete the pod `name` if it belongs to `ticket`, with retries for more than an hour; log the result."""
        trouble: tuple[type[Exception], ...] = (*self.cluster_errors, TimeoutError)
        pause = _FIRST_PAUSE
        for _ in range(_TRIES):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SLOWEST)
            try:
                await self.remove_pod_of(namespace, name, ticket)
            except trouble:
                continue
            self.log.info("Pod %s/%s is deleted", namespace, name)
            return
        self.log.error("Pod %s/%s could not be deleted: the cluster does not answer", namespace, name)


def _get_end_reasons(view: object) -> dict[str, str]:
    """Return the end reasons of deleted pods, by namespace and name; empty for a reflector without them."""
    found: dict[str, str] = getattr(view, "end_reasons", {})
    return found
