"""Time to start a notebook server: ours (with a fixed quota, through the scheduler) over SimpleLocalProcessSpawner.

The two take turns, A B A B, on two hubs that differ in nothing else.
"""

import asyncio
import contextlib
import statistics
import sys

from jupyter_gq.demo.person import Person

from . import table
from .hub import BenchmarkHub, running_hub

#: A server refuses root without --allow-root, which our spawner adds where it is needed.
_PEER = """
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = "homes/{username}"
c.Spawner.args = ["--allow-root"]
"""


async def measure(runs: int) -> list[table.Row]:
    """Start and stop a server on each hub in turn; return the medians."""
    async with contextlib.AsyncExitStack() as stack:
        ours = await stack.enter_async_context(running_hub())
        peer = await stack.enter_async_context(running_hub(_PEER))
        samples: dict[str, list[float]] = {"ours": [], "peer": []}
        for number in range(runs + 1):  # the first of each is not counted: imports are not cached yet
            for name, hub in (("ours", ours), ("peer", peer)):
                seconds = await _spawn(hub, "0.25" if name == "ours" else None)
                if number:
                    samples[name].append(seconds)
    median = {name: statistics.median(values) for name, values in samples.items()}
    return [
        table.Row(
            case="spawn to ready, 0.25 GPU",
            figure="median",
            unit="s",
            ours=median["ours"],
            peer=median["peer"],
            goal=None,
        ),
        table.Row(
            case="ours / SimpleLocalProcessSpawner",
            figure="ratio",
            unit="x",
            ours=median["ours"] / median["peer"],
            goal=1.05,
        ),
    ]


async def _spawn(hub: BenchmarkHub, gpus: str | None) -> float:
    loop = asyncio.get_running_loop()
    async with Person(hub.hub.url, "ann") as ann:
        began = loop.time()
        body = {"user_options": {"gpus": gpus}} if gpus else {}
        answer = await hub.admin.post("/hub/api/users/ann/server", json=body)
        answer.raise_for_status()
        while not (await ann.servers()).get("", {}).get("ready"):
            await asyncio.sleep(0.01)
        took = loop.time() - began
        await ann.stop_server()
        return took


def main() -> int:
    """Print the table."""
    parser = table.parser(__doc__ or "")
    parser.add_argument("--runs", type=int, default=10, help="counted spawns of each (default: 10)")
    arguments = parser.parse_args()
    return table.show("Spawn", asyncio.run(measure(arguments.runs)), arguments.json)


if __name__ == "__main__":
    sys.exit(main())
