"""Contents as objects at a URL that fsspec supports; see `backends.contents` for the guarantees.

Rules
-----
- One folder for each installation: the database has a random id, and its objects are in the folder of that name. So two
  installations with one URL never list or delete the objects of each other.
- Checked contents: the name of an object begins with the SHA-256 of its content, which is compared after each download.
- Asked twice: a job that lacks an object fails. So what is missing or damaged is read once more, a moment later.
- Daemon threads: a call that never ends keeps neither its caller nor the end of the process waiting.
- Refused at once: after an upload that failed, new contents are refused without another attempt, until a probe has
  written, read and deleted an object. After an upload or a download without an answer, downloads are refused too.
- One object alone: a download that is refused may be the fault of that object. So it refuses nothing else, and a probe
  finds out whether the place works. The same holds for lists and deletions, however long they take, and for large
  objects that are not there in time.
- Two sentences: users read what to do. Which place it is and what its store said is for administrators, in the log and
  in the health of the service.

See docs/decisions/0375-keep-large-contents-at-a-url-and-their-names-in-the-database.md.
"""

import hashlib
import logging
import re
import secrets
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from concurrent.futures import ALL_COMPLETED, FIRST_EXCEPTION, Future, wait
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import TypeVar

from jupyter_gq.domain.errors import ContentsUnavailable, NotFound
from jupyter_gq.store.outside import OutsideContent

from .place import Place, describe_store_error, open_place

log = logging.getLogger(__name__)

#: Seconds that the uploads or downloads of one request may take: less than a runner waits for an answer.
TIMEOUT = 15.0
#: Seconds that a list of all objects, or the deletion of many, may take.
LONG_TIMEOUT = 300.0
#: Seconds between two probes after a failure.
PROBE_EVERY = 10.0
#: Seconds after which an object that is missing or damaged is read once more.
LOOK_AGAIN = 1.0
#: Bytes of an object that may take longer than `TIMEOUT` at a place that works.
_LARGE = 1024 * 1024
#: Threads of one call, and of all calls together.
_THREADS, _MOST_THREADS = 8, 80
_NAME = re.compile(r"[0-9a-f]{64}-[0-9a-f]{16}")
#: Name of the object that says which database has used the folder last.
_OWNER = "owner"
_PROBE = b"jupyter-gq writes, reads and deletes this object"
_CANNOT_BE_USED = (
    "The place where the service keeps large files of jobs cannot be used now. What runs goes on. Try again in a few "
    "minutes, or tell your administrator: the service's log says why."
)
_GONE = (
    "A content of this job is gone from the place where the service keeps large files. Send the cell again, or ask "
    "your administrator."
)
_DAMAGED = (
    "A content of this job is damaged in the place where the service keeps large files. Send the cell again, or ask "
    "your administrator."
)

_Argument = TypeVar("_Argument")
_Result = TypeVar("_Result")


class _Failure(Exception):
    """A call at the place failed; the text says why, in the middle of a sentence."""


class _NoAnswer(_Failure):
    """A call at the place did not end in time."""


class ContentsAtUrl:
    """The contents of one installation at a URL."""

    def __init__(
        self,
        place: Place,
        installation: str,
        *,
        timeout: float = TIMEOUT,
        long_timeout: float = LONG_TIMEOUT,
        probe_every: float = PROBE_EVERY,
        look_again: float = LOOK_AGAIN,
    ) -> None:
        """Use the folder `installation` of a place; the other arguments are in seconds."""
        self._fs, self._shown = place.fs, place.shown
        self._folder = f"{place.root}/{installation}".rstrip("/")
        #: One name for all probes: a place that writes and never deletes is not filled with them.
        self._probe_name = _make_name(_PROBE)
        self._timeout, self._long_timeout, self._probe_every = timeout, long_timeout, probe_every
        self._look_again = look_again
        self._slots = threading.BoundedSemaphore(_MOST_THREADS)
        self._closed = threading.Event()
        self._state = threading.Lock()
        #: Why nothing can be stored; "" = nothing is known to be wrong.
        self._trouble = ""
        #: Why the service itself wants to store nothing; "" = it may.
        self._refused = ""
        #: The failure was a missing answer, so the next call would wait in vain too.
        self._silent = False
        #: Names of objects that were missing or damaged when they were last looked for.
        self._lost: set[str] = set()
        #: A probe finds out whether the place works, or did so just now.
        self._checks = False

    @property
    def trouble(self) -> str:
        """Why no content can be stored now; see `Contents.trouble`."""
        return self._refused or self._trouble

    @property
    def lost(self) -> frozenset[str]:
        """The names of missing and damaged objects; see `Contents.lost`."""
        return frozenset(self._lost)

    def note_lost(self, names: Collection[str]) -> None:
        """Add names of missing objects to `lost`."""
        self._lost.update(names)

    def start(self) -> None:
        """Write, read and delete an object, which takes at most some seconds. A failure is logged, and raises no error.

        After a failure, a thread probes the place again and again until it works or `close` is called.
        """
        with suppress(ContentsUnavailable):
            self._probe()

    def check(self) -> str:
        """Write, read and delete an object, and make no folder; return why that fails, as a phrase, or ""."""
        try:
            self._use_once()
        except _Failure as error:
            return str(error)
        return ""

    def close(self) -> None:
        """End the probes."""
        self._closed.set()

    def put(self, contents: Sequence[bytes]) -> Sequence[OutsideContent]:
        """Store contents as new objects; see `Contents.put`."""
        if self.trouble:
            raise ContentsUnavailable(_CANNOT_BE_USED)
        try:
            names = self._each(self._put_one, contents, self._timeout)
        except _Failure as error:
            if isinstance(error, _NoAnswer) and _may_be_slow(map(len, contents)):
                raise self._refuse("store a large object", error) from error
            raise self._close(error) from error
        return [OutsideContent(name=name, size=len(each)) for name, each in zip(names, contents, strict=True)]

    def get(self, contents: Sequence[OutsideContent]) -> Sequence[bytes]:
        """Return contents in order; see `Contents.get`."""
        if self._silent:
            raise ContentsUnavailable(_CANNOT_BE_USED)
        try:
            return self._each(self._get_one, [each.name for each in contents], self._timeout)
        except _Failure as error:
            if isinstance(error, _NoAnswer) and not _may_be_slow(each.size for each in contents):
                raise self._close(error) from error
            raise self._refuse("read an object", error) from error

    def delete(self, names: Collection[str]) -> None:
        """Delete objects; see `Contents.delete`."""
        try:
            self._each(self._delete_one, sorted(names), self._long_timeout, ALL_COMPLETED)
        except _Failure as error:
            raise self._refuse("delete objects", error) from error

    def discard(self, names: Collection[str]) -> None:
        """Begin to delete objects that nothing names, without waiting; see `Contents.discard`."""
        self._begin(self._delete_one, sorted(names))

    def owner(self) -> str:
        """Return what `set_owner` wrote last, and "" if there is nothing; see `Contents.owner`."""
        try:
            (found,) = self._each(self._get_owner, [f"{self._folder}/{_OWNER}"], self._timeout)
        except _Failure as error:
            raise self._refuse("read an object", error) from error
        return found

    def set_owner(self, owner: str) -> None:
        """Write which database uses these objects; see `Contents.set_owner`."""
        try:
            self._each(
                lambda text: self._fs.pipe_file(f"{self._folder}/{_OWNER}", text), [owner.encode()], self._timeout
            )
        except _Failure as error:
            raise self._refuse("store an object", error) from error

    def refuse(self, why: str) -> None:
        """Refuse new contents, or no more; see `Contents.refuse`."""
        self._refused = why

    @property
    def owner_place(self) -> str:
        """The address of the object of `owner`, for administrators."""
        return f"{self._shown.rstrip('/')}/{self._folder.rpartition('/')[2]}/{_OWNER}"

    def names(self) -> frozenset[str]:
        """Return the names of all objects of this installation; files of others in the folder are left out."""
        try:
            (listed,) = self._each(self._list, [self._folder], self._long_timeout)
        except _Failure as error:
            raise self._refuse("list the objects", error) from error
        found = (path.rstrip("/").rpartition("/")[2] for path in listed)
        return frozenset(name for name in found if _NAME.fullmatch(name))

    def _put_one(self, content: bytes) -> str:
        name = _make_name(content)
        self._fs.pipe_file(f"{self._folder}/{name}", content)
        return name

    def _get_one(self, name: str) -> bytes:
        """Return the content of an object; look once more if it is missing or damaged. Raises `NotFound`."""
        content = self._read(name)
        if content is None or not _is_whole(content, name):
            self._closed.wait(self._look_again)
            content = self._read(name)
        if content is not None and _is_whole(content, name):
            self._lost.discard(name)
            return content
        self._lost.add(name)
        log.error("the object %s at %s is %s", name, self._shown, "missing" if content is None else "damaged")
        raise NotFound(_GONE if content is None else _DAMAGED)

    def _read(self, name: str) -> bytes | None:
        try:
            return self._fs.cat_file(f"{self._folder}/{name}")
        except FileNotFoundError:
            return None

    def _delete_one(self, name: str) -> None:
        with suppress(FileNotFoundError):
            self._fs.rm_file(f"{self._folder}/{name}")

    def _list(self, folder: str) -> list[str]:
        self._fs.invalidate_cache()
        try:
            return [str(path) for path in self._fs.ls(folder, detail=False)]
        except FileNotFoundError:
            return []

    def _get_owner(self, path: str) -> str:
        try:
            return self._fs.cat_file(path).decode(errors="replace")
        except FileNotFoundError:
            return ""

    def _probe(self) -> None:
        """Write, read and delete an object, and end the trouble; raise `ContentsUnavailable` if that fails."""
        try:
            # Object stores have no folders, and perhaps no permission to make any: the upload shows an error. What is
            # above the folder is not made, for a mistake in the URL must not make a bucket, or fill a disk that is not
            # mounted.
            self._each(self._make_folder, [self._folder], self._timeout)
            self._use_once()
        except _Failure as error:
            raise self._close(error) from error
        with self._state:
            ended, self._trouble, self._silent = bool(self._trouble), "", False
        if ended:
            log.info("%s can be used again", self._shown)

    def _use_once(self) -> None:
        """Write, read and delete an object; raise `_Failure` if that fails."""
        path = f"{self._folder}/{self._probe_name}"
        self._each(lambda place: self._fs.pipe_file(place, _PROBE), [path], self._timeout)
        (found,) = self._each(self._fs.cat_file, [path], self._timeout)
        if found != _PROBE:
            raise _Failure("what was read is not what was written")
        self._each(self._delete_one, [self._probe_name], self._timeout)

    def _make_folder(self, folder: str) -> None:
        with suppress(OSError, NotImplementedError):
            self._fs.mkdir(folder, create_parents=False)

    def _each(
        self,
        function: Callable[[_Argument], _Result],
        arguments: Sequence[_Argument],
        timeout: float,
        until: str = FIRST_EXCEPTION,
    ) -> list[_Result]:
        """Call a function with each argument in several threads, and return the results in order.

        Raises `_Failure` if a call fails, `_NoAnswer` if not all end within `timeout` seconds, and `NotFound` as it is.
        With `ALL_COMPLETED`, the other calls are carried out after a failure too.
        """
        futures = self._begin(function, arguments)
        done, left = wait(futures, timeout, until)
        for future in left:
            future.cancel()
        failure = next((error for future in done if (error := future.exception()) is not None), None)
        if isinstance(failure, NotFound):
            raise failure
        if failure is not None:
            raise _Failure(describe_store_error(failure)) from failure
        if left:
            raise _NoAnswer(f"no answer within {timeout:.0f} s")
        return [future.result() for future in futures]

    def _begin(self, function: Callable[[_Argument], _Result], arguments: Sequence[_Argument]) -> list[Future[_Result]]:
        """Begin to call a function with each argument in several threads; return the futures of the results."""
        calls: SimpleQueue[tuple[Future[_Result], _Argument]] = SimpleQueue()
        futures: list[Future[_Result]] = [Future() for _ in arguments]
        for call in zip(futures, arguments, strict=True):
            calls.put(call)
        for _ in range(min(_THREADS, len(futures))):
            if self._slots.acquire(blocking=False):
                work_off = threading.Thread(
                    target=self._work_off, args=(function, calls), name="contents at a URL", daemon=True
                )
                work_off.start()
        return futures

    def _work_off(
        self, function: Callable[[_Argument], _Result], calls: "SimpleQueue[tuple[Future[_Result], _Argument]]"
    ) -> None:
        """Carry out calls until none is left, and give the slot of this thread back."""
        try:
            while True:
                future, argument = calls.get_nowait()
                if not future.set_running_or_notify_cancel():
                    continue
                try:
                    future.set_result(function(argument))
                except Exception as error:  # noqa: BLE001 - each kind of store has its own errors; the caller gets them
                    future.set_exception(error)
        except Empty:
            pass
        finally:
            self._slots.release()

    def _refuse(self, what: str, failure: "_Failure") -> ContentsUnavailable:
        """Log a failure that may concern some objects only, begin a probe, and return the error."""
        log.warning("could not %s at %s: %s", what, self._shown, failure)
        with self._state:
            begins, self._checks = not self._checks and not self._trouble, True
        if begins:
            threading.Thread(target=self._check, name="check of a URL", daemon=True).start()
        return ContentsUnavailable(
            f"The place where the service keeps large files of jobs could not {what} now. Try again in a few minutes, "
            "or tell your administrator: the service's log says why."
        )

    def _check(self) -> None:
        """Probe once, and let no other check begin for a while."""
        with suppress(ContentsUnavailable):
            self._probe()
        self._closed.wait(self._probe_every)
        self._checks = False

    def _close(self, failure: "_Failure") -> ContentsUnavailable:
        """Refuse new contents from now on, begin the probes if they do not run, and return the error."""
        trouble = (
            f"{self._shown}, where the service keeps large files of jobs, cannot be used now ({failure}). Jobs with "
            "large files are refused meanwhile. Check the store and the credentials of the service; it tries again "
            f"every {self._probe_every:.0f} s."
        )
        silent = isinstance(failure, _NoAnswer)
        with self._state:
            begins, self._trouble, self._silent = not self._trouble, trouble, self._silent or silent
        if begins:
            log.error("%s", trouble)
            threading.Thread(target=self._probe_until_usable, name="probe of a URL", daemon=True).start()
        return ContentsUnavailable(_CANNOT_BE_USED)

    def _probe_until_usable(self) -> None:
        while not self._closed.wait(self._probe_every):
            try:
                self._probe()
            except ContentsUnavailable:
                continue
            return


def _may_be_slow(sizes: Iterable[int]) -> bool:
    """Return whether a transfer of objects of these sizes may take too long at a place that works."""
    return max(sizes, default=0) > _LARGE


def _is_whole(content: bytes, name: str) -> bool:
    """Return whether this is the content of the object with this name."""
    return hashlib.sha256(content).hexdigest() == name.partition("-")[0]


def _make_name(content: bytes) -> str:
    """Return a new name for an object with this content."""
    return f"{hashlib.sha256(content).hexdigest()}-{secrets.token_hex(8)}"


def try_url(url: str) -> str:
    """Write, read and delete an object directly at a URL; return why that fails, as a phrase, and "" if it does not.

    Raises `AdminError` as `open_place` does.
    """
    return ContentsAtUrl(open_place(url), "").check()
