"""Writes to the cluster: objects to be made or deleted, each asked for again until the effect is seen.

Rules
-----
1. Once. A caller says what should be there, as often as it looks. The request is sent once, and again after a failure
   that may pass. So a caller needs no memory of its requests.
2. Bound. At most `creations` objects are made at one time.
3. Existing objects. "Exists already" is success if the object is ours, and a refusal otherwise.
4. Jobs without pods. The reason is only in the Job's events, which are read once.
5. Persistent failure. A server that fails at one object for `_PATIENCE` seconds refuses it; a server that cannot be
   reached does not.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .errors import ClusterError, Exists, Refused, Unreachable
from .resources import PODS, Resource
from .views import PodView

if TYPE_CHECKING:
    from .cluster import Cluster

log = logging.getLogger(__name__)


_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 20.0
_PATIENCE = 60.0
#: Seconds until a deletion whose effect is not seen is asked for again.
_ASK_AGAIN = 10.0
#: Labels that say what something of ours is.
_IDENTITY = (names.INSTALLATION, names.WORKLOAD, names.ATTEMPT, names.TASK, names.RESERVATION)


class WriteState(StrEnum):
    """How far it is."""

    UNDER_WAY = "UNDER_WAY"
    MADE = "MADE"
    #: The attempt failed and will be repeated.
    WAITING = "WAITING"
    REFUSED = "REFUSED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Making:
    """The progress of making an object."""

    state: WriteState
    #: Why the attempt waits, or was refused.
    sentence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Thing:
    """An object in the cluster that shall be there, or shall go."""

    resource: Resource
    namespace: str
    name: str
    #: The uid of the only object that is meant; "" = whichever has the name.
    uid: str = ""
    #: The object is seen to be ending.
    terminating: bool = False

    @property
    def mark(self) -> str:
        """The key that tells this object from others."""
        return self.uid or f"{self.resource.plural}/{self.namespace}/{self.name}"


@dataclass(kw_only=True, slots=True)
class _Deletion:
    """A deletion that was asked for."""

    asked_at: float = float("-inf")
    #: The latest time at which the object is killed.
    until: float = float("inf")
    #: The server has agreed, or said that the object is gone.
    agreed: bool = False


@dataclass(kw_only=True, slots=True)
class _Try:
    making: Making
    failures: int = 0
    #: Since when the server answers that it failed; None = it does not.
    failing_since: float | None = None
    again_at: float = 0.0


class Deeds:
    """Makes and deletes objects; lives in the event loop."""

    def __init__(
        self, cluster: "Cluster", *, creations: int, now: Callable[[], float], done: Callable[[], None]
    ) -> None:
        """Begin; `done` is called after each request, so that somebody looks at its effect."""
        self._cluster, self._now, self._done = cluster, now, done
        self._creations = asyncio.Semaphore(creations)
        self._tries: dict[tuple[str, str, str], _Try] = {}
        #: By uid, or by name where there is none.
        self._deletions: dict[str, _Deletion] = {}
        #: By Job, why it makes no pod; None: it is being asked.
        self._words: dict[str, str | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def make(self, thing: Thing, body: Callable[[], JsonObject], made: Callable[[JsonObject], None]) -> Making:
        """See to it that an object is made, and return the progress.

        `body` is called only if the request is sent; `made` gets the object as the cluster has it.
        """
        key = (thing.resource.plural, thing.namespace, thing.name)
        attempt = self._tries.get(key)
        if attempt is None:
            attempt = self._tries[key] = _Try(making=Making(state=WriteState.UNDER_WAY))
        elif attempt.making.state is not WriteState.WAITING or self._now() < attempt.again_at:
            return attempt.making
        attempt.making = Making(state=WriteState.UNDER_WAY, sentence=attempt.making.sentence)
        self._begin(self._make(thing, body, attempt, made))
        return attempt.making

    def under_way(self, resource: Resource, namespace: str, name: str) -> bool:
        """Return True if a request to make the object may be on its way to the server."""
        attempt = self._tries.get((resource.plural, namespace, name))
        return attempt is not None and attempt.making.state is WriteState.UNDER_WAY

    def forget(self, resource: Resource, namespace: str, name: str) -> None:
        """Forget an attempt, so that the object may be made again."""
        self._tries.pop((resource.plural, namespace, name), None)

    def delete(self, thing: Thing, grace: float | None = None) -> bool:
        """See to it that an object is deleted; True if the server has agreed.

        A shorter grace than before is passed on; a longer one never adds time.
        """
        now = self._now()
        deadline = now + grace if grace is not None else None
        known = self._deletions.get(thing.mark)
        if known is not None and not _is_due(known, thing, deadline, now):
            return known.agreed
        if known is None:
            known = self._deletions[thing.mark] = _Deletion()
        if deadline is not None:
            known.until = min(known.until, deadline)
        known.asked_at = now
        seconds = None if grace is None else max(1, round(known.until - now))
        self._begin(self._delete(thing, known, seconds))
        return known.agreed

    def why_no_pod(self, thing: Thing) -> str | None:
        """Return why a Job makes no pod; None while that is being asked, "" if nothing is said."""
        if thing.mark not in self._words:
            self._words[thing.mark] = None
            self._begin(self._ask_why(thing))
        return self._words[thing.mark]

    def gone(self, mark: str) -> None:
        """Forget a deletion: the object is gone, or no longer of interest."""
        self._deletions.pop(mark, None)
        self._words.pop(mark, None)

    async def close(self) -> None:
        """Give up the requests that are under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _make(
        self, thing: Thing, body: Callable[[], JsonObject], attempt: _Try, made: Callable[[JsonObject], None]
    ) -> None:
        try:
            async with self._creations:
                found = await self._created_or_found(thing.resource, body())
            made(found)
            attempt.making = Making(state=WriteState.MADE)
        except Unreachable as error:
            self._failed(attempt, error)
        except ClusterError as error:
            log.warning("not made: %s", error.sentence)
            attempt.making = Making(state=WriteState.REFUSED, sentence=error.sentence)
        except Exception:  # what is under way must not be so for ever
            attempt.making = Making(state=WriteState.REFUSED, sentence="A defect of jupyter-gq: see the service's log.")
            log.exception("could not be made: %s", thing.name)
        self._done()

    async def _created_or_found(self, resource: Resource, body: JsonObject) -> JsonObject:
        meta = body["metadata"]
        try:
            return await self._cluster.create(resource, body)
        except Exists:
            found = await self._cluster.get(resource, meta["namespace"], meta["name"])
        where = f"{resource.noun} named {meta['name']} in the namespace {meta['namespace']}"
        if found is None or (found["metadata"].get("deletionTimestamp")):
            raise Unreachable(f"An older {where} has not ended yet.")
        if _identity(found["metadata"]) != _identity(meta):
            raise Refused(f"There is a {where} that is not ours. Delete or rename it.")
        return found

    async def _ask_why(self, thing: Thing) -> None:
        words = ""
        try:
            told = await self._cluster.failed_creates(thing.namespace, thing.name)
            words = str(told[-1].get("message") or "") if told else ""
        except ClusterError as error:
            log.warning("it is not known why a Job makes no pod: %s", error.sentence)
        finally:
            self._words[thing.mark] = words
            self._done()

    def _failed(self, attempt: _Try, error: Unreachable) -> None:
        now = self._now()
        attempt.failures += 1
        if error.status < 500:
            attempt.failing_since = None
        elif attempt.failing_since is None:
            attempt.failing_since = now
        elif now - attempt.failing_since >= _PATIENCE:
            attempt.making = Making(state=WriteState.REFUSED, sentence=error.sentence)
            return
        attempt.again_at = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempt.failures - 1, 8))
        attempt.making = Making(state=WriteState.WAITING, sentence=error.sentence)

    async def _delete(self, thing: Thing, known: _Deletion, grace: int | None) -> None:
        try:
            await self._cluster.delete(thing.resource, thing.namespace, thing.name, uid=thing.uid, grace=grace)
            known.agreed = True
        except ClusterError as error:
            log.warning("not deleted yet: %s", error.sentence)
        self._done()


def _is_due(known: _Deletion, thing: Thing, deadline: float | None, now: float) -> bool:
    """Return True if the deletion has to be asked for, or asked for again."""
    if deadline is not None and deadline < known.until - 1.0:
        return True
    seen = thing.terminating or (known.agreed and not thing.uid)
    return not seen and now >= known.asked_at + _ASK_AGAIN


def thing_of(pod: PodView) -> Thing:
    """Return a pod as an object to be deleted."""
    return Thing(resource=PODS, namespace=pod.namespace, name=pod.name, uid=pod.uid, terminating=pod.terminating)


def _identity(meta: JsonMapping) -> dict[str, str]:
    labels = meta.get("labels") or {}
    return {key: labels[key] for key in _IDENTITY if key in labels}
