"""Writes to the cluster: objects that are created and deleted, each request repeated until its effect is seen.

Rules
-----
- The idempotence rule: a caller says what should exist as often as it looks. The request is sent once, and again after
  a failure that may pass. So a caller need not remember what it has asked for.
- The limit rule: at most `creations` objects are being created at one time.
- The same-object rule: "it exists" is success if the object has the labels that were asked for, and a refusal
  otherwise.
- The changed-object rule: an object that the cluster creates otherwise than it was asked for, in what the service knows
  it by or counts (see `changes`), is deleted at once, and the creation refused. The pods that the cluster makes from a
  Job are seen only later (see `job_pods`).
- The events rule: only the events of a Job say why the Job creates no pod. They are read once.
- The failing-server rule: a server that answers a creation with failures for `_GIVE_UP_AFTER` seconds refuses it. A
  server that cannot be reached does not.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .changes import describe_changes, find_changes, find_moved
from .errors import ClusterError, Exists, Refused, Unreachable
from .resources import PODS, ApiResource
from .views import PodView

if TYPE_CHECKING:
    from .cluster import Cluster

log = logging.getLogger(__name__)

#: Seconds before a creation that failed is tried again: at first, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 20.0
_GIVE_UP_AFTER = 60.0
#: Seconds until a deletion is sent again if its effect is not seen.
_DELETE_AGAIN = 10.0
#: Labels that say what an object of ours is.
_IDENTITY = (names.INSTALLATION, names.WORKLOAD, names.ATTEMPT, names.TASK, names.RESERVATION)


class CreationState(StrEnum):
    """How far the creation of an object is."""

    UNDER_WAY = "UNDER_WAY"
    CREATED = "CREATED"
    #: The creation failed for now and will be tried again.
    WAITING = "WAITING"
    REFUSED = "REFUSED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Creation:
    """How far the creation of an object is, and why it waits or was refused."""

    state: CreationState
    sentence: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectRef:
    """An object in the cluster that shall exist, or shall not."""

    resource: ApiResource
    namespace: str
    name: str
    #: "" = whatever object has the name.
    uid: str = ""
    #: The object is being deleted, as the watch shows.
    terminating: bool = False

    @classmethod
    def of_pod(cls, pod: PodView) -> "ObjectRef":
        """Return a reference to exactly this pod."""
        return cls(resource=PODS, namespace=pod.namespace, name=pod.name, uid=pod.uid, terminating=pod.terminating)

    @property
    def path(self) -> str:
        """The path of the object, whatever its uid."""
        return f"{self.resource.plural}/{self.namespace}/{self.name}"

    @property
    def key(self) -> str:
        """The uid; without one, the path."""
        return self.uid or self.path


@dataclass(kw_only=True, slots=True)
class _Deletion:
    """A deletion that was asked for."""

    sent_at: float = float("-inf")
    #: When the containers are killed at the latest.
    until: float = float("inf")
    #: The server has agreed, or the object is gone.
    agreed: bool = False
    #: Why the last request failed; "" = it did not.
    trouble: str = ""


@dataclass(kw_only=True, slots=True)
class _Attempts:
    """The attempts to create an object."""

    creation: Creation
    failures: int = 0
    #: Since when the server answers that it failed; None = its last answer was another.
    failing_since: float | None = None
    again_at: float = 0.0


class Writes:
    """The creations and deletions of cluster objects, in tasks of the event loop."""

    def __init__(
        self, cluster: "Cluster", *, creations: int, now: Callable[[], float], done: Callable[[], None]
    ) -> None:
        """Begin without requests. `done` is called after each request has been answered.

        `creations` is the most objects that are being created at one time.
        """
        self._cluster, self._now, self._done = cluster, now, done
        self._creations = asyncio.Semaphore(creations)
        #: By path.
        self._attempts: dict[str, _Attempts] = {}
        #: By key.
        self._deletions: dict[str, _Deletion] = {}
        #: By the key of a Job, why it creates no pod; None: its events are being read.
        self._messages: dict[str, str | None] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def create(self, ref: ObjectRef, body: Callable[[], JsonObject], created: Callable[[JsonObject], None]) -> Creation:
        """Send the request to create the object, if it is due; return how far the creation is.

        A request is due the first time, and after a failure that may pass and the pause that follows. `body` is called
        only when a request is sent. `created` is given the object as the cluster has it.
        """
        attempts = self._attempts.get(ref.path)
        if attempts is None:
            attempts = self._attempts[ref.path] = _Attempts(creation=Creation(state=CreationState.UNDER_WAY))
        elif attempts.creation.state is not CreationState.WAITING or self._now() < attempts.again_at:
            return attempts.creation
        attempts.creation = Creation(state=CreationState.UNDER_WAY, sentence=attempts.creation.sentence)
        self._start(self._create(ref, body, attempts, created))
        return attempts.creation

    def is_creating(self, ref: ObjectRef) -> bool:
        """Return whether a request to create the object may be on its way to the server."""
        attempts = self._attempts.get(ref.path)
        return attempts is not None and attempts.creation.state is CreationState.UNDER_WAY

    def forget_creation(self, ref: ObjectRef) -> None:
        """Drop what is known of the creation, so that the next call of `create` sends a request again."""
        self._attempts.pop(ref.path, None)

    def delete(self, ref: ObjectRef, grace: float | None = None) -> bool:
        """Send the request to delete the object, if it is due; return whether the server has agreed to an earlier one.

        A request is due the first time, and again while its effect is not seen. `grace` is in seconds; None = the grace
        of the object itself. A shorter grace than before is passed on at once; a longer one never adds time.
        """
        now = self._now()
        deadline = now + grace if grace is not None else None
        known = self._deletions.get(ref.key)
        if known is not None and not _is_due(known, ref, deadline, now):
            return known.agreed
        if known is None:
            known = self._deletions[ref.key] = _Deletion()
        if deadline is not None:
            known.until = min(known.until, deadline)
        known.sent_at = now
        seconds = None if grace is None else max(1, round(known.until - now))
        self._start(self._delete(ref, known, seconds))
        return known.agreed

    def deletion_trouble(self, key: str) -> str:
        """Return why the last request to delete the object failed, as a sentence; "" if it did not, or none was sent.

        `key` is that of its `ObjectRef`.
        """
        known = self._deletions.get(key)
        return known.trouble if known is not None else ""

    def ask_why_no_pod(self, job: ObjectRef) -> str | None:
        """Return why this Job creates no pod, as its last event says; the first call requests the events.

        None: the events are being read. "": no event says why, or the events cannot be read.
        """
        if job.key not in self._messages:
            self._messages[job.key] = None
            self._start(self._read_events(job))
        return self._messages[job.key]

    def forget_deletion(self, key: str) -> None:
        """Drop what is known of the deletion and of the events of the object with this key."""
        self._deletions.pop(key, None)
        self._messages.pop(key, None)

    async def close(self) -> None:
        """Cancel all requests that are under way."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _start(self, work: Coroutine[object, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _create(
        self,
        ref: ObjectRef,
        body: Callable[[], JsonObject],
        attempts: _Attempts,
        created: Callable[[JsonObject], None],
    ) -> None:
        try:
            async with self._creations:
                found = await self._create_or_find(ref.resource, body())
            created(found)
            attempts.creation = Creation(state=CreationState.CREATED)
        except Unreachable as error:
            self._note_failure(attempts, error)
        except ClusterError as error:
            log.warning("not created: %s", error.sentence)
            attempts.creation = Creation(state=CreationState.REFUSED, sentence=error.sentence)
        except Exception:  # a creation must not stay under way for ever
            sentence = "A defect of jupyter-gq: see the service's log."
            attempts.creation = Creation(state=CreationState.REFUSED, sentence=sentence)
            log.exception("could not be created: %s", ref.name)
        self._done()

    async def _create_or_find(self, resource: ApiResource, body: JsonObject) -> JsonObject:
        """Create the object and return it; if it exists already and has the same labels of ours, return that one.

        Raises `Refused` for a foreign object of that name and for one that the cluster changes at its creation, and
        `Unreachable` for one that is still being deleted or has just gone. The server asks for rights, quotas and
        webhooks before it looks at the name, so the object may exist whatever it says of those.
        """
        meta = body["metadata"]
        try:
            created = await self._cluster.create(resource, body)
        except ClusterError as failure:
            if not isinstance(failure, Refused) and failure.status < 500:
                raise
            found = await self._cluster.get(resource, meta["namespace"], meta["name"])
            if found is None and not isinstance(failure, Exists):
                raise
        else:
            if changed := find_changes(body, created):
                await self._withdraw(resource, created["metadata"], changed)
            return created
        where = f"{resource.noun} named {meta['name']} in the namespace {meta['namespace']}"
        if found is None or (found["metadata"].get("deletionTimestamp")):
            raise Unreachable(f"An older {where} has not ended yet.")
        if _identity(found["metadata"]) != _identity(meta):
            raise Refused(f"There is a {where} that is not ours. Delete or rename it.")
        # The answer to an earlier creation was lost, or the changed object could not be deleted then.
        if moved := find_moved(body, found):
            await self._withdraw(resource, found["metadata"], moved)
        return found

    async def _withdraw(self, resource: ApiResource, meta: JsonMapping, changed: Sequence[str]) -> NoReturn:
        """Delete an object that was created with these parts changed or missing, and raise `Refused`."""
        namespace, name = meta["namespace"], meta["name"]
        await self._cluster.delete(resource, namespace, name, uid=meta.get("uid", ""), grace=1)
        raise Refused(describe_changes(resource.noun, name, namespace, changed))

    async def _read_events(self, job: ObjectRef) -> None:
        message = ""
        try:
            events = await self._cluster.failed_creates(job.namespace, job.name)
            message = str(events[-1].get("message") or "") if events else ""
        except ClusterError as error:
            log.warning("it is not known why a Job creates no pod: %s", error.sentence)
        finally:
            self._messages[job.key] = message
            self._done()

    def _note_failure(self, attempts: _Attempts, error: Unreachable) -> None:
        """Choose when to try again after a failed creation, or refuse it.

        A creation is refused after a minute in which the server answered with failures.
        """
        now = self._now()
        attempts.failures += 1
        if error.status < 500:
            attempts.failing_since = None
        elif attempts.failing_since is None:
            attempts.failing_since = now
        elif now - attempts.failing_since >= _GIVE_UP_AFTER:
            attempts.creation = Creation(state=CreationState.REFUSED, sentence=error.sentence)
            return
        attempts.again_at = now + min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(attempts.failures - 1, 8))
        attempts.creation = Creation(state=CreationState.WAITING, sentence=error.sentence)

    async def _delete(self, ref: ObjectRef, known: _Deletion, grace: int | None) -> None:
        try:
            await self._cluster.delete(ref.resource, ref.namespace, ref.name, uid=ref.uid, grace=grace)
            known.agreed, known.trouble = True, ""
        except ClusterError as error:
            if error.sentence != known.trouble:  # a request follows every few seconds
                log.warning("not deleted yet: %s %s", ref.name, error.sentence)
            known.trouble = error.sentence
        self._done()


def _is_due(known: _Deletion, ref: ObjectRef, deadline: float | None, now: float) -> bool:
    """Return whether a deletion that was sent has to be sent again: for a shorter grace, or without effect so far."""
    if deadline is not None and deadline < known.until - 1.0:
        return True
    is_seen = ref.terminating or (known.agreed and not ref.uid)
    return not is_seen and now >= known.sent_at + _DELETE_AGAIN


def _identity(meta: JsonMapping) -> dict[str, str]:
    labels = meta.get("labels") or {}
    return {key: labels[key] for key in _IDENTITY if key in labels}
