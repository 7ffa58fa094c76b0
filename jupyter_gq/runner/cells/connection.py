"""The connection to a kernel, made as soon as the kernel listens."""

import asyncio
import json
from queue import Empty
from typing import cast

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import KernelConnectionInfo

from jupyter_gq.domain import bounded_json, output_bounds
from jupyter_gq.domain.errors import InvalidJson
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.problems import KernelError

from .kernel import KernelProcess

#: Messages that may wait here before the kernel drops some; cells that print and flush endlessly are common.
MESSAGE_LIMIT = 50_000
_POLL_INTERVAL = 0.005
#: Most values and characters of a kernel's description of its language; a usual one has some ten short values.
_MOST_LANGUAGE_VALUES = 1000
_LONGEST_LANGUAGE = 64 * 1024


async def connect(kernel: KernelProcess, name: str, seconds: float) -> tuple[AsyncKernelClient, JsonObject]:
    """Connect to a kernel that may still boot; return the client and the kernel's `language_info`.

    After the return the kernel answers and no output is missed. Raise `KernelError` with a sentence if the kernel ends
    or does not answer within `seconds`; `name` is its name in that sentence.
    """
    try:
        async with asyncio.timeout(seconds):
            while not kernel.sockets_exist:
                _require_alive(kernel, name)
                await asyncio.sleep(_POLL_INTERVAL)
            client = _make_client(kernel)
            return client, await _await_first_reply(client, kernel, name)
    except TimeoutError as error:
        raise KernelError(f"The kernel {name!r} did not answer within {seconds:.0f} s of its start.") from error


def _make_client(kernel: KernelProcess) -> AsyncKernelClient:
    """Return a client that is connected to the kernel's channels, without stdin and heartbeat."""
    context = zmq.asyncio.Context()
    context.setsockopt(zmq.RCVHWM, MESSAGE_LIMIT)
    context.setsockopt(zmq.RECONNECT_IVL, 10)
    client = AsyncKernelClient(context=context)
    # Not from the file: older versions of ipykernel remove it for a moment, to write it again.
    client.load_connection_info(cast(KernelConnectionInfo, dict(kernel.connection)))
    client.start_channels(stdin=False, hb=False)
    client.allow_stdin = False
    return client


async def _await_first_reply(client: AsyncKernelClient, kernel: KernelProcess, name: str) -> JsonObject:
    """Return the `language_info` once the kernel answers on the shell channel and on iopub.

    The subscription to iopub may take effect after the shell channel's: outputs before that would be missed. Raises
    `KernelError` if the kernel ends meanwhile.
    """
    timeout = 0.02
    language: JsonObject | None = None
    while True:
        client.kernel_info()
        while language is None:
            _require_alive(kernel, name)
            try:
                reply = await client.get_shell_msg(timeout=0.25)
            except Empty:
                continue
            if reply["msg_type"] == "kernel_info_reply":
                language = read_language(reply["content"])
        try:
            await client.get_iopub_msg(timeout=timeout)
        except Empty:
            timeout = min(1.0, timeout * 2)
            _require_alive(kernel, name)
        else:
            return language


def read_language(content: JsonObject) -> JsonObject:
    """Return the `language_info` in the content of a kernel's reply as readable JSON; {} for one beyond the bounds."""
    try:
        language = bounded_json.make_readable(
            content.get("language_info"), max_nodes=_MOST_LANGUAGE_VALUES, max_depth=output_bounds.SINGLE_DEPTH
        )
    except InvalidJson:
        return {}
    return language if isinstance(language, dict) and len(json.dumps(language)) <= _LONGEST_LANGUAGE else {}


def _require_alive(kernel: KernelProcess, name: str) -> None:
    if kernel.exit_code is not None:
        raise KernelError(f"The kernel {name!r} did not start: it {kernel.describe_exit()}. The log has more.")


async def shut_down(kernel: KernelProcess, client: AsyncKernelClient | None, seconds: float) -> None:
    """End a kernel and everything that it started, and close the client's connections.

    With a client, request a shutdown and wait up to `seconds`. Then send SIGTERM and wait up to 2 s, at most `seconds`.
    Finally kill the kernel's whole session and remove its sockets.
    """
    if client is not None:
        if kernel.exit_code is None:
            client.shutdown()
            await _wait_for_exit(kernel, seconds)
        client.stop_channels()
        client.context.destroy(linger=0)
    if kernel.exit_code is None:
        kernel.process.terminate()
        await _wait_for_exit(kernel, min(2.0, seconds))
    kernel.discard()


async def _wait_for_exit(kernel: KernelProcess, seconds: float) -> None:
    """Wait until the kernel's process has ended, at most `seconds`; return without an error in either case."""
    try:
        async with asyncio.timeout(seconds):
            while kernel.exit_code is None:  # noqa: ASYNC110 - a process has no event to wait for
                await asyncio.sleep(0.02)
    except TimeoutError:
        return
