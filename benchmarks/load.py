"""50 users and 500 queued jobs: how fast a list request is answered, and how much memory the service uses."""

import asyncio
import statistics
import sys

import httpx
import psutil

from . import table
from .hub import BenchmarkHub, running_hub

_OPEN_QUEUES = """\
c.Authenticator.allow_all = True
c.TrainingQueues.queues = {"vision": {"quota": "0.5"}, "nlp": {"quota": "0.5"}}
"""


async def measure(users: int, jobs: int, requests: int) -> list[table.Row]:
    """Queue the jobs, then let every user ask for their list at the same time, several times over."""
    async with running_hub(_OPEN_QUEUES) as hub:
        tokens = [await hub.token_of(f"user{number:02}") for number in range(users)]
        api = f"{hub.hub.url}/services/jupyter-gq/api/v1"
        async with httpx.AsyncClient(timeout=60) as client:
            for number in range(jobs):
                token = tokens[number % users]
                answer = await client.post(f"{api}/jobs", json=_sleeper(number), headers=_bearer(token))
                answer.raise_for_status()
            listed = await _timed_lists(client, api, tokens, requests)
        memory = _service_memory_mib(hub)
    listed.sort()
    return [
        table.Row(
            case=f"list of jobs, {users} users, {jobs} queued",
            figure="p50",
            unit="ms",
            ours=1000 * statistics.median(listed),
        ),
        table.Row(
            case=f"list of jobs, {users} users, {jobs} queued",
            figure="p99",
            unit="ms",
            ours=1000 * listed[int(0.99 * (len(listed) - 1))],
            goal=100,
        ),
        table.Row(case="service process", figure="memory", unit="MB", ours=memory, goal=150),
    ]


async def _timed_lists(client: httpx.AsyncClient, api: str, tokens: list[str], requests: int) -> list[float]:
    """Each user asks `requests` times, one request after the other, users spread over the time as panels are."""
    loop = asyncio.get_running_loop()
    times: list[float] = []

    async def user(number: int, token: str) -> None:
        await asyncio.sleep(number / len(tokens))
        for _ in range(requests):
            began = loop.time()
            answer = await client.get(f"{api}/jobs?limit=100", headers=_bearer(token))
            answer.raise_for_status()
            times.append(loop.time() - began)
            await asyncio.sleep(1 - min(1, loop.time() - began))

    await asyncio.gather(*(user(number, token) for number, token in enumerate(tokens)))
    return times


def _service_memory_mib(hub: BenchmarkHub) -> float:
    """The service and the small process that starts it again, together."""
    commands = [(process, process.cmdline()) for process in psutil.Process(hub.hub.pid).children(recursive=True)]
    ours = [process for process, command in commands if "service" in command and "jupyter_gq" in " ".join(command)]
    if not ours:
        raise RuntimeError("The scheduler service is not among the hub's processes.")
    return sum(float(process.memory_info().rss) for process in ours) / 1e6


def _bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"token {token}"}


def _sleeper(number: int) -> dict[str, object]:
    cell: dict[str, object] = {
        "cell_type": "code",
        "id": "sleep",
        "source": "import time; time.sleep(3600)",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    kernel = {"name": "python3", "argv": ["python3", "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    manifest = {
        "notebook_path": "sleep.ipynb",
        "cwd": "/tmp",
        "kernel": kernel,
        "targets": [{"cell_id": "sleep", "source_hash": "0" * 64}],
    }
    notebook = {"nbformat": 4, "nbformat_minor": 5, "metadata": {}, "cells": [cell]}
    return {
        "name": f"sleeper {number}",
        "queue": "vision" if number % 2 else "nlp",
        "gpus": "1",
        "bundle": {"manifest": manifest, "notebook": notebook},
    }


def main() -> int:
    """Print the table."""
    parser = table.parser(__doc__ or "")
    parser.add_argument("--users", type=int, default=50)
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--requests", type=int, default=20, help="list requests of each user, one a second")
    arguments = parser.parse_args()
    rows = asyncio.run(measure(arguments.users, arguments.jobs, arguments.requests))
    return table.show("Load", rows, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
