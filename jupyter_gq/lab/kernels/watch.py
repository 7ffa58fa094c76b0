"""The watch over the kernels of this server: subscriptions to IOPub, which cannot delay a kernel.

A kernel that was never heard since its start is asked. A kernel says "starting" once, mostly before a subscription is
established, and without a connected page nothing follows. Then the kernel's state would stay unknown
for ever. One question at a time waits until the kernel serves it.
See docs/decisions/0021-ask-kernels-that-were-never-heard.md.

jupyter_server's own `execution_state` and `last_activity` are not enough: they change with requests that are no use of
a kernel (completion, inspection), and the idle of one (sub)shell hides a cell that still runs in another.
"""

import asyncio
import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from logging import Logger
from typing import cast

from jupyter_client.session import Session
from zmq.eventloop.zmqstream import ZMQStream

from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.lab.clock import JumpMeter, now
from jupyter_gq.lab.jupyter_parts import EventBus, Kernels

from .history import NEEDED_MESSAGES, USAGE_ERROR, KernelHistory, KernelRecord

KERNEL_ACTIONS = "https://events.jupyter.org/jupyter_server/kernel_actions/v1"
#: Pause in seconds and number of attempts until a new kernel is listed: its start is announced a moment before.
LISTED_AFTER, LISTED_TRIES = 0.05, 200
#: Indexes in a message after its routing identities: signature, header, parent, metadata, content.
HEADER, CONTENT = 1, 4


@dataclass(frozen=True, kw_only=True, slots=True)
class KernelState:
    """The present state of one kernel."""

    id: str
    #: Name of the kernelspec.
    name: str = ""
    #: Whether code runs; None if unknown (the kernel starts, or is dead).
    busy: bool | None
    #: End of the last use, or start of the kernel, in seconds since the epoch.
    last_active: float
    #: Whether a request has been open for so long that, if the share is lent, it probably waits for it.
    needs_share: bool = False


@dataclass(frozen=True, slots=True)
class _WatchedKernel:
    """A kernel with its subscription; the stream is None if the kernel's manager cannot provide one."""

    record: KernelRecord
    stream: ZMQStream | None = None
    session: Session | None = None


class KernelWatch:
    """The records of all kernels of this server, each from the kernel's start to its end."""

    def __init__(self, kernels: Kernels, events: EventBus, log: Logger, jumps: JumpMeter | None = None) -> None:
        self._kernels, self._events, self.log = kernels, events, log
        self._jumps = jumps or JumpMeter()
        self._watched: dict[str, _WatchedKernel] = {}
        #: Connections on which a question waits for its reply, by kernel.
        self._questions: dict[str, ZMQStream] = {}
        self._waiting: set[asyncio.Task[None]] = set()

    def start(self) -> None:
        """Start listening to the running kernels and to all that start later."""
        self._events.add_listener(schema_id=KERNEL_ACTIONS, listener=self._on_kernel_action)
        self.sync()

    def close(self) -> None:
        """Stop listening to kernels and close all connections to them."""
        self._events.remove_listener(listener=self._on_kernel_action)
        for task in self._waiting:
            task.cancel()
        for kernel_id in list(self._watched):
            self._forget(kernel_id)

    def sync(self) -> None:
        """Start listening to kernels that are new on this server, and forget kernels that are gone."""
        alive = set(self._kernels.list_kernel_ids())
        for kernel_id in self._watched.keys() - alive:
            self._forget(kernel_id)
        for kernel_id in alive - self._watched.keys():
            self._listen(kernel_id, KernelRecord(now()))

    def get_history(self, kernel_id: str) -> KernelHistory | None:
        """Return the executions in the kernel's present session; None if the kernel does not exist."""
        self.sync()
        watched = self._watched.get(kernel_id)
        if watched is None:
            return None
        history = watched.record.history
        return replace(history, complete=history.complete and watched.stream is not None)

    def note_cells(self, kernel_id: str, cells: Iterable[tuple[str, str]]) -> bool:
        """Record the id and the code of each cell that a page hands to a kernel; return whether the kernel exists."""
        self.sync()
        watched = self._watched.get(kernel_id)
        if watched is None:
            return False
        for cell_id, code in cells:
            watched.record.note_cell(cell_id, code)
        return True

    def get_activity(self) -> list[KernelState]:
        """Return the state of every kernel; also send a question to each kernel that was never heard.

        A later call then knows the state of that kernel.
        """
        self.sync()
        self._follow_clock()
        for kernel_id, watched in self._watched.items():
            if not watched.record.is_known:
                self._send_question(kernel_id, watched)
        return [self._state_of(kernel_id, watched) for kernel_id, watched in self._watched.items()]

    def _state_of(self, kernel_id: str, watched: _WatchedKernel) -> KernelState:
        """Return the present state of a watched kernel."""
        manager = self._kernels.get_kernel(kernel_id)
        return KernelState(
            id=kernel_id,
            name=getattr(manager, "kernel_name", "") or "",
            busy=_is_busy(watched.record, getattr(manager, "execution_state", None), now()),
            last_active=watched.record.last_active,
            needs_share=watched.record.needs_share(now()),
        )

    async def _on_kernel_action(self, logger: object, schema_id: str, data: JsonMapping) -> None:
        """Begin a new history for a kernel that jupyter_server has started or restarted, and listen to it.

        Other actions and failed ones are ignored.
        """
        kernel_id = data.get("kernel_id")
        if data.get("status") != "success" or not kernel_id or data.get("action") not in {"start", "restart"}:
            return
        watched = self._watched.get(kernel_id)
        if watched is not None:
            watched.record.note_restart(now())
            self._listen(kernel_id, watched.record)
        else:
            task = asyncio.create_task(self._listen_when_listed(kernel_id))
            self._waiting.add(task)
            task.add_done_callback(self._waiting.discard)

    async def _listen_when_listed(self, kernel_id: str) -> None:
        """Wait up to 10 s until jupyter_server lists a new kernel, then start listening to it."""
        for _ in range(LISTED_TRIES):
            found = self._watched.get(kernel_id)
            if found is not None:
                found.record.note_start()
                return
            if kernel_id in self._kernels.list_kernel_ids():
                self._listen(kernel_id, KernelRecord(now(), from_start=True))
                return
            await asyncio.sleep(LISTED_AFTER)

    def _listen(self, kernel_id: str, record: KernelRecord) -> None:
        """Subscribe to a kernel and apply its messages to `record`; a kernel without sockets keeps an empty record.

        An earlier subscription to this kernel is closed.
        """
        self._forget(kernel_id)
        manager = self._kernels.get_kernel(kernel_id)
        try:
            stream = manager.connect_iopub()
            session = Session(config=manager.session.config, key=manager.session.key)
        except (AttributeError, TypeError, OSError) as error:
            # Kernels behind a gateway have no sockets here; jupyter_server's execution state is used instead.
            self.log.info("kernel %s cannot be watched (%s), so it has no run history", kernel_id, error)
            self._watched[kernel_id] = _WatchedKernel(record)
        else:
            stream.on_recv(lambda parts: self._hear(record, session, parts))
            self._watched[kernel_id] = _WatchedKernel(record, stream, session)

    def _hear(self, record: KernelRecord, session: Session, parts: list[bytes]) -> None:
        """Apply a published message to `record`, after a jump of the clock was applied to all records."""
        self._follow_clock()
        _apply_message(record, session, parts, self.log)

    def _follow_clock(self) -> None:
        """Move the times of all records if the wall clock was set, so that no kernel seems used later or longer ago.

        The service moves what it has stored in the same way.
        See docs/decisions/0484-move-the-times-of-kernels-with-the-clock-of-their-server.md.
        """
        jump = self._jumps.measure()
        if jump:
            self.log.info("the clock was set by %+.0f s, or the machine slept: the last use of each kernel moves", jump)
            for watched in self._watched.values():
                watched.record.move(jump, now())

    def _send_question(self, kernel_id: str, watched: _WatchedKernel) -> None:
        """Send a `kernel_info_request` to the kernel, unless an earlier one waits for its reply.

        The request shows on IOPub too, which proves that the subscription works and that the kernel is idle.
        """
        if watched.session is None or kernel_id in self._questions:
            return
        connection = self._kernels.get_kernel(kernel_id).connect_shell()
        self._questions[kernel_id] = connection
        # The question is over, even if its answer was not heard on IOPub; then `get_activity` asks again.
        connection.on_recv(lambda _: self._close_question(kernel_id))
        question = watched.session.msg("kernel_info_request")
        watched.record.note_question(question["header"]["msg_id"])
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


def _is_busy(record: KernelRecord, state: str | None, at: float) -> bool | None:
    """Return whether code runs in the kernel at `at`; None if unknown, as it starts, is dead or was never heard.

    `state` is jupyter_server's own view, which is used for a kernel that was never heard.
    """
    if record.is_busy(at):
        return True
    if record.is_known:
        return False
    return {"busy": True, "idle": False}.get(state or "")


def _apply_message(record: KernelRecord, session: Session, parts: list[bytes], log: Logger) -> None:
    """Decode a published message and apply it to `record` if its type matters; log a message that cannot be read.

    Most messages (streams, displays) are not decoded.
    """
    try:
        _, rest = session.feed_identities(parts)
        sent = list(cast(list[bytes], rest))
        kind = json.loads(sent[HEADER])["msg_type"]
        if kind in NEEDED_MESSAGES or (kind == "stream" and USAGE_ERROR.encode() in sent[CONTENT]):
            record.apply(session.deserialize(sent))
    except (ValueError, KeyError, TypeError, IndexError) as error:
        log.warning("a message of a kernel could not be read: %s", error)
