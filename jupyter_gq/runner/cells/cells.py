"""Execution of cells in a kernel through nbclient; their outputs go to the recorder instead of into the notebook."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from queue import Empty
from typing import cast

from jupyter_client.asynchronous.client import AsyncKernelClient
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionComplete, CellExecutionError, DeadKernelError
from nbformat import NotebookNode, from_dict

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.client.environment.kernel import LAST_STATEMENT, make_watch_code
from jupyter_gq.client.outputs.fold import make_notice
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonMapping, JsonObject
from jupyter_gq.runner.clock import monotonic
from jupyter_gq.runner.output.cell_output import CellOutput
from jupyter_gq.runner.output.messages import read_content
from jupyter_gq.runner.output.recorder import Recorder

from .exits import Exit, LastThing, read_error_exit, read_exit, read_last_thing
from .kernel import KernelProcess

log = logging.getLogger(__name__)

#: Seconds for which nbclient listens for outputs after the reply of the kernel; later ones are taken here.
REPLY_TIMEOUT = 1
#: Seconds to wait, in all, for outputs that are still missing after that. Messages that are there do not wait.
LATE_OUTPUT_TIMEOUT = 60.0
#: Seconds between two looks whether the kernel that is waited for still lives.
_LIFE_INTERVAL = 1.0
#: Number of looks after which an idle kernel without a reply will give none. Looks and not seconds, since a job that is
#: suspended has none.
_REPLY_LOOKS = 10
LATE_OUTPUT_LOST = "Output at the end of this cell may be missing here: the kernel did not say that it sent all of it."
#: Types of messages that add an output.
_OUTPUTS = frozenset({"stream", "display_data", "execute_result", "error"})
#: Name of the exception in a reply of IPython that says "error" and has none.
_NO_ERROR = "NoneType"
#: Seconds to wait until an idle kernel tells what ran last.
LAST_STATEMENT_TIMEOUT = 10


class CellFailed(UserError):
    """An exception that the user's code raised, or with `by_value` a value of its cell when it was shown."""

    def __init__(self, ename: str, evalue: str, *, by_value: bool = False) -> None:
        super().__init__(f"{ename}: {evalue}")
        self.ename, self.evalue, self.by_value = ename, evalue, by_value


def _read_failure(content: JsonMapping, *, by_value: bool = False) -> CellFailed:
    """Return the failure that the content of an error output describes."""
    return CellFailed(str(content.get("ename")), str(content.get("evalue")), by_value=by_value)


class CellExited(UserError):
    """A job that its own code ended, with `exit(...)` or `SystemExit`."""

    def __init__(self, end: Exit) -> None:
        super().__init__(f"exit({end.argument})")
        self.end = end


class CommandFailed(UserError):
    """A shell command at the end of a cell that reported a failure."""

    def __init__(self, command: str, status: int) -> None:
        super().__init__(f"{command} ended with exit status {status}")
        self.command, self.status = command, status


class KernelDied(UserError):
    """A kernel that ended while a cell ran."""


class KernelGaveNoReply(UserError):
    """A kernel that gave a cell up without a reply, as ipykernel does with one that is too deep for the compiler."""


class CellClient(NotebookClient):
    """A client that executes single cells in a kernel that is already connected."""

    def __init__(
        self, notebook: JsonObject, kernel: KernelProcess, recorder: Recorder, changed: Callable[[], None]
    ) -> None:
        """Prepare a client for the cells of `notebook`; `changed` is called after each message that changes outputs."""
        super().__init__(
            from_dict(notebook),  # type: ignore[no-untyped-call]
            timeout=None,
            iopub_timeout=REPLY_TIMEOUT,
            record_timing=False,
            coalesce_streams=False,
            store_widget_state=False,
        )
        self.log.setLevel(logging.ERROR)
        self._kernel, self._recorder, self._changed = kernel, recorder, changed
        self._showing: CellOutput | None = None
        #: The last error that the running cell has shown, outside of widgets.
        self._shown_error: JsonObject | None = None
        #: Whether the kernel said that it has sent all outputs of the running cell.
        self._has_all_output = False
        #: How often the kernel was looked at since then, while its reply is still missing.
        self._looks_for_reply = 0
        #: Id of the request that the kernel executes, and the outputs of the cell of each request so far.
        self._request = ""
        self._shown_of: dict[str, CellOutput] = {}

    async def run_cell(self, cell: CellToRun) -> int | None:
        """Run one cell to its end; return its execution count, None if the kernel gave none.

        Raises `CellFailed` if the code raises, and `CellExited` if the code ends the job, unless the cell `may_raise`.
        Raises `KernelDied` if the kernel ends, and `KernelGaveNoReply` if the kernel is idle again and says nothing
        about the cell.
        """
        node = self.nb.cells[cell.index]
        self._showing = self._recorder.cell_output(cell.id, cell.role)
        self._has_all_output, self._looks_for_reply, self._shown_error = False, 0, None
        try:
            await self.async_execute_cell(node, cell.index)
        except CellExecutionError as error:
            raise self._make_failure(str(error.ename), str(error.evalue)) from None
        except DeadKernelError:
            if self._has_waited_enough():
                raise KernelGaveNoReply from None
            await self._take_last_words(node, cell.index)
            raise KernelDied from None
        self._send_captured_outputs()
        return self.execution_count(cell)

    def may_raise(self, cell: CellToRun) -> bool:
        """Return whether a tag of the cell says that its error stops nothing: `run_cell` raises no `CellFailed`."""
        return "raises-exception" in self.nb.cells[cell.index].metadata.get("tags", [])

    def watch_end(self) -> None:
        """Let the kernel watch what the last thing is that runs in the next cell; for Python kernels."""
        cast(AsyncKernelClient, self.kc).execute(
            make_watch_code(), silent=True, store_history=False, stop_on_error=False
        )

    async def check_end(self) -> None:
        """Raise an error if the last thing that ran in the watched cell failed without an error of the cell.

        Raises `CommandFailed` if that was a shell command, and `CellFailed` or `CellExited` if a magic has shown the
        error of the code that it ran. See docs/decisions/0280-let-a-magic-that-shows-an-error-fail-its-cell.md and
        docs/decisions/0295-judge-the-end-of-a-job-by-what-ran-last.md. A kernel that does not answer in time counts as
        success.
        """
        last = await self._ask_last_thing()
        if last.has_shown_error and self._shown_error is not None:
            end = read_error_exit(self._shown_error)
            if end is not None:
                raise CellExited(end)
            raise _read_failure(self._shown_error)
        if last.kind == "command" and last.status:
            raise CommandFailed(last.text, last.status)

    def _make_failure(self, ename: str, evalue: str) -> CellFailed:
        """Return the failure of the running cell, whose reply has this error.

        The reply of IPython has no error if a value of the cell cannot be shown: only the outputs have it.
        """
        if ename == _NO_ERROR and self._shown_error is not None:
            return _read_failure(self._shown_error, by_value=True)
        return CellFailed(ename, evalue)

    async def _ask_last_thing(self) -> LastThing:
        """Return what the kernel says ran last; any other code than a command or magic if it does not answer."""
        kernel = cast(AsyncKernelClient, self.kc)
        request = kernel.execute("", silent=True, store_history=False, user_expressions={"last": LAST_STATEMENT})
        try:
            async with asyncio.timeout(LAST_STATEMENT_TIMEOUT):
                reply = await kernel.get_shell_msg()
                while reply["parent_header"].get("msg_id") != request:
                    reply = await kernel.get_shell_msg()
        except TimeoutError:
            return LastThing()
        return read_last_thing(reply["content"], "last")

    def execution_count(self, cell: CellToRun) -> int | None:
        """Return the kernel's execution count of the cell; None if the cell has not run or the kernel gave none."""
        count = self.nb.cells[cell.index].get("execution_count")
        return count if isinstance(count, int) and 0 <= count < 2**63 else None

    async def _take_late_output(self, request: str, cell: NotebookNode, cell_index: int) -> None:
        """Take the messages of a request that are still missing after its reply; show a notice if some do not come.

        The last words of a kernel that has died meanwhile take the place of the notice, if there are any.

        A runner that is slower than the kernel may have many of them before it; nbclient has ceased to listen. Only
        the time without a message counts as waiting.
        """
        waited = 0.0
        while not self._has_all_output:
            began = monotonic()
            try:
                msg = await cast(AsyncKernelClient, self.kc).get_iopub_msg(timeout=_LIFE_INTERVAL)
            except Empty:
                msg = None
            waited += monotonic() - began
            if msg is not None:
                self._take_message(msg, request, cell, cell_index)
            is_dead = msg is None and self._kernel.exit_code is not None
            if is_dead and await self._take_last_words(cell, cell_index):
                return
            if waited >= LATE_OUTPUT_TIMEOUT or is_dead:
                self._show_loss()
                return

    async def _take_last_words(self, cell: NotebookNode, cell_index: int) -> bool:
        """Show what a kernel that has died had sent, and what it and its programs had printed besides.

        Returns whether there was something of the latter.
        """
        with contextlib.suppress(Empty):
            while True:
                msg = await cast(AsyncKernelClient, self.kc).get_iopub_msg(timeout=0)
                self._take_message(msg, self._request, cell, cell_index)
        assert self._showing is not None
        words = self._kernel.last_words.take(self._recorder.longest_secret)
        for name, text in words:
            content = self._recorder.hide({"name": name, "text": text})
            if content is not None:
                self._recorder.append(self._showing, content, "stream", None)
        self._changed()
        return bool(words)

    def _show_loss(self) -> None:
        assert self._showing is not None
        log.warning("The kernel did not say that it sent all output of a cell; some may be lost.")
        self._showing.add(make_notice(LATE_OUTPUT_LOST))
        self._changed()

    def _take_message(self, msg: JsonObject, request: str, cell: NotebookNode, cell_index: int) -> None:
        """Process a message from iopub; the last one that answers the request says that there will be no more."""
        self._kernel.last_words.note_message(msg)
        parent = msg["parent_header"]
        answered = parent.get("msg_id") if isinstance(parent, dict) else None
        if answered == request:
            try:
                self.process_message(msg, cell, cell_index)
            except CellExecutionComplete:
                self._has_all_output = True
        elif answered in self._shown_of:
            self._take_output_of_earlier(msg, self._shown_of[answered])

    def _take_output_of_earlier(self, msg: JsonObject, shown: CellOutput) -> None:
        """Add what a task or thread of an earlier cell prints or displays to the outputs of that cell."""
        kind = str(msg["msg_type"])
        content = self._read_content(msg)
        if content is None:
            return
        display_id = content.get("transient", {}).get("display_id")
        if kind.startswith("comm_"):
            self.handle_comm_msg([], {**msg, "content": content}, 0)
        elif display_id and kind == "update_display_data":
            self._update_display_id(display_id, {**msg, "content": content})
        elif kind in _OUTPUTS:
            self._recorder.append(shown, content, kind, display_id)
            self._changed()

    # The following methods override nbclient where it would put outputs into the notebook.

    async def _async_poll_output_msg(self, parent_msg_id: str, cell: NotebookNode, cell_index: int) -> None:
        assert self._showing is not None
        self._request, self._shown_of[parent_msg_id] = parent_msg_id, self._showing
        while not self._has_all_output:
            msg = await cast(AsyncKernelClient, self.kc).get_iopub_msg(timeout=None)
            self._take_message(msg, parent_msg_id, cell, cell_index)

    def process_message(self, msg: JsonObject, cell: NotebookNode, cell_index: int) -> NotebookNode | None:
        """Process a message of the running cell; ignore one whose content is malformed."""
        content = self._read_content(msg)
        if content is None:
            return None
        return super().process_message({**msg, "msg_type": str(msg["msg_type"]), "content": content}, cell, cell_index)

    def _read_content(self, msg: JsonObject) -> JsonObject | None:
        """Return the content of a message without the values of secrets; None if it is malformed."""
        content = read_content(str(msg["msg_type"]), msg["content"])
        content = None if content is None else self._recorder.hide(content)
        if content is None:
            log.debug("A malformed message of type %s is ignored.", msg["msg_type"])
        return content

    def output(
        self, outs: list[NotebookNode], msg: JsonObject, display_id: str | None, cell_index: int
    ) -> NotebookNode | None:
        """Pass an output to the recorder, for the running cell or the widget that captures it, and return None."""
        widget = self._find_capturing_widget(msg)
        if widget is not None:
            self._recorder.capture(widget, msg["content"], msg["msg_type"], display_id)
            self._changed()
            return None
        assert self._showing is not None
        if msg["msg_type"] == "error":
            self._shown_error = msg["content"]
        if self.clear_before_next_output:
            self._showing.clear()
            self.clear_before_next_output = False
        self._recorder.append(self._showing, msg["content"], msg["msg_type"], display_id)
        self._changed()
        return None

    def clear_output(self, outs: list[NotebookNode], msg: JsonObject, cell_index: int) -> None:
        """Clear the outputs of the running cell or of the capturing widget: now, or before the next output (`wait`)."""
        widget, wait = self._find_capturing_widget(msg), bool(msg["content"].get("wait"))
        if widget is not None:
            self._recorder.clear_captured(widget, wait=wait)
            self._changed()
        elif wait:
            self.clear_before_next_output = True
        else:
            assert self._showing is not None
            self._showing.clear()
            self._changed()

    def handle_comm_msg(self, outs: list[NotebookNode], msg: JsonObject, cell_index: int) -> None:
        """Apply a message that creates, changes or closes a widget to the outputs that show this widget."""
        if self._recorder.apply_comm(msg["msg_type"], msg["content"]):
            self._changed()

    async def _check_raise_for_error(self, cell: NotebookNode, cell_index: int, exec_reply: JsonObject | None) -> None:
        assert exec_reply is not None
        await self._take_late_output(exec_reply["parent_header"]["msg_id"], cell, cell_index)
        end = read_exit(exec_reply["content"])
        if end is not None:
            raise CellExited(end)
        await super()._check_raise_for_error(cell, cell_index, exec_reply)

    def _send_captured_outputs(self) -> None:
        """Send the outputs that Output widgets have captured to the kernel, as a browser would.

        Called only between cells: a message that is sent while a reply is awaited can hide that reply.
        """
        assert self.kc is not None
        for widget, outputs in self._recorder.take_ended_captures():
            data = {"method": "update", "state": {"outputs": outputs}, "buffer_paths": []}
            message = self.kc.session.msg("comm_msg", content={"comm_id": widget, "data": data})
            self.kc.shell_channel.send(message)

    def _find_capturing_widget(self, msg: JsonObject) -> str | None:
        return self._recorder.find_capturing_widget(str(msg["parent_header"].get("msg_id")))

    def _update_display_id(self, display_id: str, msg: JsonObject) -> None:
        self._recorder.update_display(display_id, msg["content"])
        self._changed()

    async def _async_check_alive(self) -> None:
        # nbclient would ask a kernel manager, and there is none; the process itself is known.
        if self._kernel.exit_code is not None:
            raise DeadKernelError("Kernel died")
        self._looks_for_reply += self._has_all_output
        if self._has_waited_enough():
            raise DeadKernelError("Kernel gave no reply")

    def _has_waited_enough(self) -> bool:
        return self._looks_for_reply >= _REPLY_LOOKS
