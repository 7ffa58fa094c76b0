"""A job that prints a lot: all of it is under the cell and in the file, and the page neither rushes nor halts."""

import asyncio
import json
from pathlib import Path

from playwright.async_api import Request, expect

from jupyter_gq.demo.processes import DemoHub
from jupyter_gq.domain.json_types import JsonObject
from tests.browser.page import LabPage, patience
from tests.browser.tasks import watched_tasks
from tests.browser.world import read_cells, read_saved_cells, write_notebook
from tests.patience import eventually, slowness

LINES, STEPS, PICTURES = 15_000, 1500, 15
#: Bytes that a cell's text and its pictures may take in the file.
CAP = 37 * 2**20
#: Longest task of the page while output arrives, in milliseconds of processor time on a quiet machine.
LONGEST_TASK = 200
#: Most requests for output in a second, as the page's least interval of 120 ms allows.
MOST_REQUESTS = 9
SOURCE = f"""\
import base64, time
import jupyter_gq
from IPython.display import Image, display

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
for step in range({STEPS}):
    for line in range({LINES // STEPS}):
        print(f"step {{step}}, line {{line}}: loss {{1 / (1 + step):.9f}}")
    jupyter_gq.progress(step + 1, {STEPS})
    if step % {STEPS // PICTURES} == 0:
        display(Image(base64.b64decode(PIXEL), width=20))
    time.sleep(0.01)
"""


def test_a_job_that_prints_a_lot_is_shown_whole_and_without_a_rush(hub, tmp_path):
    asyncio.run(long_output(hub, tmp_path))


async def long_output(hub: DemoHub, pictures: Path) -> None:
    """Send the cell, reload the page in the middle, and read the file that the page saves at the end."""
    file = hub.folder / "homes/ann/long.ipynb"
    write_notebook(file, SOURCE)
    async with LabPage.opened(hub.url, "ann", "0.25", "long.ipynb") as lab:
        asked = _count_requests(lab)
        cell = lab.cells().first
        await lab.select(cell)
        await lab.open_dialog(cell)
        await lab.fill_dialog(queue="vision", gpus="0.5", name="long")
        async with watched_tasks(lab.page) as tasks:
            await lab.confirm()
            await expect(lab.output(cell).locator("img").nth(4)).to_be_attached(timeout=2 * patience())
        await lab.page.keyboard.press("Control+S")
        await lab.page.reload()
        await lab.notebook_is_open()
        await eventually(lambda: _is_over(file), "all output in the saved notebook", seconds=120, every=0.5)
        await expect(lab.output(lab.cells().first)).to_contain_text("Trained in vision")
        await lab.picture(pictures / "long.png")
    assert tasks.longest < LONGEST_TASK * slowness(), f"{tasks.longest:.0f} ms, {slowness():.1f} times slower"
    outputs, size = _list_outputs(await read_saved_cells(file)), len(await asyncio.to_thread(file.read_bytes))
    text = "".join("".join(output["text"]) for output in outputs if output["output_type"] == "stream")
    lines = [
        f"step {step}, line {line}: loss {1 / (1 + step):.9f}"
        for step in range(STEPS)
        for line in range(LINES // STEPS)
    ]
    assert text.splitlines() == lines
    assert sum("image/png" in output.get("data", {}) for output in outputs) == PICTURES
    assert size < CAP
    seconds = max(asked) - min(asked)
    assert len(asked) <= MOST_REQUESTS * seconds + 2 * MOST_REQUESTS, f"{len(asked)} requests in {seconds:.0f} s"


def _count_requests(lab: LabPage) -> list[float]:
    """Return a list that gets the time of each request for output, in seconds, by the clock of the browser."""
    times: list[float] = []

    def note(request: Request) -> None:
        if "/outputs?" in request.url:
            times.append(request.timing["startTime"] / 1000)

    lab.page.on("requestfinished", note)
    return times


def _list_outputs(cells: list[JsonObject]) -> list[JsonObject]:
    return [output for cell in cells for output in cell["outputs"]]


def _is_over(file: Path) -> bool:
    """Return whether the saved notebook has the end of the output."""
    return f"step {STEPS - 1}, line {LINES // STEPS - 1}:" in json.dumps(_list_outputs(read_cells(file)))
