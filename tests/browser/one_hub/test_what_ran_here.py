"""What the page knows of the cells that ran, after a reload, a rename and a restart; and the result of the job."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.page import LabPage
from tests.browser.world import write_notebook

#: Prints something, and more once the notebook was renamed.
SENT = """
import pathlib, time
print("before", base)
while not pathlib.Path({renamed!r}).exists(): time.sleep(0.1)
print("after", base + 1)
"""


def test_what_ran_is_known_after_a_reload_and_a_job_outlives_the_name_of_its_notebook(hub, tmp_path):
    asyncio.run(reload_rename_and_restart(hub, tmp_path))


async def reload_rename_and_restart(hub: DemoHub, folder: Path) -> None:
    """Run cells, reload, send, rename the notebook meanwhile, and open the result. Save pictures of it."""
    renamed = folder / "go-on"
    source = SENT.format(renamed=str(renamed))
    write_notebook(hub.folder / "homes/ann/ran.ipynb", "base = 20", "raise ValueError('here')", source)
    async with LabPage.opened(hub.url, "ann", "0.25", "ran.ipynb") as lab:
        for number in (0, 1):
            await lab.run(lab.cells().nth(number))
        await expect(lab.output(lab.cells().nth(1))).to_contain_text("here")
        await lab.page.keyboard.press("Control+S")
        await lab.page.reload()
        await lab.notebook_is_open()
        cell = lab.cells().nth(2)
        await sends_what_ran(lab, cell, folder)
        await rename(lab, "renamed.ipynb")
        renamed.touch()
        await expect(lab.output(cell)).to_contain_text("after 21")
        await expect(lab.output(cell)).to_contain_text("Trained in vision")
        await knows_that_nothing_ran(lab, cell, folder)
        await opens_result_without_a_kernel(lab, cell, folder)


async def sends_what_ran(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The cell that ran is ticked after the reload, and the one that failed is not. The run here is interrupted."""
    await lab.select(cell)
    await lab.page.keyboard.press("Control+Enter")
    await expect(lab.output(cell)).to_contain_text("before 20")
    dialog = await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.25", name="ran")
    await dialog.get_by_role("checkbox", name="Interrupt the run here").check()
    await assert_accessible(lab.page, ".jp-gq-send-dialog")
    await expect(dialog).to_contain_text("in the order in which they ran here")
    await expect(dialog.get_by_label("Replay cell 1")).to_be_checked()
    await expect(dialog.get_by_label("Replay cell 2")).not_to_be_checked()
    await lab.picture(pictures / "reloaded.png")
    await lab.confirm()
    await lab.kernel_is_idle()
    await expect(lab.output(cell)).to_contain_text("before 20")
    await expect(lab.output(cell)).not_to_contain_text("KeyboardInterrupt")


async def rename(lab: LabPage, name: str) -> None:
    """Rename the notebook by its menu."""
    await lab.page.get_by_role("menuitem", name="File", exact=True).click()
    await lab.page.get_by_role("menuitem", name="Rename Notebook…").click()
    await lab.dialog().get_by_role("textbox").fill(name)
    await lab.dialog().get_by_role("button", name=re.compile("^Rename")).click()
    await expect(lab.page.get_by_role("tab", name=name)).to_be_visible()


async def knows_that_nothing_ran(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """After a restart of the kernel, the dialog says so."""
    await lab.restart_kernel()
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    await expect(dialog).to_contain_text("Nothing has run in this kernel since it started.")
    await lab.picture(pictures / "restarted.png")
    await dialog.get_by_role("button", name="Cancel").click()


async def opens_result_without_a_kernel(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The executed notebook has the outputs of the job, and no kernel."""
    await lab.output(cell).get_by_role("button", name="Details").click()
    job = lab.row_of("ran")
    await job.get_by_role("button", name="Open result").first.click()
    await expect(lab.page.locator(".jp-Toolbar-kernelName:visible")).to_have_text("No Kernel")
    await expect(lab.page.locator(".jp-Notebook:visible")).to_contain_text("after 21")
    await lab.picture(pictures / "result.png")
