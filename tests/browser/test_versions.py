"""A cell that is sent from each version of JupyterLab and Notebook: its output, its log and the way back to it.

`JUPYTER_GQ_TEST_PYTHON` is an interpreter that has other versions of them.

See docs/decisions/0157-click-in-the-oldest-jupyterlab.md.
See docs/decisions/0179-promise-notebook-7-and-click-in-it.md.
"""

import asyncio
import json
import os
import re
import subprocess
import sys

from playwright.async_api import Locator, Page, expect

from tests.patience import scaled

from .page import WIDE, HubPage, LabPage, running_browser
from .world import running_demo, write_notebook

PYTHON = os.environ.get("JUPYTER_GQ_TEST_PYTHON", sys.executable)
#: Enough cells that the first one is out of sight at the end.
SOURCES = ("print('trained', 6 * 7)", *(f"# {number}" + "\n" * 20 for number in range(12)))


def test_a_cell_is_sent_and_its_log_and_cell_are_shown_in_jupyterlab_and_notebook():
    asyncio.run(send_and_look())


async def send_and_look() -> None:
    """Open a notebook in each of both pages, send its first cell, read its log, and go back to the cell."""
    async with running_demo(epochs=10, python=PYTHON) as hub, running_browser() as browser:
        page = await browser.new_page(viewport=WIDE)
        hub_page, lab = HubPage(page, hub.url, "ann"), LabPage(page)
        await hub_page.log_in()
        await hub_page.choose("0.25")
        await page.wait_for_url("**/user/ann/**", wait_until="commit")
        for package, route in (("jupyterlab", "lab/tree"), ("notebook", "notebooks")):
            write_notebook(hub.folder / f"homes/ann/{package}.ipynb", *SOURCES)
            await page.goto(f"{hub.url}/user/ann/{route}/{package}.ipynb")
            await load_again_without_toolbar(page)
            await lab.notebook_is_open()
            await has_version(page, installed_version(package))
            await has_job_with_log_and_cell(lab, name=f"in-{package}")


async def load_again_without_toolbar(page: Page) -> None:
    """Load the page once more if it has no toolbar: Notebook 7 may start before a command of its own is there."""
    try:
        await expect(page.locator(".jp-Notebook-ExecutionIndicator:visible")).to_be_visible(timeout=scaled(30) * 1000)
    except AssertionError:
        await page.reload()


async def has_job_with_log_and_cell(lab: LabPage, name: str) -> None:
    """Send the first cell as a job of that name; its log is shown, and its cell found again."""
    cell = lab.cells().first
    await lab.select(cell)
    await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.5", name=name)
    await lab.confirm()
    await expect(lab.output(cell)).to_contain_text("trained 42")
    await expect(lab.output(cell)).to_contain_text("Trained in vision")  # the buttons change their places no more
    await lab.output(cell).hover()
    await lab.output(cell).get_by_role("button", name=re.compile(r"^Log\b")).click()
    await expect(lab.page.get_by_role("log").get_by_text("trained 42")).to_be_in_viewport()
    await goes_back_to_cell(lab, cell, name)


async def has_version(page: Page, expected: str) -> None:
    """The page is of that version of JupyterLab or Notebook."""
    config = json.loads(await page.locator("#jupyter-config-data").inner_text())
    assert config["appVersion"] == expected


def installed_version(package: str) -> str:
    """The version of a package that the environment has."""
    command = [PYTHON, "-c", f"import {package}; print({package}.__version__)"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


async def goes_back_to_cell(lab: LabPage, cell: Locator, name: str) -> None:
    """From the end of the notebook, the button of the panel leads to the cell, in the same tab of the browser."""
    await lab.output(cell).get_by_role("button", name=re.compile(r"^Details\b")).click()
    job = lab.row_of(name)
    await expect(job.locator("button").first).to_be_focused()  # or the panel would take the focus from the cell later
    await cell.focus()  # a click may hit the toolbar, below which the cell begins
    await lab.page.keyboard.press("Escape")
    for _ in SOURCES[1:]:
        await lab.page.keyboard.press("j")
    await expect(lab.active_cell()).to_have_attribute("data-windowed-list-index", str(len(SOURCES) - 1))
    await job.get_by_role("button", name=f"Go to cell of {name}").click()
    await expect(lab.active_cell()).to_contain_text("trained")
    await expect(lab.active_cell()).to_be_in_viewport()
    assert len(lab.page.context.pages) == 1
