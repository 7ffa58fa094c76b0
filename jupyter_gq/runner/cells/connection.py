"""The connection to a kernel, made as soon as the kernel listens."""

import asyncio
from queue import Empty
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient

from jupyter_gq.runner.problems import KernelError

from .kernel import KernelProcess, death_sentence

#: Messages that may wait here before the kernel drops some: a cell that prints and flushes without end is common.
MESSAGES = 50_000
_LOOK = 0.005


async def connect(kernel: KernelProcess, title: str, seconds: float) -> tuple[AsyncKernelClient, dict[str, Any]]:
    """Connect to a kernel that may still boot; return the client and what the kernel says of its language.

    The kernel answers and its outputs reach us when this returns. Raises `KernelError` with a sentence.
    """
    try:
        async with asyncio.timeout(seconds):
            while not kernel.sockets_exist:
                _still_alive(kernel, title)
                await asyncio.sleep(_LOOK)
            client = _client(kernel)
            return client, await _greet(client, kernel, title)
    except TimeoutError as error:
        raise KernelError(f"The kernel {title!r} did not answer within {seconds:.0f} s of its start.") from error


def _client(kernel: KernelProcess) -> AsyncKernelClient:
    context = zmq.asyncio.Context()
    context.setsockopt(zmq.RCVHWM, MESSAGES)
    context.setsockopt(zmq.RECONNECT_IVL, 10)
    client = AsyncKernelClient(context=context)
    client.load_connection_file(str(kernel.connection_file))
    client.start_channels(stdin=False, hb=False)
    client.allow_stdin = False
    return client


async def _greet(client: AsyncKernelClient, kernel: KernelProcess, title: str) -> dict[str, Any]:
    """Ask until the answer comes on the shell channel and a sign of it on iopub: only then is nothing missed."""
    patience = 0.02
    language: dict[str, Any] | None = None
    while True:
        client.kernel_info()
        while language is None:
            _still_alive(kernel, title)
            try:
                reply = await client.get_shell_msg(timeout=0.25)
            except Empty:
                continue
            if reply["msg_type"] == "kernel_info_reply":
                language = reply["content"].get("language_info", {})
        try:
            await client.get_iopub_msg(timeout=patience)
        except Empty:
            patience = min(1.0, patience * 2)
            _still_alive(kernel, title)
        else:
            return language


def _still_alive(kernel: KernelProcess, title: str) -> None:
    code = kernel.exit_code
    if code is not None:
        raise KernelError(f"The kernel {title!r} did not start: it {death_sentence(code)}. The log has more.")


async def shut_down(kernel: KernelProcess, client: AsyncKernelClient | None, patience: float) -> None:
    """End the kernel in order: ask, wait `patience` seconds, insist, then kill its whole session."""
    if client is not None:
        if kernel.exit_code is None:
            client.shutdown()
            await _wait_gone(kernel, patience)
        client.stop_channels()
        client.context.destroy(linger=0)
    if kernel.exit_code is None:
        kernel.process.terminate()
        await _wait_gone(kernel, min(2.0, patience))
    kernel.discard()


async def _wait_gone(kernel: KernelProcess, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            while kernel.exit_code is None:  # noqa: ASYNC110 - a process has no event to wait for
                await asyncio.sleep(0.02)
    except TimeoutError:
        return
