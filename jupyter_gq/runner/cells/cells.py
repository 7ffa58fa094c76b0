"""Execution of cells in a kernel through nbclient; their outputs go to the recorder instead of into the notebook."""

import asyncio
import logging
from collections.abc import Callable
from typing import cast

from jupyter_client.asynchronous.client import AsyncKernelClient
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode, from_dict

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.output.cell_output import CellOutput
from jupyter_gq.runner.output.recorder import Recorder

from .exits import EXIT_STATUS_EXPRESSION, Exit, find_last_command, read_exit, read_exit_status
from .kernel import KernelProcess

#: Seconds to wait for outputs that are still missing when the kernel says that a cell ended.
LATE_OUTPUT_TIMEOUT = 60
#: Seconds to wait until an idle kernel tells the exit status of the last command.
LAST_STATUS_TIMEOUT = 10


class CellFailed(UserError):
    """An exception that the user's code raised."""

    def __init__(self, ename: str, evalue: str) -> None:
        super().__init__(f"{ename}: {evalue}")
        self.ename, self.evalue = ename, evalue


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


class CellClient(NotebookClient):
    """A client that executes single cells in a kernel that is already connected."""

    def __init__(
        self, notebook: JsonObject, kernel: KernelProcess, recorder: Recorder, changed: Callable[[], None]
    ) -> None:
        """Prepare a client for the cells of `notebook`; `changed` is called after each message that changes outputs."""
        super().__init__(
            from_dict(notebook),  # type: ignore[no-untyped-call]
            timeout=None,
            iopub_timeout=LATE_OUTPUT_TIMEOUT,
            record_timing=False,
            coalesce_streams=False,
            store_widget_state=False,
        )
        self.log.setLevel(logging.ERROR)
        self._kernel, self._recorder, self._changed = kernel, recorder, changed
        self._showing: CellOutput | None = None

    async def run_cell(self, cell: CellToRun) -> int | None:
        """Run one cell to its end; return its execution count, None if the kernel gave none.

        Raises `CellFailed` if the code raises, `CellExited` if it ends the job, and `KernelDied` if the kernel ends.
        """
        node = self.nb.cells[cell.index]
        self._showing = self._recorder.cell_output(cell.id, cell.role)
        try:
            await self.async_execute_cell(node, cell.index)
        except CellExecutionError as error:
            raise CellFailed(str(error.ename), str(error.evalue)) from None
        except DeadKernelError:
            raise KernelDied from None
        self._send_captured_outputs()
        return self.execution_count(cell)

    async def check_last_command(self, cell: CellToRun) -> None:
        """Raise `CommandFailed` if the cell, which has just run, ended with a shell command that failed."""
        command = find_last_command(self.nb.cells[cell.index]["source"])
        if command is None:
            return
        kernel = cast(AsyncKernelClient, self.kc)
        asked = {"status": EXIT_STATUS_EXPRESSION}
        request = kernel.execute("", silent=True, store_history=False, user_expressions=asked)
        try:
            async with asyncio.timeout(LAST_STATUS_TIMEOUT):
                reply = await kernel.get_shell_msg()
                while reply["parent_header"].get("msg_id") != request:
                    reply = await kernel.get_shell_msg()
        except TimeoutError:
            return
        status = read_exit_status(reply["content"], "status")
        if status:
            raise CommandFailed(command, status)

    def execution_count(self, cell: CellToRun) -> int | None:
        """Return the kernel's execution count of the cell; None if the cell has not run or the kernel gave none."""
        count = self.nb.cells[cell.index].get("execution_count")
        return count if isinstance(count, int) and 0 <= count < 2**63 else None

    # The following methods override nbclient where it would put outputs into the notebook.

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
        end = read_exit(exec_reply["content"]) if exec_reply is not None else None
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
