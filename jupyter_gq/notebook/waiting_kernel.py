"""ipykernel's kernel whose cells wait for the GPU share of the notebook while that share is lent.

Rules
-----
- Cells: only a cell of the user waits. A silent request, or one that is not stored in the history, is a question of a
  page about variables: it runs at once and does not call the share back. If it uses CUDA, the driver holds it until the
  share is back. Completions, inspections and messages of widgets run at once too.
- Never run: a cell whose wait was interrupted or timed out is not run. The error is shown as that of any cell, and the
  cells that were queued behind are dropped, as after any error.
- Trace: the line under the cell goes when the wait ends.
- Interrupts: ipykernel's own way to interrupt `await` is used, which is private. A kernel without that way stays as
  it is (see `kernel_startup`), and the Jupyter server's watch alone calls the share back.

Our start-up file imports this module in the user's environment, which may be of another Python than ours.
See docs/decisions/0123-a-cell-waits-in-the-kernel.md.
"""

from __future__ import annotations

import asyncio
import html
import threading
import uuid
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractContextManager, nullcontext

from ipykernel.ipkernel import IPythonKernel

from .server_socket import server_socket
from .share_wait import GPUWaitTimeout, notice_path, read_notice, wait_for_share

INTERRUPTED = "The cell was not run: you interrupted its wait for the GPU. Run it again to wait for the GPU."

Reply = Mapping[str, object]


class WaitingKernel(IPythonKernel):
    """The kernel of a notebook with a GPU share that may be lent."""

    async def do_execute(
        self,
        code: str,
        silent: bool,
        store_history: bool = True,
        user_expressions: dict[str, str] | None = None,
        allow_stdin: bool = False,
        **options: object,
    ) -> Reply:
        """Run the code as ipykernel does, a cell of the user once the share is there; return the reply.

        The reply is an error if the wait was interrupted or took too long.
        """
        socket = server_socket()
        if socket is not None and store_history and not silent and read_notice(notice_path(socket)) is not None:
            failure = await self._wait(socket)
            if failure is not None:
                return self._refuse(*failure)
        run: Callable[..., Awaitable[Reply]] = super().do_execute
        # `options` are those that this version of ipykernel knows, such as `cell_id`.
        return await run(code, silent, store_history, user_expressions, allow_stdin, **options)

    async def _wait(self, socket: str) -> tuple[str, str] | None:
        """Wait for the share with a line under the cell; return name and text of the error that ended the wait."""
        line = _Line(self)
        waiting = asyncio.ensure_future(wait_for_share(socket, line.show))
        try:
            with self._interrupting(waiting):
                await waiting
        except asyncio.CancelledError:
            return "GPUWaitInterrupted", INTERRUPTED
        except GPUWaitTimeout as error:
            return "GPUWaitTimeout", str(error)
        finally:
            line.remove()
        return None

    def _interrupting(self, waiting: asyncio.Future[None]) -> AbstractContextManager[None]:
        """Return a context in which an interrupt cancels `waiting`; Python delivers signals to the main thread only."""
        if threading.current_thread() is not threading.main_thread():
            return nullcontext()
        context: AbstractContextManager[None] = self._cancel_on_sigint(waiting)
        return context

    def publish(self, kind: str, content: Mapping[str, object]) -> None:
        """Send a message of this type to the pages that show the cell."""
        send: Callable[..., object] = self.send_response
        send(self.iopub_socket, kind, content)

    def _refuse(self, name: str, message: str) -> Reply:
        """Show the error under the cell; return the reply of a cell that was not run."""
        error = {"ename": name, "evalue": message, "traceback": [f"\x1b[0;31m{name}\x1b[0m: {message}"]}
        self.publish("error", error)
        return {
            "status": "error",
            **error,
            "execution_count": self.execution_count,
            "user_expressions": {},
            "payload": [],
        }


class _Line:
    """The line under a cell that waits; its text may change, and it goes at the end."""

    def __init__(self, kernel: WaitingKernel) -> None:
        self._kernel = kernel
        self._id = uuid.uuid4().hex
        self._shown = False

    def show(self, text: str) -> None:
        """Show this text in place of the earlier one."""
        content = {
            # `status` makes screen readers say the line.
            "data": {"text/plain": text, "text/html": f'<div role="status">{html.escape(text)}</div>'},
            "metadata": {},
            "transient": {"display_id": self._id},
        }
        self._kernel.publish("update_display_data" if self._shown else "display_data", content)
        self._shown = True

    def remove(self) -> None:
        """Remove the line; the cell has no other output yet."""
        if self._shown:
            self._kernel.publish("clear_output", {"wait": False})
