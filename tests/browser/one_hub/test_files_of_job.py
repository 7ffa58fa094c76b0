"""What a user does with the files that a job wrote: copy them beside the notebook, open one, and download one."""

import asyncio
from pathlib import Path

from playwright.async_api import expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.page import LabPage
from tests.browser.world import write_notebook

#: A name and bytes that a link keeps only if both are passed on as they are.
BINARY, BYTES = "plots/größe 100 % #1.bin", bytes(range(256)) * 300
CODE = f"""
import jupyter_gq
folder = jupyter_gq.results_dir()
(folder / "plots").mkdir()
_ = (folder / "plots/loss.csv").write_text("epoch,loss\\n1,0.5\\n")
_ = (folder / {BINARY!r}).write_bytes(bytes(range(256)) * 300)
_ = open("notes.txt", "w").write("written by the job")
print("written")
"""


def test_files_of_a_job_are_copied_beside_the_notebook_opened_and_downloaded(hub, tmp_path):
    asyncio.run(copy_open_and_download(hub, tmp_path))


async def copy_open_and_download(hub: DemoHub, pictures: Path) -> None:
    """Send a cell that writes three files, copy them beside an older one after the question, and fetch two by links."""
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
        await expect(line).to_contain_text("3 files")
        await assert_accessible(lab.page, ".jp-gq-status")
        await copy.click()
        question = lab.page.locator(".jp-Dialog")
        await expect(question).to_contain_text("1 file beside the notebook differs")
        await expect(question).to_contain_text("notes.txt (4 B)")
        await lab.picture(pictures / "question.png")
        await assert_accessible(lab.page, ".jp-Dialog")
        assert (home / "work/notes.txt").read_text() == "mine"
        await question.get_by_role("button", name="Keep both").click()
        await expect(lab.page.get_by_text("3 files are beside the notebook.")).to_be_visible()
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
        await is_downloaded(lab, BINARY, BYTES, pictures)
        await is_downloaded(lab, "notes.txt", b"written by the job", pictures)


async def is_downloaded(lab: LabPage, name: str, content: bytes, folder: Path) -> None:
    """Click the link of a file in the panel; the browser saves the bytes of the job under the file's name."""
    async with lab.page.expect_download() as download:
        await lab.page.locator("#jupyter-gq-panel").get_by_role("link", name=name, exact=True).click()
    found = await download.value
    assert found.suggested_filename == name.split("/")[-1]
    await found.save_as(folder / found.suggested_filename)
    assert (folder / found.suggested_filename).read_bytes() == content
