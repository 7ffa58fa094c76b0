"""The whole log of a job, a name that a job has brought back, and a job that was sent from a script."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.cut_text import assert_nothing_is_cut
from tests.browser.layout import assert_no_hole_and_no_overlap
from tests.browser.page import WIDE, LabPage
from tests.browser.world import write_notebook

#: More lines than the view of the log shows.
LINES = 4000
#: The variable that the job brings back is made in no other cell.
TRAINS = f"""\
for step in range({LINES}):
    print(f"step {{step}}: loss {{1 / (1 + step):.9f}}")
model = {{"score": 6 * 7}}
"""
USES = "print('score', model['score'])"
SUBMITS = "!jupyter-gq submit train.py --queue vision --gpus 0.25"
SIZES = {"800": {"width": 800, "height": 700}, "1600": {"width": 1600, "height": 1000}}


def test_a_log_is_searched_and_downloaded_and_a_later_cell_hears_where_its_name_is(hub, tmp_path):
    asyncio.run(read_and_load(hub, tmp_path))


async def read_and_load(hub: DemoHub, pictures: Path) -> None:
    """Send a cell, read its log, run a cell that needs what the job made, and submit a script in a third cell."""
    home = hub.folder / "homes/ann"
    write_notebook(home / "logged.ipynb", TRAINS, USES, SUBMITS)
    (home / "train.py").write_text("print('trained')")
    async with LabPage.opened(hub.url, "ann", "0.25", "logged.ipynb") as lab:
        cell = lab.cells().nth(0)
        await lab.select(cell)
        dialog = await lab.open_dialog(cell)
        await lab.fill_dialog(queue="vision", gpus="0.25", name="counts")
        await expect(dialog.get_by_label("Bring back", exact=True)).to_have_value("model")
        await lab.confirm()
        await expect(lab.output(cell)).to_contain_text("can be loaded")
        await log_is_searched(lab, cell, pictures)
        await log_is_downloaded(lab)
        await name_is_found(lab, cell, pictures)
        await script_has_no_cell(lab, pictures)


async def log_is_searched(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The log shows its end and says so; a search finds a line before that, with its number, and is left again."""
    await lab.output(cell).get_by_role("button", name="Log").click()
    log = lab.page.get_by_role("log", name="Log of counts")
    await expect(log).to_contain_text(f"step {LINES - 1}:")
    await expect(log.get_by_text(re.compile(r"^The last \d+ kB of \d+ kB are shown\.$"))).to_be_in_viewport(ratio=1)
    await expect(log).not_to_contain_text("step 7:")
    await lab.picture(pictures / "log.png")
    field = lab.page.get_by_label("Search the whole log")
    await field.fill("step 7:")
    await field.press("Enter")
    await expect(log).to_contain_text(re.compile(r"\d+: step 7: loss 0\.125"))
    await expect(log).to_contain_text("1 line has “step 7:” in it.")
    await expect(log).not_to_contain_text("step 8:")
    for width, size in SIZES.items():
        await lab.page.set_viewport_size(size)
        await lab.picture(pictures / f"found-{width}.png")
        await assert_nothing_is_cut(lab.page, ".jp-gq-log", ".jp-gq-log-search")
        await assert_no_hole_and_no_overlap(lab.page, ".jp-gq-log", ".jp-gq-log-search")
    await lab.page.set_viewport_size(WIDE)
    await assert_accessible(lab.page, ".jp-gq-log", ".jp-gq-log-search")
    await field.fill("")
    await expect(log).to_contain_text(f"step {LINES - 1}:")


async def log_is_downloaded(lab: LabPage) -> None:
    """The file has all lines, and a name that says which job it is of."""
    async with lab.page.expect_download() as begun:
        await lab.page.get_by_role("button", name="Download the whole log").click()
    download = await begun.value
    text = (await download.path()).read_text()
    assert [line for line in text.splitlines() if line.startswith("step ")] == [
        f"step {step}: loss {1 / (1 + step):.9f}" for step in range(LINES)
    ]
    assert re.fullmatch(r".*job-[0-9a-f]+.*\.(log|txt)", download.suggested_filename), download.suggested_filename
    await lab.page.get_by_role("tab", name="Log: counts").locator(".lm-TabBar-tabCloseIcon").click()


async def name_is_found(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The cell that lacks the name fails, and says which job has it; the name is loaded, and the cell runs."""
    later = lab.cells().nth(1)
    await lab.run(later)
    await expect(lab.output(later)).to_contain_text("NameError: name 'model' is not defined")
    said = re.compile(r"The job 'counts' has brought model back\. Load it with: %gq_load job-[0-9a-f]+ model")
    await expect(lab.output(later)).to_contain_text(said)
    await lab.show_output(later)
    await lab.picture(pictures / "name.png")
    await lab.output(cell).get_by_role("button", name="Load into notebook").click()
    await expect(lab.cells().nth(1)).to_contain_text("jupyter_gq.result")
    await expect(lab.output(cell)).to_contain_text("loaded into the notebook")
    await lab.run(lab.cells().nth(2))
    await expect(lab.output(lab.cells().nth(2))).to_contain_text("score 42")


async def script_has_no_cell(lab: LabPage, pictures: Path) -> None:
    """The notification of a job that was sent from a script leads to the job only, and its details to no cell."""
    await lab.keep_notifications()
    await lab.run(lab.cells().nth(3))
    toast = lab.page.locator(".Toastify__toast").filter(has_text="“train”")
    await expect(toast).to_contain_text("Trained in vision")
    await expect(toast.get_by_role("button", name="Go to cell")).to_have_count(0)
    await lab.notifications_rest()
    await lab.picture(pictures / "script.png")
    await toast.get_by_role("button", name="Details").click()
    job = lab.page.locator("#jupyter-gq-panel").get_by_role("listitem", name=re.compile("^train, Done"))
    await expect(job.get_by_role("button", name="Log of train")).to_be_visible()
    await expect(job.get_by_role("button", name="Go to cell")).to_have_count(0)
    await lab.picture(pictures / "script-details.png")
