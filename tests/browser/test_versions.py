"""A cell that is sent from each version of JupyterLab: its output, its log and the way back to it.

`JUPYTER_GQ_TEST_PYTHON` is an interpreter that has another version of JupyterLab.

See docs/decisions/0157-click-in-the-oldest-jupyterlab.md.
"""

import asyncio
import json
import os
import re
import subprocess
import sys

from playwright.async_api import Locator, Page, expect

from jupyter_gq.demo.story import make_notebook
from jupyter_gq.domain.json_types import JsonObject

from .page import WIDE, HubPage, LabPage, running_browser
from .world import running_demo

PYTHON = os.environ.get("JUPYTER_GQ_TEST_PYTHON", sys.executable)
#: Enough cells that the first one is out of sight at the end.
SOURCES = ("print('trained', 6 * 7)", *(f"# {number}" + "\n" * 20 for number in range(12)))


def test_a_cell_is_sent_and_its_log_and_cell_are_shown():
    asyncio.run(send_and_look(installed_jupyterlab()))


async def send_and_look(version: str) -> None:
    """Open a notebook, send its first cell, read its log, and go back to the cell from the panel."""
    async with running_demo(epochs=10, python=PYTHON) as hub, running_browser() as browser:
        (hub.folder / "homes/ann/short.ipynb").write_text(json.dumps(make_long_notebook()))
        page = await browser.new_page(viewport=WIDE)
        hub_page, lab = HubPage(page, hub.url, "ann"), LabPage(page)
        await hub_page.log_in()
        await hub_page.choose("0.25")
        await page.wait_for_url("**/user/ann/**", wait_until="commit")
        await page.goto(f"{hub.url}/user/ann/lab/tree/short.ipynb")
        await lab.notebook_is_open()
        await has_version(page, version)
        cell = lab.cells().first
        await send(lab, cell)
        await expect(lab.output(cell)).to_contain_text("trained 42")
        await expect(lab.output(cell)).to_contain_text("Trained in vision")  # the buttons change their places no more
        await lab.output(cell).hover()
        await lab.output(cell).get_by_role("button", name=re.compile(r"^Log\b")).click()
        await expect(page.get_by_role("log")).to_contain_text("trained 42")
        await goes_back_to_cell(lab, cell)


def make_long_notebook() -> JsonObject:
    """A notebook with one cell that trains, and empty lines below it."""
    cells = [make_notebook(source)["cells"][0] | {"id": f"cell-{number}"} for number, source in enumerate(SOURCES)]
    return make_notebook("") | {"cells": cells}


async def has_version(page: Page, expected: str) -> None:
    """The page is of that version of JupyterLab."""
    config = json.loads(await page.locator("#jupyter-config-data").inner_text())
    assert config["appVersion"] == expected


def installed_jupyterlab() -> str:
    """The version of JupyterLab that the environment has."""
    command = [PYTHON, "-c", "import jupyterlab; print(jupyterlab.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


async def send(lab: LabPage, cell: Locator) -> None:
    """Send a cell by the button of its toolbar."""
    await lab.select(cell)
    await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.5", name="short")
    await lab.confirm()


async def goes_back_to_cell(lab: LabPage, cell: Locator) -> None:
    """From the end of the notebook, the button of the panel leads to the cell, in the same tab of the browser."""
    await lab.output(cell).get_by_role("button", name=re.compile(r"^Details\b")).click()
    job = lab.page.locator("#jupyter-gq-panel").get_by_role("listitem").filter(has_text="short")
    await lab.cells().first.click(position={"x": 5, "y": 5})
    await lab.page.keyboard.press("Escape")
    for _ in SOURCES[1:]:
        await lab.page.keyboard.press("j")
    await expect(lab.active_cell()).to_have_attribute("data-windowed-list-index", str(len(SOURCES) - 1))
    await job.get_by_role("button", name="Go to cell of short").click()
    await expect(lab.active_cell()).to_contain_text("trained")
    await expect(lab.active_cell()).to_be_in_viewport()
    assert len(lab.page.context.pages) == 1
