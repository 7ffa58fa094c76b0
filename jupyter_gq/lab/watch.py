"""Listens to the kernels of this server: a subscriber to IOPub sends nothing to a kernel and cannot delay it.

A kernel that was not heard at all since its start is asked: it says "starting" once, mostly before a subscription is
established, and without a page that connects nothing would follow. Its state, and so the use of its share, would stay
unknown for ever. One question waits at a time, until the kernel serves it.

jupyter_server's own `execution_state` and `last_activity` are not enough: they move on requests that are no use of a
kernel (completion, inspection), and a (sub)shell's idle hides a cell that still runs beside it.
"""

import asyncio
import json
from dataclasses import dataclass
from logging import Logger
from typing import cast

from jupyter_client.session import Session
from zmq.eventloop.zmqstream import ZMQStream

from jupyter_gq.domain.json_types import JsonMapping

from .clock import now
from .history import OF_INTEREST, KernelRecord, RanCell
from .jupyter_parts import EventBus, Kernels

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
#: A kernel is announced a moment before the server lists it; look again this often (s) and at most so many times.
LISTED_AFTER, LISTED_TRIES = 0.05, 200
#: Position of the header in a message after its routing identities: signature, header, parent, metadata, content.
HEADER = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelState:
    """What one kernel does now."""

    id: str
    #: Of its kernelspec.
    name: str = ""
    #: None: unknown (it starts, or is dead).
    busy: bool | None
    #: End of its last use, or its start; seconds since the epoch.
    last_active: float


@dataclass(frozen=True, slots=True)
class _Watched:
    """A kernel that we listen to; the stream is None where its manager cannot give one."""

    record: KernelRecord
    stream: ZMQStream | None = None
    session: Session | None = None


class KernelWatch:
    """Keeps a `KernelRecord` for every kernel, from the moment it starts until it is gone."""

    def __init__(self, kernels: Kernels, events: EventBus, log: Logger) -> None:
        self._kernels, self._events, self.log = kernels, events, log
        self._watched: dict[str, _Watched] = {}
        #: Connections on which a question waits for its reply.
        self._questions: dict[str, ZMQStream] = {}
        self._waiting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Listen to the kernels that run and to those that will start."""
        self._events.add_listener(schema_id=KERNEL_ACTIONS, listener=self._kernel_acted)
        self.sync()

    def close(self) -> None:
        """Stop listening."""
        self._events.remove_listener(listener=self._kernel_acted)
        for task in self._waiting:
            task.cancel()
        for kernel_id in list(self._watched):
            self._forget(kernel_id)

    def sync(self) -> None:
        """Begin with kernels that are new, forget those that are gone."""
        alive = set(self._kernels.list_kernel_ids())
        for kernel_id in self._watched.keys() - alive:
            self._forget(kernel_id)
        for kernel_id in alive - self._watched.keys():
            self._listen(kernel_id, KernelRecord(now()))

    def history(self, kernel_id: str) -> tuple[RanCell, ...] | None:
        """What this kernel ran in its present session; None for a kernel that does not exist."""
        self.sync()
        watched = self._watched.get(kernel_id)
        return None if watched is None else watched.record.cells

    def activity(self) -> list[KernelState]:
        """State of every kernel, and when it was last used. Kernels that were never heard are asked, for next time."""
        self.sync()
        for kernel_id, watched in self._watched.items():
            if not watched.record.heard:
                self._ask(kernel_id, watched)
        return [self._state_of(kernel_id, watched) for kernel_id, watched in self._watched.items()]

    def _state_of(self, kernel_id: str, watched: _Watched) -> KernelState:
        manager = self._kernels.get_kernel(kernel_id)
        return KernelState(
            id=kernel_id,
            name=getattr(manager, "kernel_name", "") or "",
            busy=_busy(watched.record, getattr(manager, "execution_state", None)),
            last_active=watched.record.last_active,
        )

    async def _kernel_acted(self, logger: object, schema_id: str, data: JsonMapping) -> None:
        """jupyter_server says that a kernel was started, restarted (also by itself) or shut down."""
        kernel_id = data.get("kernel_id")
        if data.get("status") != "success" or not kernel_id or data.get("action") not in {"start", "restart"}:
            return
        watched = self._watched.get(kernel_id)
        if watched is not None:
            watched.record.restarted(now())
            self._listen(kernel_id, watched.record)
        else:
            task = asyncio.create_task(self._listen_when_listed(kernel_id))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _listen_when_listed(self, kernel_id: str) -> None:
        for _ in range(LISTED_TRIES):
            if kernel_id in self._watched:
                return
            if kernel_id in self._kernels.list_kernel_ids():
                self._listen(kernel_id, KernelRecord(now()))
                return
            await asyncio.sleep(LISTED_AFTER)

    def _listen(self, kernel_id: str, record: KernelRecord) -> None:
        self._forget(kernel_id)
        manager = self._kernels.get_kernel(kernel_id)
        try:
            stream = manager.connect_iopub()
            session = Session(config=manager.session.config, key=manager.session.key)
        except (AttributeError, TypeError, OSError) as error:
            # Kernels behind a gateway have no sockets here: jupyter_server's own execution state must do.
            self.log.info("kernel %s cannot be listened to (%s): no run history for it", kernel_id, error)
            self._watched[kernel_id] = _Watched(record)
        else:
            stream.on_recv(lambda parts: _apply(record, session, parts, self.log))
            self._watched[kernel_id] = _Watched(record, stream, session)

    def _ask(self, kernel_id: str, watched: _Watched) -> None:
        """Send one question, unless one waits; what it tells is heard on IOPub, where it shows that we listen too."""
        if watched.session is None or kernel_id in self._questions:
            return
        connection = self._kernels.get_kernel(kernel_id).connect_shell()
        self._questions[kernel_id] = connection
        # Whether or not the answer was heard on IOPub, this one is over; if it was not, the next look asks again.
        connection.on_recv(lambda _: self._close_question(kernel_id))
        question = watched.session.msg("kernel_info_request")
        watched.record.asked(question["header"]["msg_id"])
        watched.session.send(connection, question)

    def _close_question(self, kernel_id: str) -> None:
        connection = self._questions.pop(kernel_id, None)
        if connection is not None and not connection.closed():
            connection.close()

    def _forget(self, kernel_id: str) -> None:
        self._close_question(kernel_id)
        watched = self._watched.pop(kernel_id, None)
        if watched is not None and watched.stream is not None and not watched.stream.closed():
            watched.stream.close()


def _busy(record: KernelRecord, state: str | None) -> bool | None:
    """True and False are knowledge; a kernel that starts or is dead is unknown."""
    if record.busy:
        return True
    if record.heard:
        return False
    return {"busy": True, "idle": False}.get(state or "")


def _apply(record: KernelRecord, session: Session, parts: list[bytes], log: Logger) -> None:
    """Decode a published message if it matters; most (streams, displays) are known by their header and left alone."""
    try:
        _, rest = session.feed_identities(parts)
        sent = list(cast(list[bytes], rest))
        if json.loads(sent[HEADER])["msg_type"] in OF_INTEREST:
            record.apply(session.deserialize(sent))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        log.warning("a message of a kernel could not be read: %s", error)
