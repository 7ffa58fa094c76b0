"""Cached copies of one kind of objects each, kept by listing and then watching. No polling.

Rules
-----
1. List and watch. A list is consistent and comes in pages; the watch begins at its version. The list replaces
   everything that was known, and after a restore of the cluster's database, which sets versions back, also what was
   known of later versions.
2. Expiry. After `410 Gone`, as an answer or in the stream, the objects are listed again. The list is the truth, events
   are news on top of it. A list that no watch follows is no contact: the first one is allowed, the second in a row is a
   failure.
3. Failures. A failed list or a broken connection means "unknown", never "nothing": `failure` says so until contact is
   back.
4. Reconnection. Each watch ends by the server's timeout or by silence, and continues where it was. After failures the
   pauses grow, and chance keeps clients out of step. After the second failure in a row the objects are listed again:
   the server may have been restored, and would tell nothing, or an error, to a watch of a version that it never had.
5. Deletion. A watch with a label selector tells of an object that loses a label as of one that was deleted. So pods are
   watched without one, and `admit` chooses which are kept.
6. Endurance. Only `end` ends the thread: an error that nobody has foreseen is a failure like any other, and is tried
   again.

See docs/decisions/0023-watch-the-cluster-as-plain-json.md, docs/decisions/0277-let-a-pod-keep-its-labels.md and
docs/decisions/0278-list-again-after-an-outage.md.
"""

import asyncio
import logging
import random
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from jupyter_gq.backends.kubernetes.clocks import monotonic
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .errors import ClusterError, Expired, Unreachable
from .resources import ApiResource

if TYPE_CHECKING:
    from .cluster import Cluster, Stream

log = logging.getLogger(__name__)

#: Seconds for which the server keeps a watch open, at least and at most.
_WATCH_SECONDS = (240, 300)
#: Seconds before a failed connection is tried again: the first time, and at most.
_FIRST_PAUSE, _LONGEST_PAUSE = 0.25, 20.0
#: Seconds between a watch that ended as it should and the next one.
_BETWEEN_WATCHES = 0.1
#: A watch that was open for so many seconds has worked, even if there was nothing to tell.
_WORKED = 5.0
#: Names of deleted objects that are remembered, so that a late answer does not revive one.
_TOMBSTONES = 4096

Key = tuple[str, str]


class ObjectView(Protocol):
    """The kept fields of an object."""

    @property
    def key(self) -> Key:
        """Namespace and name."""
        ...

    @property
    def version(self) -> int:
        """Version of the object; it grows."""
        ...


V = TypeVar("V", bound=ObjectView)
#: Called with the object before and after a change; None = not there.
Listener = Callable[[V | None, V | None], None]
#: Called with the object as it is kept and as it was seen now; returns what is to be kept, None = nothing.
Admission = Callable[[V | None, V], V | None]


def admit_all(known: V | None, seen: V) -> V | None:
    """Return the object as it was seen: all objects are kept."""
    return seen


class Copy(Generic[V]):
    """The objects as last seen. Lives in the event loop; `changed` is told each difference."""

    def __init__(self, changed: Listener[V], admit: Admission[V] = admit_all) -> None:
        self._changed, self._admit = changed, admit
        self._items: dict[Key, V] = {}
        #: Version at which a name was deleted.
        self._deleted: dict[Key, int] = {}

    def get(self, namespace: str, name: str) -> V | None:
        """Return an object as last seen; None if there is none."""
        return self._items.get((namespace, name))

    def __iter__(self) -> Iterator[V]:
        return iter(list(self._items.values()))

    def __len__(self) -> int:
        return len(self._items)

    def put(self, view: V) -> None:
        """Store an object and tell the listener, unless this version or a newer one, or its deletion, is known."""
        known = self._items.get(view.key)
        if known is not None and known.version >= view.version:
            return
        if self._deleted.get(view.key, -1) >= view.version:
            return
        self._store(view)

    def remove(self, key: Key, version: int) -> None:
        """Remove an object and tell the listener, unless a newer version is known; older views cannot bring it back."""
        known = self._items.get(key)
        if known is not None and known.version > version:
            return
        self._deleted[key] = version
        while len(self._deleted) > _TOMBSTONES:
            self._deleted.pop(next(iter(self._deleted)))
        self._drop(key)

    def replace(self, views: Mapping[Key, V], version: int) -> None:
        """Replace all objects by the complete list of that version; keep objects that are known to be newer.

        The listener is told each difference.
        """
        for key in [key for key, known in self._items.items() if key not in views and known.version <= version]:
            self.remove(key, version)
        for view in views.values():
            known = self._items.get(view.key)
            if max(known.version if known is not None else -1, self._deleted.get(view.key, -1)) <= version:
                self._store(view)

    def restart(self, views: Mapping[Key, V]) -> None:
        """Replace all objects by the complete list of a cluster whose versions were set back.

        The listener is told each difference.
        """
        self._deleted.clear()
        for key in [key for key in self._items if key not in views]:
            self._drop(key)
        for view in views.values():
            self._store(view)

    def _store(self, view: V) -> None:
        """Store what is to be kept of the object, and tell the listener if that is not what was kept before."""
        known = self._items.get(view.key)
        kept = self._admit(known, view)
        if kept is None:
            self._drop(view.key)  # an object that is not kept has the name now
        elif known is None or (known.version, known) != (kept.version, kept):
            self._items[view.key] = kept
            self._changed(known, kept)

    def _drop(self, key: Key) -> None:
        known = self._items.pop(key, None)
        if known is not None:
            self._changed(known, None)


class Reflector(Generic[V]):
    """A thread that keeps a `Copy` of cluster objects up to date."""

    def __init__(
        self,
        cluster: "Cluster",
        resource: ApiResource,
        *,
        namespace: str = "",
        query: Mapping[str, str] | None = None,
        trim: Callable[[JsonMapping], V],
        copy: Copy[V],
    ) -> None:
        self._cluster, self._resource, self._namespace = cluster, resource, namespace
        self._query = dict(query or {})
        self._trim = trim
        self.copy = copy
        self._what = f"{resource.plural} of {namespace}" if namespace else resource.plural
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._ended = threading.Event()
        self._stream: Stream | None = None
        #: The version up to which everything is known; "" = nothing is.
        self._version = ""
        #: The same as a number, which stays while nothing is known; 0 = nothing ever was.
        self._reached = 0
        #: Failures in a row; news from a watch ends the row, a list does not.
        self._failures = 0
        #: A `410`, or a watch that ended at once, and no watch has worked since.
        self._doubtful = False
        #: The present watch has worked.
        self._told = False
        #: Set once everything was listed.
        self.synced = asyncio.Event()
        #: Why the copy may be out of date; "" = it is not.
        self.failure = f"The {self._what} have not been listed yet."
        #: Lists that were made, for tests.
        self.lists = 0

    def start(self) -> None:
        """Start the thread that lists and watches; changes are told in the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._thread = threading.Thread(target=self._run, name=f"watch {self._what}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Tell the thread to end, and end its open watch, without a wait; changes from now on are dropped."""
        self._ended.set()
        if self._stream is not None:
            self._stream.end()

    # --- in the thread

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
                if self._told:
                    self._pause(_BETWEEN_WATCHES)
                else:
                    self._once(f"The cluster ends each watch of the {self._what} at once.")
            except Expired:
                self._version = ""
                self._once(f"The cluster forgets what changes among the {self._what} before it can be read.")
            except ClusterError as error:
                if not isinstance(error, Unreachable) or self._failures:
                    self._version = ""
                self._failed(error.sentence)
            except Exception as error:
                # A copy that is no longer kept up to date must not pass for the truth.
                log.exception("the %s cannot be watched", self._what)
                self._version = ""
                self._failed(f"The {self._what} cannot be watched, by a defect of jupyter-gq: {error!r}.")

    def _failed(self, sentence: str) -> None:
        self._failures += 1
        self._in_loop(lambda: self._fail(sentence))
        pause = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2 ** min(self._failures, 10))
        self._pause(pause * random.uniform(0.5, 1.0))  # noqa: S311 - no secret: only out of step

    def _once(self, sentence: str) -> None:
        """Pause shortly after a doubtful end of a watch; report `sentence` as a failure if it is the second one.

        A watch that works in between starts the count anew.
        """
        if self._doubtful:
            self._failed(sentence)
        else:
            self._doubtful = True
            self._pause(_BETWEEN_WATCHES)

    def _worked(self) -> None:
        self._told = True
        self._failures, self._doubtful = 0, False

    def _pause(self, seconds: float) -> None:
        self._ended.wait(seconds)

    def _list(self) -> None:
        views: dict[Key, V] = {}
        version = ""
        for items, version in self._cluster.pages(self._resource, self._namespace, self._query):  # noqa: B007
            views.update({view.key: view for view in map(self._trim, items)})
        listed = int(version or 0)
        is_set_back = listed < self._reached
        self._in_loop(lambda: self._replace(views, listed, is_set_back=is_set_back))
        self._version, self._reached = version, listed

    def _watch(self) -> None:
        seconds = random.randint(*_WATCH_SECONDS)  # noqa: S311 - no secret
        stream = self._cluster.watch(self._resource, self._namespace, self._query, self._version, seconds)
        self._stream = stream
        self._in_loop(self._recover)
        if self._ended.is_set():
            stream.end()
        began, self._told = monotonic(), False
        try:
            for events in stream.batches():
                self._take(events)
        finally:
            if monotonic() - began >= _WORKED:
                self._worked()

    def _take(self, events: list[JsonObject]) -> None:
        """Send the changes that these events of a watch tell to the event loop.

        Raises `Expired` or `Unreachable` if an event says that the watch has failed.
        """
        changes: list[tuple[bool, V]] = []
        broken: ClusterError | None = None
        for event in events:
            kind, item = event.get("type"), event.get("object") or {}
            if kind == "ERROR":
                told = str(item.get("message") or "the watch failed")
                broken = Expired(told) if item.get("code") == 410 else Unreachable(f"The watch broke off: {told}.")
                break
            self._version = str((item.get("metadata") or {}).get("resourceVersion") or self._version)
            self._reached = int(self._version)
            self._worked()
            if kind != "BOOKMARK":
                changes.append((kind == "DELETED", self._trim(item)))
        if changes:
            self._in_loop(lambda: self._apply(changes))
        if broken is not None:
            raise broken

    def _in_loop(self, deed: Callable[[], None]) -> None:
        assert self._loop is not None
        if self._ended.is_set():
            return
        try:
            self._loop.call_soon_threadsafe(deed)
        except RuntimeError:
            # The loop has ended, and so does this thread.
            self._ended.set()

    # --- in the loop

    def _replace(self, views: Mapping[Key, V], version: int, *, is_set_back: bool) -> None:
        self.lists += 1
        if is_set_back:
            log.warning(
                "the versions of the %s were set back, such as by a restore: what was known is dropped", self._what
            )
            self.copy.restart(views)
        else:
            self.copy.replace(views, version)
        if not self.synced.is_set():
            self.failure = ""
            self.synced.set()

    def _apply(self, changes: list[tuple[bool, V]]) -> None:
        for gone, view in changes:
            if gone:
                if self.copy.get(*view.key) is not None:
                    self.copy.put(view)  # the last state of the object, which may not have been reported before
                self.copy.remove(view.key, view.version)
            else:
                self.copy.put(view)

    def _recover(self) -> None:
        if self.failure and self.synced.is_set():
            log.info("the %s are watched again", self._what)
        self.failure = ""

    def _fail(self, sentence: str) -> None:
        if not self.failure or not self.synced.is_set():
            log.warning("the %s cannot be watched: %s", self._what, sentence)
        self.failure = sentence
