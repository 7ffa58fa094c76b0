"""Runs cells in a kernel through nbclient; what they show goes to the recorder instead of into the notebook."""

import logging
from collections.abc import Callable
from typing import Any

from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, DeadKernelError
from nbformat import NotebookNode, from_dict

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.runner.output.cell_output import CellOutput
from jupyter_gq.runner.output.recorder import Recorder

from .kernel import KernelProcess

#: Seconds to wait for outputs that are still on their way when the kernel says that a cell ended.
LATE_OUTPUT = 60


class CellFailed(Exception):
    """The user's code raised."""

    def __init__(self, ename: str, evalue: str) -> None:
        super().__init__(f"{ename}: {evalue}")
        self.ename, self.evalue = ename, evalue


class KernelDied(Exception):
    """The kernel ended while a cell ran."""


class CellClient(NotebookClient):
    """Executes single cells in a kernel that is already connected."""

    def __init__(
        self, notebook: dict[str, Any], kernel: KernelProcess, recorder: Recorder, changed: Callable[[], None]
    ) -> None:
        """`changed` is called after each message that changed what a cell shows."""
        super().__init__(
            from_dict(notebook),  # type: ignore[no-untyped-call]
            timeout=None,
            iopub_timeout=LATE_OUTPUT,
            record_timing=False,
            coalesce_streams=False,
            store_widget_state=False,
        )
        self.log.setLevel(logging.ERROR)
        self._kernel, self._recorder, self._changed = kernel, recorder, changed
        self._showing: CellOutput | None = None

    async def run_cell(self, cell: CellToRun) -> int | None:
        """Run one cell to its end; return its execution count. Raises `CellFailed` or `KernelDied`."""
        node = self.nb.cells[cell.index]
        self._showing = self._recorder.cell(cell.id, cell.role)
        try:
            await self.async_execute_cell(node, cell.index)
        except CellExecutionError as error:
            raise CellFailed(str(error.ename), str(error.evalue)) from None
        except DeadKernelError:
            raise KernelDied from None
        return self.execution_count(cell)

    def execution_count(self, cell: CellToRun) -> int | None:
        """As the kernel counts; None when it said none."""
        count = self.nb.cells[cell.index].get("execution_count")
        return count if isinstance(count, int) else None

    # What follows overrides nbclient where it would put outputs into the notebook.

    def output(
        self, outs: list[NotebookNode], msg: dict[str, Any], display_id: str | None, cell_index: int
    ) -> NotebookNode | None:
        """An output arrived for the running cell."""
        if self._is_captured(msg):
            return super().output(outs, msg, display_id, cell_index)
        assert self._showing is not None
        if self.clear_before_next_output:
            self._showing.clear()
            self.clear_before_next_output = False
        self._recorder.append(self._showing, msg["content"], msg["msg_type"], display_id)
        self._changed()
        return None

    def clear_output(self, outs: list[NotebookNode], msg: dict[str, Any], cell_index: int) -> None:
        """`clear_output(wait=...)` of the running cell."""
        if self._is_captured(msg):
            super().clear_output(outs, msg, cell_index)
        elif msg["content"].get("wait"):
            self.clear_before_next_output = True
        else:
            assert self._showing is not None
            self._showing.clear()
            self._changed()

    def handle_comm_msg(self, outs: list[NotebookNode], msg: dict[str, Any], cell_index: int) -> None:
        """A widget was made or changed."""
        super().handle_comm_msg(outs, msg, cell_index)
        if self._recorder.take_comm(msg["content"]):
            self._changed()

    def _is_captured(self, msg: dict[str, Any]) -> bool:
        """An output widget takes it."""
        return bool(self.output_hook_stack[msg["parent_header"].get("msg_id")])

    def _update_display_id(self, display_id: str, msg: dict[str, Any]) -> None:
        self._recorder.update(display_id, msg["content"])
        self._changed()

    async def _async_check_alive(self) -> None:
        # nbclient asks the kernel manager, which we have none of: the process itself is known.
        if self._kernel.exit_code is not None:
            raise DeadKernelError("Kernel died")
