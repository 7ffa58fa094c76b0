"""The choice of the software of a job: another kernel of the server, in the dialog, in the job and in its details.

See docs/decisions/0162-choose-the-software-of-a-job-by-one-name.md.
"""

import asyncio
import json
import sys
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.page import MORE, LabPage
from tests.browser.world import write_notebook

CODE = """
import os
print("ran with", os.environ.get("KERNEL_OF_TEST", "the kernel of the notebook"))
"""


def test_a_cell_runs_with_the_kernel_that_was_chosen_in_the_dialog(hub, tmp_path):
    asyncio.run(choose_and_run(hub, tmp_path))


async def choose_and_run(hub: DemoHub, pictures: Path) -> None:
    """Send a cell with another kernel, find it in the details, and find it chosen when the job is sent again."""
    home = hub.folder / "homes/ann"
    install_kernel(home, "second", "Second Python")
    write_notebook(home / "software.ipynb", CODE)
    async with LabPage.opened(hub.url, "ann", "0.25", "software.ipynb") as lab:
        cell = lab.cells().first
        await lab.select(cell)
        await lab.open_dialog(cell)
        await lab.fill_dialog(queue="vision", gpus="0.5", name="software")
        software = await open_choice(lab)
        await expect(software.locator("option")).to_have_text(["as in this notebook", "Second Python (second)"])
        await software.select_option("second")
        await lab.picture(pictures / "dialog.png")
        await assert_accessible(lab.page, ".jp-gq-send-dialog .jp-Dialog-content")
        await lab.confirm()
        await expect(lab.output(cell)).to_contain_text("ran with the second kernel")
        await expect(lab.output(cell)).to_contain_text("Trained in vision")  # the buttons change their places no more
        await lab.output(cell).hover()
        await lab.output(cell).get_by_role("button", name="Details").click()
        job = lab.row_of("software")
        await expect(job.get_by_role("term").filter(has_text="Software")).to_be_visible()
        await expect(job.get_by_role("definition").get_by_text("second", exact=True)).to_be_visible()
        await lab.picture(pictures / "details.png")
        await job.get_by_role("button", name="Send again").click()
        await expect(await open_choice(lab)).to_have_value("second")


def install_kernel(home: Path, name: str, title: str) -> None:
    """Give the user a kernel of this Python, which its jobs can tell from the others by a variable."""
    folder = home / ".local/share/jupyter/kernels" / name
    folder.mkdir(parents=True)
    command = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    spec = {
        "argv": command,
        "display_name": title,
        "language": "python",
        "env": {"KERNEL_OF_TEST": "the second kernel"},
    }
    (folder / "kernel.json").write_text(json.dumps(spec))


async def open_choice(lab: LabPage) -> Locator:
    """Open the section of what is seldom asked for; return the field of the software."""
    more = lab.dialog().get_by_role("button", name=MORE)
    if await more.get_attribute("aria-expanded") == "false":
        await more.press("Enter")
    return lab.dialog().get_by_label("Software", exact=True)
