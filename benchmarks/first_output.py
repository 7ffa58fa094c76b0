"""From the click to the first output of a trivial cell on an idle device, beside jupyter-scheduler on the same cell.

Ours is timed in the browser: from the click on "Send to training" in the dialog until the text stands under the cell.
jupyter-scheduler shows output only when a job is complete, so its time is from the creation of the job until its
status is COMPLETED, asked every 50 ms from its server (its own page asks every 10 s; that is left out in its favour).
The two take turns. jupyter-scheduler runs from a virtual environment of its own (`--peer-python`).

A second cell imports a module of the notebook's folder, so its code is frozen at the click: the job runs in a folder of
its own with a copy of the module. It is measured beside the trivial cell, in turn.
"""

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path

import httpx

from jupyter_gq.demo.processes import end_descendants, free_port
from tests.browser.page import LabPage

from . import table
from .hub import running_hub

#: Texts that stand nowhere before their cells have run.
_CODE = 'print("seen", 6 * 7)'
_FROZEN = 'from answer import multiply\nprint("frozen", multiply(6, 7))'
_MODULE = "def multiply(one, other):\n    return one * other\n"
#: Whether all jobs of the page have ended.
_ENDED = "[...document.querySelectorAll('.jp-gq-status')].every(each => each.dataset.phase === 'done')"
#: Seconds from the click to the first output.
_GOAL = 1.5


class PeerServer:
    """A Jupyter server with jupyter-scheduler."""

    def __init__(self, python: str, folder: Path) -> None:
        self.folder = folder
        self._token = "benchmark"
        self._port = free_port()
        environment = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_DATA_DIR": str(folder / "data"),
        }
        self._process = subprocess.Popen(
            [
                python,
                "-m",
                "jupyter_server",
                "--no-browser",
                "--allow-root",
                f"--port={self._port}",
                f"--ServerApp.root_dir={folder}",
                f"--IdentityProvider.token={self._token}",
                "--ServerApp.jpserver_extensions={'jupyter_scheduler': True}",
            ],
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._http = httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{self._port}",
            headers={"Authorization": f"token {self._token}"},
            timeout=30,
        )

    async def ready(self) -> None:
        """Return when it answers."""
        while True:
            try:
                if (await self._http.get("/scheduler/jobs")).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.2)

    async def first_output(self, number: int) -> float:
        """Seconds from the creation of a job until its output can be seen."""
        name = f"cell{number}.ipynb"
        (self.folder / name).write_text(json.dumps(_notebook(_CODE)))
        loop = asyncio.get_running_loop()
        began = loop.time()
        body = {
            "name": name,
            "input_uri": name,
            "runtime_environment_name": _environment_name(),
            "compute_type": None,
            "output_formats": ["ipynb"],
        }
        answer = await self._http.post("/scheduler/jobs", json=body)
        answer.raise_for_status()
        job = answer.json()["job_id"]
        while True:
            status = (await self._http.get(f"/scheduler/jobs/{job}")).json()["status"]
            if status == "COMPLETED":
                return loop.time() - began
            if status == "FAILED":
                raise RuntimeError("jupyter-scheduler's job failed")
            await asyncio.sleep(0.05)

    async def close(self) -> None:
        """End it."""
        await self._http.aclose()
        self._process.terminate()
        self._process.wait()


async def measure(runs: int, peer_python: str | None) -> list[table.Row]:
    """Time the cells, and jupyter-scheduler if its interpreter is given, in turn; return the medians."""
    ours: list[float] = []
    frozen: list[float] = []
    peers: list[float] = []
    async with AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        hub = await stack.enter_async_context(running_hub())
        peer = None
        if peer_python is not None:
            peer = PeerServer(peer_python, Path(folder))
            stack.push_async_callback(peer.close)
            await peer.ready()
        home = hub.hub.folder / "homes" / "ann"
        (home / "answer.py").write_text(_MODULE)
        (home / "hello.ipynb").write_text(json.dumps(_notebook(_CODE, _FROZEN)))
        page = await stack.enter_async_context(LabPage.opened(hub.hub.url, "ann", "0.25", "hello.ipynb"))
        for number in range(runs + 1):
            times = [await _time(page, "seen 42", 0), await _time(page, "frozen 42", 1)]
            theirs = None if peer is None else await peer.first_output(number)
            if number:  # the first of each is not counted
                ours.append(times[0])
                frozen.append(times[1])
                peers += [] if theirs is None else [theirs]
    return [
        *_make_rows("click to first output, trivial cell", ours, peers),
        *_make_rows("click to first output, frozen code", frozen, ours),
    ]


async def _time(page: LabPage, text: str, place: int) -> float:
    """Return the seconds until this text stands under the cell at `place`, once the device is idle again."""
    seconds = await page.time_to_first_output(text, queue="vision", gpus="0.5", place=place)
    await page.page.wait_for_function(_ENDED)
    return seconds


def _make_rows(case: str, ours: list[float], peers: list[float]) -> list[table.Row]:
    middle, theirs = statistics.median(ours), statistics.median(peers) if peers else None
    return [
        table.Row(case=case, figure="p50", unit="s", ours=middle, peer=theirs, goal=_GOAL),
        table.Row(case=case, figure="worst", unit="s", ours=max(ours), peer=max(peers, default=None)),
    ]


def _environment_name() -> str:
    return "benchmark"


def _notebook(*sources: str) -> dict[str, object]:
    cells: list[dict[str, object]] = [
        {
            "cell_type": "code",
            "id": f"hello{number}",
            "source": source,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for number, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def main() -> int:
    """Print the table."""
    parser = table.parser(__doc__ or "")
    parser.add_argument("--runs", type=int, default=10, help="counted runs of each (default: 10)")
    parser.add_argument(
        "--peer-python",
        default=".venv-peer/bin/python",
        help="interpreter with jupyter-scheduler and ipykernel (default: %(default)s)",
    )
    parser.add_argument("--no-peer", action="store_true", help="measure without jupyter-scheduler")
    arguments = parser.parse_args()
    peer_python = None if arguments.no_peer else arguments.peer_python
    if peer_python is not None and not Path(peer_python).exists():
        sys.exit(f"{arguments.peer_python} is missing; make it with: make peer")
    try:
        rows = asyncio.run(measure(arguments.runs, peer_python))
    finally:
        end_descendants()
    return table.show("First output", rows, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
