"""What a user reads of a job that has ended, and does with it: correct its cell and send it again."""

import asyncio
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.page import MORE, LabPage
from tests.browser.world import write_notebook

WRONG, RIGHT = "print('begins')\nprint(1 / 0)", "print('begins')\nprint(84 / 2)"
RAISED = "The cell raised ZeroDivisionError: division by zero. Correct the cell and send it again."
#: Cells that end without an exception, and what is said of them.
ENDS = {
    "exit(1)": "The cell ended the job with exit status 1. Correct the cell and send it again.",
    "!exit 3": "The cell ran, but its last command “!exit 3” ended with exit status 3. "
    "What the command printed, if anything, says why.",
}


def test_a_job_that_failed_is_corrected_and_sent_again_with_its_settings(hub, tmp_path):
    asyncio.run(fix_and_resend(hub, tmp_path))


async def fix_and_resend(hub: DemoHub, pictures: Path) -> None:
    """Send a cell that fails, correct it where the button leads, and send it again. Save pictures of it."""
    write_notebook(hub.folder / "homes/ann/wrong.ipynb", WRONG, *ENDS)
    async with LabPage.opened(hub.url, "ann", "0.25", "wrong.ipynb") as lab:
        await _send(lab)
        cell = lab.cells().first
        again = lab.output(cell).get_by_role("button", name="Fix and send again")
        await expect(again).to_be_visible()
        await _says(lab, cell, "wrong", RAISED)
        await lab.picture(pictures / "failed.png")
        await assert_accessible(lab.page, ".jp-gq-status")
        await again.click()
        await expect(lab.page.get_by_text("Correct the cell, then send “wrong” again.")).to_be_visible()
        await lab.picture(pictures / "fix.png")
        await _correct(lab)
        await again.click()
        await _has_settings(lab.dialog())
        await lab.picture(pictures / "again.png")
        await lab.confirm()
        await expect(lab.output(cell)).to_contain_text("42.0")
        await lab.show_output(cell)
        await lab.output(cell).hover()
        await expect(lab.output(cell).get_by_role("button", name="Send again")).to_be_visible()
        await lab.picture(pictures / "done.png")
        await _ends_are_told(lab, pictures)


async def _ends_are_told(lab: LabPage, pictures: Path) -> None:
    """A cell that ends its job, and a command that fails at the end, are shown as what they were.

    The last one asks for GPU memory in place of a number of GPUs.
    """
    for place, (source, told) in enumerate(ENDS.items(), 1):
        cell, name = lab.cells().nth(place), f"ends-{place}"
        await lab.select(cell)
        dialog = await lab.open_dialog(cell)
        await lab.fill_dialog(queue="vision", gpus="0.25", name=name)
        await dialog.get_by_label(f"Replay cell {place}").uncheck()
        if place == len(ENDS):
            await lab.ask_for_more()
            await dialog.get_by_label("GPU memory", exact=True).fill("12 GB")
        await lab.confirm()
        await _says(lab, cell, name, told)
        await expect(cell).to_contain_text(source)
    await expect(lab.row_of(name)).to_contain_text("12 GiB of GPU memory (0.3 GPU)")
    await lab.picture(pictures / "ends.png")


async def _says(lab: LabPage, cell: Locator, name: str, told: str) -> None:
    """The notification, the line under the cell and the details in the panel have all that is said of a failed job."""
    # First: a notification closes itself. It begins with the name, and for several tasks with the one that failed.
    toast = lab.page.get_by_role("alert").filter(has_text=f"“{name}”: ")
    await expect(toast.filter(has_text=told)).to_be_visible()
    line = lab.output(cell).get_by_role("group", name=f"Training job {name}")
    await expect(line).to_contain_text(told)
    await line.get_by_role("button", name="Details").click()
    await expect(lab.row_of(name)).to_contain_text(told)


async def _send(lab: LabPage) -> None:
    """Send the first cell with settings that the next dialog would not propose by itself."""
    cell = lab.cells().first
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.5", name="wrong")
    await lab.ask_for_more(cpus="1", memory="512 MiB", expected="45 min")
    await dialog.get_by_label("Tasks", exact=True).fill("2")
    await lab.confirm()


async def _correct(lab: LabPage) -> None:
    """Replace what stands in the cell: the button has put the cursor into it."""
    await lab.editor_has_focus()
    await lab.page.keyboard.press("Control+A")
    await lab.page.keyboard.insert_text(RIGHT)
    await expect(lab.cells().first).to_contain_text("84 / 2")


async def _has_settings(dialog: Locator) -> None:
    """The dialog has the settings of the job that failed, and says that the cell has changed."""
    await expect(dialog.get_by_label("GPUs", exact=True)).to_have_value("0.5")
    await expect(dialog.get_by_label("Tasks", exact=True)).to_have_value("2")
    await expect(dialog.get_by_role("button", name=MORE)).to_contain_text("1 CPU core · 512 MiB · about 45 min")
    await expect(dialog).to_contain_text("A cell has changed since “wrong” was sent.")
