"""Kernels that a benchmark runs."""

from collections.abc import Mapping
from contextlib import AsyncExitStack

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.manager import AsyncKernelManager


async def start_kernel(
    stack: AsyncExitStack, manager: AsyncKernelManager, environment: Mapping[str, str]
) -> AsyncKernelClient:
    """Start the kernel of a manager, and return a client of it once it answers; both end with `stack`."""
    await manager.start_kernel(env=dict(environment))
    stack.push_async_callback(manager.shutdown_kernel, now=True)
    client: AsyncKernelClient = manager.client()
    client.start_channels()
    stack.callback(client.stop_channels)
    await client.wait_for_ready(timeout=60)
    return client
