"""Time to execute a cell through the kernel whose cells can wait for their share, over ipykernel's own kernel.

The two take turns, A B A B, in two processes that differ in nothing else. The share is there, so no cell waits.
"""

import asyncio
import os
import statistics
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from jupyter_gq.client.environment.kernel import prepare

from . import table
from .kernels import start_kernel

#: Milliseconds that our kernel may add to a cell.
_GOAL = 2.0
#: Executions of each kernel that are not counted.
_WARM_UP = 20


class _Manager(AsyncKernelManager):
    """The manager of a kernel of this environment."""

    command: list[str]

    @property
    def kernel_spec(self) -> KernelSpec:
        return KernelSpec(argv=self.command, display_name="Python", language="python")


async def _start(stack: AsyncExitStack, command: list[str], environment: dict[str, str]) -> AsyncKernelClient:
    """Start a kernel; return a client of it. Both end with `stack`."""
    manager = _Manager(transport="ipc")
    manager.command = command
    return await start_kernel(stack, manager, environment)


async def _execute(client: AsyncKernelClient) -> float:
    """Return the milliseconds from the request to the reply of a cell that does nothing."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await client.execute("pass", reply=True, timeout=60)
    return (loop.time() - began) * 1000


async def measure(runs: int) -> list[table.Row]:
    """Execute cells in each kernel in turn; return the medians and their difference."""
    plain = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    samples: dict[str, list[float]] = {"ours": [], "peer": []}
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="gq-"))
        environment = {**os.environ, "JUPYTER_GQ_SOCKET": str(Path(folder) / "kernels")}
        command, environment = prepare(plain, environment)
        clients = {
            "ours": await _start(stack, command, environment),
            "peer": await _start(stack, plain, dict(os.environ)),
        }
        for number in range(runs + _WARM_UP):
            # Each of the two is the first one in every other turn.
            for name in ("ours", "peer") if number % 2 else ("peer", "ours"):
                milliseconds = await _execute(clients[name])
                if number >= _WARM_UP:
                    samples[name].append(milliseconds)
    ours, peer = statistics.median(samples["ours"]), statistics.median(samples["peer"])
    return [
        table.Row(case="execute a cell that does nothing", figure="p50", unit="ms", ours=ours, peer=peer),
        table.Row(case="ours - ipykernel", figure="difference of p50", unit="ms", ours=ours - peer, goal=_GOAL),
    ]


def main() -> int:
    """Print the table."""
    parser = table.parser(__doc__ or "")
    parser.add_argument("--runs", type=int, default=300, help="executions of each kernel (default: 300)")
    arguments = parser.parse_args()
    return table.show("Execute a cell", asyncio.run(measure(arguments.runs)), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
