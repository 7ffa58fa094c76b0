"""A job with more cells than an event carries: its lines, its row and its details are those of any other job."""

import asyncio
from pathlib import Path

from playwright.async_api import expect

from jupyter_gq.controller.views.presenter import MOST_CELLS
from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub
from tests.browser.page import LabPage
from tests.browser.world import read_cells, write_notebook
from tests.patience import eventually

CELLS = MOST_CELLS + 1
#: The last cell ends once this file is there.
WAITS = "import pathlib, time\nwhile not pathlib.Path('{go_on}').exists(): time.sleep(0.1)\nprint('last', n)"


def test_the_events_of_a_large_job_change_its_lines_its_row_and_its_details(hub, tmp_path):
    asyncio.run(send_all_cells(hub, tmp_path))


async def send_all_cells(hub: DemoHub, pictures: Path) -> None:
    """Send all cells of a notebook as one job, and watch it; then watch a large job that another client has sent."""
    notebook, go_on = hub.folder / "homes/ann/large.ipynb", hub.folder / "homes/ann/large-goes-on"
    sources = ["print('first')", *(f"n = {number}" for number in range(1, CELLS - 1)), WAITS.format(go_on=go_on)]
    write_notebook(notebook, *sources)
    async with LabPage.opened(hub.url, "ann", "0.25", "large.ipynb") as lab, Person(hub.url, "ann") as ann:
        first = lab.cells().first
        await lab.select(first)
        await lab.page.keyboard.press("Control+A")
        await expect(lab.cells().nth(1)).to_contain_class("jp-mod-selected")
        await lab.open_dialog(first)
        await lab.fill_dialog(queue="vision", gpus="0.25", name="large")
        await lab.confirm()
        await expect(lab.output(first)).to_contain_text("first")
        await expect(lab.output(first)).to_contain_text("Running")
        await lab.open_panel()
        await expect(lab.row_of("large")).to_contain_text("Running")
        await lab.picture(pictures / "large.png")
        go_on.touch()
        await expect(lab.output(first)).to_contain_text("Trained in vision")
        await expect(lab.row_of("large")).to_contain_text("Done")
        await eventually(lambda: _shows_end(notebook), "the output of the last cell in the saved notebook")
        await _is_shown_from_elsewhere(lab, ann, pictures)


def _shows_end(notebook: Path) -> bool:
    """Return whether the last cell of the saved notebook has what it printed in the job."""
    cells = read_cells(notebook)
    texts = ["".join(output.get("text", "")) for output in cells[-1]["outputs"]] if cells else []
    return f"last {CELLS - 2}\n" in texts


async def _is_shown_from_elsewhere(lab: LabPage, ann: Person, pictures: Path) -> None:
    """A job that this page did not send appears, changes and ends in the panel, and its row leads to its cell."""
    notebook = await ann.read_notebook("large.ipynb")
    target = notebook["cells"][-1]
    target["source"] = "import time; time.sleep(3600)"
    kernel = await ann.start_kernel("large.ipynb")
    options = {"queue": "vision", "gpus": "0.25", "name": "by another client"}
    job = await ann.send(notebook, "large.ipynb", kernel, target["id"], **options)
    row = lab.row_of("by another client")
    await expect(row).to_contain_text("Running")
    await row.get_by_role("button", name="Details of by another client").click()
    await expect(row).to_contain_text("large.ipynb")
    await lab.picture(pictures / "elsewhere.png")
    await row.get_by_role("button", name="Go to cell of by another client").click()
    await expect(lab.active_cell()).to_have_attribute("data-windowed-list-index", str(CELLS - 1))
    await ann.ask_extension("POST", "cancel", {"jobs": [job["id"]]})
    await expect(row).to_contain_text("Cancelled")
