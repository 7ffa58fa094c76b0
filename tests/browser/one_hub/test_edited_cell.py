"""A cell that is edited while its job runs: nothing is written below other code, and the line says where it is."""

import asyncio
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.cut_text import assert_nothing_is_cut
from tests.browser.page import LabPage
from tests.browser.world import read_cells, write_notebook
from tests.patience import eventually

#: Prints something, and more once the cell was edited.
SENT = """
import pathlib, time
print("before the edit")
while not pathlib.Path('{edited}').exists(): time.sleep(0.1)
print("after the edit")
"""
EDIT = "# other code"
SAID = "Edited since it was sent: the output is in the log."


def test_the_line_of_an_edited_cell_says_where_the_output_is(hub, tmp_path):
    asyncio.run(edit_while_it_runs(hub, tmp_path))


async def edit_while_it_runs(hub: DemoHub, pictures: Path) -> None:
    """Edit a cell whose job runs, look at its line once the job is done, also after a reload, and undo the edit."""
    edited = hub.folder / "homes/ann/edited"
    notebook = hub.folder / "homes/ann/edit.ipynb"
    write_notebook(notebook, SENT.format(edited=edited))
    async with LabPage.opened(hub.url, "ann", "0", "edit.ipynb") as lab:
        cell = lab.cells().first
        await lab.open_dialog(cell)
        await lab.fill_dialog(queue="vision", gpus="0", name="edited")
        await lab.confirm()
        await expect(lab.output(cell)).to_contain_text("before the edit")
        editor = cell.locator(".cm-content")
        await editor.click()
        await editor.press("Control+End")
        await editor.press_sequentially(EDIT)
        await expect(editor).to_contain_text(EDIT)
        edited.touch()
        for _ in range(2):
            await expect(lab.output(cell)).to_contain_text("Done")
            await expect(lab.output(cell)).to_contain_text(SAID)
            await expect(lab.output(cell)).not_to_contain_text("after the edit")
            await assert_accessible(lab.page, ".jp-gq-status")
            await assert_nothing_is_cut(lab.page, ".jp-gq-status")
            await lab.picture(pictures / "edited.png")
            await lab.page.keyboard.press("Control+s")
            await eventually(lambda: EDIT in str(read_cells(notebook)), "the edit in the file")
            await lab.page.reload()
            await lab.notebook_is_open()
        await lab.output(cell).get_by_role("button", name="Log").click()
        await expect(lab.page.locator(".jp-gq-log")).to_contain_text("after the edit")
        await undo_edit(lab, cell)


async def undo_edit(lab: LabPage, cell: Locator) -> None:
    """Delete what was written into the cell: the output comes at once, and the sentence goes."""
    await cell.locator(".cm-content").click()
    await lab.page.keyboard.press("Control+End")
    for _ in EDIT:
        await lab.page.keyboard.press("Backspace")
    await expect(lab.output(cell)).to_contain_text("after the edit")
    await expect(lab.output(cell)).not_to_contain_text(SAID)
