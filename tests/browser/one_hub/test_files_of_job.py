"""What a user does with the files that a job wrote: copy them beside the notebook, and open one."""

import asyncio
from pathlib import Path

from playwright.async_api import expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.page import LabPage
from tests.browser.world import write_notebook

CODE = """
import jupyter_gq
folder = jupyter_gq.results_dir()
(folder / "plots").mkdir()
_ = (folder / "plots/loss.csv").write_text("epoch,loss\\n1,0.5\\n")
_ = open("notes.txt", "w").write("written by the job")
print("written")
"""


def test_files_of_a_job_are_copied_beside_the_notebook_and_opened(hub, tmp_path):
    asyncio.run(copy_and_open(hub, tmp_path))


async def copy_and_open(hub: DemoHub, pictures: Path) -> None:
    """Send a cell that writes two files, copy both over an older one after the question, and open one."""
    home = hub.folder / "homes/ann"
    write_notebook(home / "work/files.ipynb", CODE)
    (home / "work/notes.txt").write_text("mine")
    async with LabPage.opened(hub.url, "ann", "0.25", "work/files.ipynb") as lab:
        cell = lab.cells().first
        await lab.select(cell)
        await lab.open_dialog(cell)
        await lab.fill_dialog(queue="vision", gpus="0.5", name="files")
        await lab.confirm()
        line = lab.output(cell)
        copy = line.get_by_role("button", name="Copy files beside the notebook")
        await expect(copy).to_be_visible()
        await expect(line).to_contain_text("2 files")
        await assert_accessible(lab.page, ".jp-gq-status")
        await copy.click()
        question = lab.page.locator(".jp-Dialog")
        await expect(question).to_contain_text("1 file beside the notebook differs")
        await expect(question).to_contain_text("notes.txt (4 B)")
        await lab.picture(pictures / "question.png")
        await assert_accessible(lab.page, ".jp-Dialog")
        assert (home / "work/notes.txt").read_text() == "mine"
        await question.get_by_role("button", name="Keep both").click()
        await expect(lab.page.get_by_text("2 files are beside the notebook.")).to_be_visible()
        await lab.picture(pictures / "copied.png")
        assert (home / "work/notes.txt").read_text() == "mine"
        assert (home / "work/plots/loss.csv").read_text() == "epoch,loss\n1,0.5\n"
        (kept,) = (home / "work").glob("notes (job *).txt")
        assert kept.read_text() == "written by the job"

        await line.get_by_role("button", name="Details").click()
        panel = lab.page.locator("#jupyter-gq-panel")
        await panel.get_by_role("button", name="Open plots/loss.csv").click()
        await expect(lab.page.get_by_role("tab", name="loss.csv")).to_be_visible()
        await expect(lab.page.get_by_text("Copying")).to_have_count(0)
        await lab.picture(pictures / "opened.png")
