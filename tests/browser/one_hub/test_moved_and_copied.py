"""Cells whose widgets come back as text, and a notebook that is copied and moved while one of its jobs runs."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.cut_text import assert_nothing_is_cut
from tests.browser.page import WIDE, LabPage, patience
from tests.browser.world import read_cells, read_saved_cells, write_notebook
from tests.patience import eventually

#: A bar, an Output widget, a function with a slider, and a button, as they are in many notebooks.
WIDGETS = """\
import ipywidgets, math
from IPython.display import display
from tqdm.notebook import tqdm
for _ in tqdm(range(40), desc="batches"):
    pass
captured = ipywidgets.Output()
display(captured)
with captured:
    print("captured", 6 * 7)

@ipywidgets.interact(x=(0, 10))
def show_root(x=4):
    print("root", math.sqrt(x))

ipywidgets.Button(description="Stop")
"""
#: Prints something, and more once the notebook was copied and moved.
WAITS = """\
import pathlib, time
print("before", 20 + 1)
while not pathlib.Path('{moved}').exists(): time.sleep(0.1)
print("after", 20 + 2)
"""
LATE = "after 22"
#: Source of a cell that is written just before a notebook is saved.
SAVED_LAST = "written_last = True"


def test_widgets_come_back_as_text_and_outputs_find_their_cell_in_a_notebook_that_moves(hub, tmp_path):
    asyncio.run(copy_and_move(hub, tmp_path))


async def copy_and_move(hub: DemoHub, pictures: Path) -> None:
    """Send both cells; while the second job runs, copy its cell and notebook, open a link, and move the notebook."""
    home, moved = hub.folder / "homes/ann", pictures / "go-on"
    write_notebook(home / "walk.ipynb", WIDGETS, WAITS.format(moved=moved))
    (home / "elsewhere").mkdir()
    async with LabPage.opened(hub.url, "ann", "0.25", "walk.ipynb") as lab:
        await sends(lab, 0, "widgets")
        await sends(lab, 1, "travels")
        await has_static_widgets(lab, lab.cells().nth(0), pictures)
        await expect(lab.output(lab.cells().nth(1))).to_contain_text("before 21")
        await copies_cell(lab, pictures)
        await copies_notebook(lab, home, pictures)
        await opens_through_link(lab, hub, pictures)
        await moves_notebook(lab, home)
        await panel_follows(lab)
        moved.touch()
        await has_late_output_once(lab, home / "elsewhere/walk.ipynb", pictures)
        await is_missing_in_copy(lab, home / "walk-Copy1.ipynb", pictures)


async def sends(lab: LabPage, place: int, name: str) -> None:
    """Send the cell at that place."""
    cell = lab.cells().nth(place)
    await lab.select(cell)
    await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.25", name=name)
    if place > 0:
        await lab.dialog().get_by_label("Replay cell 1").uncheck()
    await lab.confirm()
    await expect(lab.output(cell)).to_contain_text(name)


async def has_static_widgets(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The job ends, and each widget is a text of what it showed, which no kernel has to keep."""
    output = lab.output(cell)
    await expect(output).to_contain_text("Trained in vision")
    for shown in (
        re.compile(r"batches.*100\s?%.*40/40"),
        "captured 42",
        "x: 4",
        "root 2.0",
        "Button(description='Stop'",
    ):
        await expect(output).to_contain_text(shown)
    await expect(output.locator(".jupyter-widgets, .jp-RenderedHTMLCommon .jupyter-widgets")).to_have_count(0)
    await expect(output).not_to_contain_text("Error displaying widget")
    await lab.picture(pictures / "widgets.png")
    await assert_nothing_is_cut(lab.page, ".jp-gq-status")


async def copies_cell(lab: LabPage, pictures: Path) -> None:
    """The copy of the cell has the output so far, and no line of the job."""
    await lab.select(lab.cells().nth(1))
    for item in ("Copy Cell", "Paste Cell Below"):
        await lab.page.get_by_role("menuitem", name="Edit", exact=True).click()
        await lab.page.get_by_role("menuitem", name=item).first.click()
    copy = lab.cells().nth(2)
    await expect(copy).to_contain_text("before 21")
    await expect(lab.output(copy).locator(".jp-gq-status")).to_have_count(0)
    await lab.picture(pictures / "copied-cell.png")


async def copies_notebook(lab: LabPage, home: Path, pictures: Path) -> None:
    """A copy of the file is opened beside the original; it has the outputs so far, and no line of the job."""
    await lab.page.keyboard.press("Control+S")
    await eventually(lambda: len(read_cells(home / "walk.ipynb")) == 3, "the copied cell in the file")
    await chooses(lab, file_of(lab, "walk.ipynb"), "Duplicate")
    await file_of(lab, "walk-Copy1.ipynb").dblclick()
    await expect(lab.page.get_by_role("tab", name="walk-Copy1.ipynb")).to_be_visible()
    await lab.kernel_is_idle()
    await expect(lab.output(lab.cells().nth(1))).to_contain_text("before 21")
    await expect(lab.output(lab.cells().nth(1)).locator(".jp-gq-status")).to_have_count(0)
    await expect(lab.output(lab.cells().nth(0)).locator(".jp-gq-status")).to_contain_text("Trained in vision")
    await lab.picture(pictures / "copy-opened.png")
    await lab.page.get_by_role("tab", name="walk.ipynb", exact=True).click()


async def opens_through_link(lab: LabPage, hub: DemoHub, pictures: Path) -> None:
    """Another page opens the notebook through a link to its file: it is no copy, and keeps the line of its job."""
    (hub.folder / "homes/ann/linked.ipynb").symlink_to("walk.ipynb")
    browser = lab.page.context.browser
    assert browser is not None
    context = await browser.new_context(viewport=WIDE, storage_state=await lab.page.context.storage_state())
    linked = LabPage(await context.new_page())
    linked.page.set_default_timeout(patience())
    async with linked.page.expect_response(re.compile("/jupyter-gq/same-file")) as answered:
        await linked.page.goto(f"{hub.url}/user/ann/lab/workspaces/linked/tree/linked.ipynb?reset")
    assert await (await answered.value).json() == {"same": True}
    await linked.notebook_is_open()
    line = linked.output(linked.cells().nth(1)).locator(".jp-gq-status")
    await expect(line.get_by_role("button", name="Cancel")).to_be_visible()
    await linked.picture(pictures / "linked.png")
    await context.close()


async def moves_notebook(lab: LabPage, home: Path) -> None:
    """The file browser moves the open notebook to another folder."""
    # A file that is new in the list moves the others to other rows: a click could meet the wrong one.
    await lab.page.get_by_role("button", name="Refresh the file browser").click()
    await expect(file_of(lab, "linked.ipynb")).to_be_visible()
    await chooses(lab, file_of(lab, "walk.ipynb"), "Cut")
    await expect(file_of(lab, "walk.ipynb")).to_contain_class("jp-mod-cut")
    await file_of(lab, "elsewhere").dblclick()
    await expect(file_of(lab, "walk.ipynb")).to_have_count(0)
    await chooses(lab, lab.page.locator(".jp-DirListing-content"), "Paste")
    await eventually((home / "elsewhere/walk.ipynb").exists, "the notebook in the other folder")


def file_of(lab: LabPage, name: str) -> Locator:
    """Return the row of a file in the file browser."""
    return lab.page.locator(".jp-DirListing-item").filter(has=lab.page.get_by_text(name, exact=True))


async def chooses(lab: LabPage, place: Locator, command: str) -> None:
    """Choose a command in the context menu of a place."""
    await place.click(button="right")
    await lab.page.get_by_role("menuitem", name=re.compile(f"^{command}")).click()


async def panel_follows(lab: LabPage) -> None:
    """The panel shows where the notebook of the job is now."""
    await lab.open_panel()
    job = lab.row_of("travels")
    await job.get_by_role("button", name="Details of travels").click()
    await expect(job.locator("dd", has_text="elsewhere/walk.ipynb")).to_be_visible()
    await lab.page.locator('.jp-SideBar [data-id="jupyter-gq-panel"]').click()


async def has_late_output_once(lab: LabPage, file: Path, pictures: Path) -> None:
    """What the job printed after the move is under its own cell, in the page and in the file at its new place."""
    await expect(lab.output(lab.cells().nth(1))).to_contain_text(LATE)
    await expect(lab.output(lab.cells().nth(1))).to_contain_text("Trained in vision")
    await lab.picture(pictures / "moved.png")
    await eventually(lambda: LATE in str(read_cells(file)), "the output in the file at its new place")
    assert [LATE in str(cell["outputs"]) for cell in await read_saved_cells(file)] == [False, True, False]
    await expect(lab.output(lab.cells().nth(2))).not_to_contain_text(LATE)
    assert not file.parents[1].joinpath("walk.ipynb").exists()


async def is_missing_in_copy(lab: LabPage, copy: Path, pictures: Path) -> None:
    """The copy of the notebook has what was there when it was made, in the page and in the file that is saved then."""
    await lab.page.get_by_role("tab", name=copy.name).click()
    await expect(lab.output(lab.cells().nth(1))).to_contain_text("before 21")
    await lab.picture(pictures / "copy.png")
    await expect(lab.output(lab.cells().nth(1))).not_to_contain_text(LATE)
    await lab.select(lab.cells().nth(0))
    for key in ("Escape", "a", "Enter"):  # a new cell above, in edit mode
        await lab.page.keyboard.press(key)
    await lab.editor_has_focus()
    await lab.page.keyboard.insert_text(SAVED_LAST)
    await lab.page.keyboard.press("Control+S")
    await eventually(
        lambda: SAVED_LAST in str(read_cells(copy)), "the cell that was written last in the file of the copy"
    )
    outputs = str((await read_saved_cells(copy))[2]["outputs"])
    assert "before 21" in outputs
    assert LATE not in outputs
