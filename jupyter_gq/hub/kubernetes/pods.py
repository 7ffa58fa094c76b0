"""A spawner's pod as the Hub sees it: over outages of the cluster's API, with the reason of its end.

Rules
-----
1. What cannot be asked is unknown: a server whose pod cannot be looked up goes on running for the Hub.
2. Why a pod ends is read before KubeSpawner deletes it, and kept for the next time that its user chooses a server.
3. A pod that could not be deleted is deleted as soon as the cluster answers, and only if it still is that very pod.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from functools import partial
from typing import Any, ClassVar

from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.hub.admission.admission import Refused
from jupyter_gq.hub.base import OverSpawner

from .pod_facts import end_of, is_running
from .reflectors import Replacements

#: Ours is the first half of the way; KubeSpawner counts its own from 0 to 90.
_OUR_HALF = 50
#: For a pod that could not be deleted: seconds between two tries, and how many of them (more than an hour).
_FIRST_PAUSE, _SLOWEST, _TRIES = 1.0, 10.0, 400


class ClusterAway(Exception):
    """The cluster's API cannot be asked."""


class LastingPods(OverSpawner):  # type: ignore[misc]  # jupyterhub has no types
    """Goes between `GPUShareMixin` and KubeSpawner. A subclass says which errors mean that the API is away."""

    #: Errors of calls to the API.
    cluster_errors: ClassVar[tuple[type[Exception], ...]] = (ClusterAway,)
    #: Classes to use in the place of KubeSpawner's own, by the kind that they watch.
    reflector_classes: ClassVar[dict[str, type]] = {}

    gpu_ended: str
    #: There may be a pod: True unless a start has not come to that yet.
    pod_asked_for = True
    #: A pod was told to end and did not do so in its time.
    pod_stays = False
    #: By the clock of the loop, when the present start is given up.
    start_until: float
    _replacements = Replacements()
    #: Deletions that are still to be done, by namespace, pod and ticket.
    _leftovers: ClassVar[dict[tuple[str, str, str], "asyncio.Task[None]"]] = {}

    # --- the view of all pods ---------------------------------------------------------------------------------------

    async def _start_reflector(self, kind: str, reflector_class: type, replace: bool = False, **more: Any) -> Any:
        make = partial(self.reflector_classes.get(kind, reflector_class), parent=self, namespace=self.namespace, **more)
        try:
            return await self._replacements.ensure(
                type(self).reflectors, self._get_reflector_key(kind), make, anew=replace
            )
        except Exception as error:
            raise ClusterAway(f"The {kind} of namespace {self.namespace} cannot be listed: {error}") from error

    def is_pod_running(self, pod: Any) -> bool:
        """Called by KubeSpawner, which takes a complete status for granted."""
        return is_running(pod)

    async def progress(self) -> AsyncIterator[JsonObject]:
        """The events of the pod."""
        try:
            async with aclosing(super().progress()) as events:
                async for event in events:
                    if "progress" in event:
                        event["progress"] = _OUR_HALF + event["progress"] // 2
                    yield event
        except self.cluster_errors as error:
            self.log.warning("No events of %s can be shown: %s", self.pod_name, error)

    # --- its end ----------------------------------------------------------------------------------------------------

    async def poll(self) -> int | None:
        """KubeSpawner's answer; None, which is "running", while the cluster cannot be asked."""
        try:
            await self._note_end()
            status: int | None = await super().poll()
        except self.cluster_errors as error:
            self.log.warning("Whether %s runs cannot be asked just now: %s", self.pod_name, error)
            return None
        return status

    async def stop(self, now: bool = False) -> None:
        """Delete the pod and wait until it is gone; or see to it later, if the cluster does not answer.

        `now` changes nothing: to end a pod without grace is to forget it, and its processes may still run.
        """
        if self.pod_stays:  # that has been waited for already
            self.remove_later()
            return
        try:
            await self._note_end()
            await self.remove_pod()
        except self.cluster_errors as error:
            # Raised, it would reach nobody: the Hub says that the server has been stopped, and logs nothing.
            if self.pod_asked_for:
                self.log.warning("Pod %s is deleted as soon as the cluster answers: %s", self._place, error)
                self.remove_later()
        except TimeoutError:
            self.remove_later()
            raise

    async def remove_pod(self) -> None:
        """Delete the pod and wait until it is gone; nothing else."""
        await super().stop(now=False)

    async def leave_pod(self, until: float, *, told: str = "") -> None:
        """Delete the pod, and raise `Refused` when it is not gone then; `told` is the beginning of the sentence.

        On a node that is silent it stays. Its successor would have its name, its volumes and its share.
        """
        try:
            async with asyncio.timeout_at(until):
                await self.remove_pod()
        except TimeoutError as error:
            self.pod_stays = True
            stays = f"The server's earlier pod on {self._node} cannot be removed yet. Try again in a few minutes."
            sentence = f"{told} {stays}"
            raise Refused(sentence.strip(), "gpu_no_place", 503) from error

    async def _note_end(self) -> None:
        await self._start_watching_pods()
        view, place = self.pod_reflector, self._place
        self.gpu_ended = end_of(view.pods.get(place)) or _last_words(view).get(place, "") or self.gpu_ended

    def forget_last_words(self) -> None:
        """What a pod of this name has said so far is of no interest any more."""
        _last_words(self.pod_reflector).pop(self._place, None)

    @property
    def pod_is_seen(self) -> bool:
        """The view of pods has it."""
        view = self.pod_reflector
        return view is not None and self._place in view.pods

    @property
    def _node(self) -> str:
        pod = self.pod_reflector.pods.get(self._place) if self.pod_is_seen else None
        node = ((pod or {}).get("spec") or {}).get("nodeName")
        return node or "its node"

    @property
    def _place(self) -> str:
        return f"{self.namespace}/{self.pod_name}"

    def remove_later(self) -> None:
        """See to it that the pod of this share is deleted, whatever becomes of this spawner."""
        leftover = (self.namespace, self.pod_name, self._share.ticket if self._share else "")
        if leftover not in self._leftovers:
            task = self._leftovers[leftover] = asyncio.create_task(self._remove_leftover(*leftover))
            task.add_done_callback(lambda _: self._leftovers.pop(leftover))

    def keep_leftovers_apart(self) -> None:
        """A pod of this name is made: who waits to delete an older one must not take it for that."""
        for leftover, task in self._leftovers.items():
            if leftover[:2] == (self.namespace, self.pod_name):
                task.cancel()

    async def _remove_leftover(self, namespace: str, name: str, ticket: str) -> None:
        trouble: tuple[type[Exception], ...] = (*self.cluster_errors, TimeoutError)
        pause = _FIRST_PAUSE
        for _ in range(_TRIES):
            await asyncio.sleep(pause)
            pause = min(2 * pause, _SLOWEST)
            try:
                await self.remove_pod_of(namespace, name, ticket)
            except trouble:
                continue
            self.log.info("Pod %s/%s is not left behind", namespace, name)
            return
        self.log.error("Pod %s/%s could not be deleted: the cluster does not answer", namespace, name)


def _last_words(view: Any) -> dict[str, str]:
    found: dict[str, str] = getattr(view, "last_words", {})
    return found
