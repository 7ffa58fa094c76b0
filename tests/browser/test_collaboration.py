"""A notebook that two pages share with jupyter-collaboration, behind the pure-Python proxy.

`JUPYTER_GQ_TEST_PYTHON` is an interpreter that has jupyter-collaboration; `make test-collaboration` makes one.

See docs/decisions/0156-let-one-page-write-a-shared-notebook.md.
See docs/decisions/0178-test-collaboration-in-an-environment-of-its-own.md.
"""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.async_api import Browser, expect

from jupyter_gq.demo.processes import DemoHub
from jupyter_gq.domain.json_types import JsonObject
from tests.patience import eventually

from .page import WIDE, HubPage, LabPage, patience, running_browser
from .world import read_cells, running_demo, write_notebook

PYTHON = os.environ.get("JUPYTER_GQ_TEST_PYTHON", sys.executable)
#: Prints text, progress that overwrites itself and a picture, then waits until the test lets it go on; three times.
SOURCE = """\
import base64, os, time
from IPython.display import Image, display

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
for part in (1, 2, 3):
    while not os.path.exists(FOLDER + f"/part-{part}"):
        time.sleep(0.05)
    print("part", part)
    for percent in range(0, 101, 5):
        print(f"\\r{percent} %", end="", flush=True)
        time.sleep(0.02)
    print()
    display(Image(base64.b64decode(PIXEL), width=20))
"""


def test_two_pages_show_the_output_of_a_job_once_though_one_is_reloaded_meanwhile(tmp_path):
    if subprocess.run([PYTHON, "-c", "import jupyter_collaboration"], capture_output=True, check=False).returncode != 0:
        pytest.skip("needs jupyter-collaboration: make test-collaboration")
    asyncio.run(share_a_notebook(tmp_path))


async def share_a_notebook(folder: Path) -> None:
    """Send a cell from the first page, let that page go away in the middle and come back, and compare both pages."""
    async with running_demo(epochs=10, python=PYTHON) as hub, running_browser() as browser:
        file = hub.folder / "homes/ann/shared.ipynb"
        write_notebook(file, f"FOLDER = {str(folder)!r}\n{SOURCE}")
        assert "The Hub's proxy is the pure-Python one" in hub.log.read_text()
        first = await open_first_page(browser, hub)
        second = await open_second_page(browser, hub, first)
        await send(first)
        (folder / "part-1").touch()
        await show(1, first, second)

        shown = first.page.url
        await first.page.goto("about:blank")  # the page that writes is away
        (folder / "part-2").touch()
        await show(2, second)
        await first.page.goto(shown)
        await first.notebook_is_open()
        await show(2, first)
        (folder / "part-3").touch()
        await show(3, first, second)
        for number, lab in enumerate((first, second), start=1):
            await expect(lab.output(lab.cells().first)).to_contain_text("Trained in vision")
            await expect(lab.page.get_by_role("dialog")).to_have_count(0)
            await lab.picture(folder / f"page-{number}.png")
        await eventually(lambda: read_outputs(file) == expected_outputs(3), lambda: f"{read_outputs(file)}")


async def open_first_page(browser: Browser, hub: DemoHub) -> LabPage:
    """Log in, take a share, and open the notebook."""
    page = await browser.new_page(viewport=WIDE)
    hub_page, lab = HubPage(page, hub.url, "ann"), LabPage(page)
    await hub_page.log_in("shared.ipynb")
    await hub_page.choose("0.25")
    await lab.notebook_is_open()
    return lab


async def open_second_page(browser: Browser, hub: DemoHub, first: LabPage) -> LabPage:
    """Open the notebook in a browser of its own, which has the same user."""
    context = await browser.new_context(viewport=WIDE, storage_state=await first.page.context.storage_state())
    lab = LabPage(await context.new_page())
    lab.page.set_default_timeout(patience())
    await lab.page.goto(f"{hub.url}/user/ann/lab/workspaces/second/tree/shared.ipynb?reset")
    await lab.notebook_is_open()
    return lab


async def send(lab: LabPage) -> None:
    """Send the cell by the button of its toolbar."""
    cell = lab.cells().first
    await lab.select(cell)
    await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.5", name="shared")
    await lab.confirm()


async def show(parts: int, *labs: LabPage) -> None:
    """Each page shows the line of the job, and below it the output of so many parts, once."""
    texts = [text for kind, text in expected_outputs(parts) if kind == "stream"]
    for lab in labs:
        outputs = lab.output(lab.cells().first).locator(".jp-OutputArea-child")
        await expect(outputs).to_have_count(1 + 2 * parts)
        await expect(outputs.first).to_contain_text("shared")
        await expect(outputs.locator(".jp-RenderedText")).to_have_text(texts)
        await expect(outputs.locator("img")).to_have_count(parts)


def expected_outputs(parts: int) -> list[tuple[str, str]]:
    """The outputs of so many parts: their kinds and texts."""
    return [
        output for part in range(1, parts + 1) for output in (("stream", f"part {part}\n100 %\n"), ("display_data", ""))
    ]


def read_outputs(file: Path) -> list[tuple[str, str]]:
    """The same for the outputs in the file, below the line of the job."""
    outputs: list[JsonObject] = [output for cell in read_cells(file) for output in cell["outputs"]]
    return [(output["output_type"], "".join(output.get("text", ""))) for output in outputs[1:]]
