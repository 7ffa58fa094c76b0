"""What goes along with a cell and what comes back: files, variables, results, the log."""

import asyncio
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.page import LabPage
from tests.browser.world import write_notebook

MODULE = """
from pathlib import Path

def load(name):
    return [float(line) for line in Path(name).read_text().split()]
"""
#: The first cell ran once here: what it counts shows whether the job ran it again.
FIRST = """
import random, helper
rows, drawn = helper.load("rows.txt"), random.random()
"""
SENT = """
import helper, os
model = {"score": sum(rows) + sum(helper.load("more.txt")), "drawn": drawn}
print("scored", model["score"], "beside", os.path.getsize("large.bin"))
"""
#: One byte more than the largest file that goes along.
LARGE = 16 * 2**20 + 1
LATER = "print('score', model['score'], model['drawn'] == drawn)"


def test_files_and_variables_go_along_and_a_model_comes_back(hub, tmp_path):
    asyncio.run(take_along_and_load(hub, tmp_path))


async def take_along_and_load(hub: DemoHub, pictures: Path) -> None:
    """Send a cell with its files and variables, then load what it made and run the cell below. Save pictures of it."""
    folder = hub.folder / "homes/ann/work"
    write_project(folder)
    async with LabPage.opened(hub.url, "ann", "0.25", "work/scores.ipynb") as lab:
        await lab.run(lab.cells().nth(0))
        cell = lab.cells().nth(1)
        await lab.select(cell)
        dialog = await lab.open_dialog(cell)
        await lab.fill_dialog(queue="vision", gpus="0.5", name="scores")
        await shows_what_goes_along(dialog)
        await adds_a_pattern_and_tries_the_live_folder(dialog, pictures)
        await takes_variables(dialog)
        await lab.picture(pictures / "dialog.png")
        await assert_accessible(lab.page, ".jp-gq-send-dialog .jp-Dialog-content")
        await dialog.get_by_label("Also take variables").fill("random")
        await lab.confirm()  # at once: the click waits for the kernel
        await expect(lab.output(cell)).to_contain_text(f"scored 10.0 beside {LARGE}")
        await loads_model(lab, cell, pictures)
        await opens_log(lab, cell, pictures)
        await loses_model_with_kernel(lab, cell, pictures)


def write_project(folder: Path) -> None:
    """Write the notebook, and the files that its cells need."""
    write_notebook(folder / "scores.ipynb", FIRST, SENT, LATER)
    (folder / "helper.py").write_text(MODULE)
    (folder / "rows.txt").write_text("1\n2\n")
    (folder / "more.txt").write_text("3\n4\n")
    (folder / "rates.yaml").write_text("rate: 0.1\n")
    with (folder / "large.bin").open("wb") as large:
        large.truncate(LARGE)


async def shows_what_goes_along(dialog: Locator) -> None:
    """The module and the file that the cell names are listed with their reasons, and what it makes is proposed."""
    await dialog.get_by_role("button", name="Files").click()
    files = dialog.get_by_role("list", name="Files that go along").get_by_role("listitem")
    await expect(files).to_contain_text(["helper.py is imported", "more.txt is named in the code"])
    await expect(dialog.get_by_label("Bring back", exact=True)).to_have_value("model")


async def adds_a_pattern_and_tries_the_live_folder(dialog: Locator, pictures: Path) -> None:
    """A file that fits a pattern of the user goes too, one above the cap stays with the reason, or all of them do."""
    files = dialog.get_by_role("list", name="Files that go along").get_by_role("listitem")
    stays = dialog.get_by_text("stays where it is, because it has more than 16 MiB; the job reads it there")
    await expect(stays).to_contain_text("large.bin (17 MB)")
    await dialog.get_by_label("Also take", exact=True).fill("*.yaml")
    await expect(files).to_contain_text(["helper.py", "more.txt", "rates.yaml fits your pattern"])
    live = dialog.get_by_role("checkbox", name="Run in the live folder")
    await live.check()
    await expect(dialog).to_contain_text("No file goes along: the job runs in this folder itself, and writes there")
    await expect(files).to_have_count(0)
    await dialog.page.screenshot(path=pictures / "live.png")
    await live.uncheck()
    await expect(files).to_contain_text(["helper.py", "rates.yaml"])
    await expect(stays).to_be_visible()


async def takes_variables(dialog: Locator) -> None:
    """The variables of the kernel go along in place of the first cell."""
    await dialog.get_by_role("radio", name="Take the variables along").check()
    going = dialog.get_by_role("list", name="Variables that go along").get_by_role("listitem")
    await expect(going).to_contain_text(["drawn", "rows"])
    await expect(dialog.get_by_role("button", name="Send to training")).to_be_enabled()


async def loads_model(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The button adds a cell that loads the model, which the cell below can use, and offers to load it again."""
    await lab.output(cell).get_by_role("button", name="Load into notebook").click()
    await expect(lab.cells().nth(2)).to_contain_text("jupyter_gq.result")
    await lab.kernel_is_idle()
    await expect(lab.output(cell)).to_contain_text("loaded into the notebook")
    await expect(lab.output(cell).get_by_role("button", name="Load again")).to_be_visible()
    await lab.picture(pictures / "loaded.png")
    later = lab.cells().nth(3)
    await lab.select(later)
    await lab.page.keyboard.press("Control+Enter")
    await expect(lab.output(later)).to_contain_text("score 10.0 True")


async def loses_model_with_kernel(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The line and the details in the panel say the same of the model, before and after a restart of the kernel."""
    await lab.output(cell).get_by_role("button", name="Details").click()
    results = lab.page.get_by_role("region", name="Results of scores")
    for place in (lab.output(cell), results):
        await expect(place).to_contain_text("loaded into the notebook")
    await lab.restart_kernel()
    for place in (lab.output(cell), results):
        await expect(place).to_contain_text("can be loaded")
        await expect(place.get_by_role("button", name="Load into notebook")).to_be_visible()
    await lab.picture(pictures / "restarted.png")


async def opens_log(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The log has the whole text of the job, and finds a word in it."""
    await lab.output(cell).get_by_role("button", name="Log").click()
    log = lab.page.locator(".jp-gq-log")
    await expect(log).to_contain_text("scored 10.0")
    await lab.picture(pictures / "log.png")
