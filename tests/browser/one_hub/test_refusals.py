"""Cells that cannot train, or may fail: the page says why before anything is queued."""

import asyncio
import json
import re
from pathlib import Path

from playwright.async_api import expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.page import LabPage
from tests.browser.world import write_notebook

#: The source of a cell, its kind, and a word of the refusal.
CELLS = [("", "code", "empty"), ("for", "code", "syntax"), ("# a title", "markdown", "code cell")]
#: Cells that run first, each with something to note, and the cell that is sent.
NOTED = ("name = input('who? ')", "!pip install nothing", "print(name)")
#: More of them, with their notes before a cell has run here.
ACTS = {
    "%%writefile made.py\nx = 1": "writes made.py: runs in the job",
    "import getpass\nkey = getpass.getpass()": "asks for input; nobody can answer in a job, so it will fail",
    "!uv pip install nothing": "installs packages; it does so in every run, in the same environment",
    "table.to_csv('made.csv')": "writes made.csv: runs in the job",
    "import sqlite3\nsqlite3.connect('made.db').execute('create table t (x)')": "changes a database: runs in the job",
}


def test_what_cannot_train_is_refused_and_what_may_fail_is_noted_before_it_is_queued(hub, tmp_path):
    asyncio.run(refuse_each(hub, tmp_path))


async def refuse_each(hub: DemoHub, pictures: Path) -> None:
    """Send each of the cells by the menu, and close what says why it cannot train; then open the dialog with notes."""
    for number, (source, kind, _) in enumerate(CELLS):
        write_notebook(hub.folder / f"homes/ann/refused-{number}.ipynb", source, kind=kind)
    write_notebook(hub.folder / "homes/ann/notes.ipynb", *NOTED)
    write_notebook(hub.folder / "homes/ann/acts.ipynb", *ACTS, "for", "print(1)")
    async with LabPage.opened(hub.url, "ann", "0.25", "refused-0.ipynb") as lab:
        for number, (_, _, message) in enumerate(CELLS):
            if number > 0:
                await lab.open_notebook(f"refused-{number}.ipynb")
            await lab.select(lab.cells().first)
            await lab.page.get_by_role("menuitem", name="Run").click()
            await lab.page.get_by_role("menuitem", name="Send to training").click()
            await expect(lab.dialog().get_by_text(re.compile(message, re.I)).first).to_be_visible()
            # To a button: the page focuses one of them a moment after the text is there.
            await lab.dialog().get_by_role("button").last.press("Escape")
            await expect(lab.dialog()).to_have_count(0)
        await lab.open_notebook("notes.ipynb")
        await notes_follow_their_cells(lab, pictures)
        await lab.open_notebook("acts.ipynb")
        await each_act_is_noted(lab, pictures)
        await missing_kernel_is_named(lab, hub.folder / "homes/ann", pictures)


async def each_act_is_noted(lab: LabPage, pictures: Path) -> None:
    """Each cell that acts says what it does, and one that cannot be read keeps all of them from being sent."""
    cell = lab.cells().nth(len(ACTS) + 1)
    await lab.select(cell)
    await cell.get_by_role("button", name="Send to training").click()
    dialog = lab.dialog()
    refused = dialog.get_by_text("The replayed cell “for” would fail at once, so nothing was sent.")
    await expect(refused).to_be_visible()
    await lab.picture(pictures / "replayed-syntax.png")
    await dialog.get_by_label(f"Replay cell {len(ACTS) + 1}").uncheck()
    await expect(refused).to_have_count(0)
    first = dialog.get_by_role("region", name="Cells that run first").get_by_role("listitem")
    for place, note in enumerate(ACTS.values()):
        await expect(first.nth(place)).to_contain_text(note)
    await lab.picture(pictures / "acts.png")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(dialog).to_have_count(0)
    await lab.run(lab.cells().first)
    await lab.select(cell)
    await lab.open_dialog(cell)
    await expect(first.first).to_contain_text("writes made.py: ran once already; runs again in the job")
    await dialog.get_by_role("button", name="Cancel").click()
    await expect(dialog).to_have_count(0)


async def missing_kernel_is_named(lab: LabPage, home: Path, pictures: Path) -> None:
    """In a notebook of another language, opened without a kernel, each press of the button is answered."""
    write_notebook(home / "other-language.ipynb", "x <- 1")
    notebook = json.loads((home / "other-language.ipynb").read_text())
    notebook["metadata"]["kernelspec"] = {"name": "ir", "display_name": "R", "language": "R"}
    (home / "other-language.ipynb").write_text(json.dumps(notebook))
    await lab.go_to_notebook("other-language.ipynb")
    await lab.dialog().get_by_role("button", name="No Kernel").click()
    await expect(lab.dialog()).to_have_count(0)
    cell = lab.cells().first
    await lab.select(cell)
    for _ in range(2):
        await cell.get_by_role("button", name="Send to training").click()
        await expect(lab.dialog().get_by_text("The notebook has no kernel")).to_be_visible()
        await lab.picture(pictures / "no-kernel.png")
        await lab.dialog().get_by_role("button", name="Close").click()
        await expect(lab.dialog()).to_have_count(0)


async def notes_follow_their_cells(lab: LabPage, pictures: Path) -> None:
    """What may go wrong is written at each cell that runs first, and goes when the cell is left out."""
    cell = lab.cells().nth(2)
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    asks, installs = dialog.get_by_text("asks for input"), dialog.get_by_text("installs packages")
    await expect(asks).to_be_visible()
    await expect(installs).to_be_visible()
    await lab.picture(pictures / "notes.png")
    await dialog.get_by_label("Replay cell 1").uncheck()
    await expect(asks).to_have_count(0)
    await dialog.get_by_label("Replay cell 1").check()
    await expect(asks).to_be_visible()
    await expect(installs).to_be_visible()
    await lab.page.keyboard.press("Escape")
    await expect(dialog).to_have_count(0)
