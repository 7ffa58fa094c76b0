"""Cells that cannot train: the page says why before anything is queued."""

import asyncio
import re

from playwright.async_api import expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.page import LabPage
from tests.browser.world import write_notebook

#: The source of a cell, its kind, and a word of the refusal.
CELLS = [("", "code", "empty"), ("for", "code", "syntax"), ("# a title", "markdown", "code cell")]


def test_a_cell_that_cannot_train_is_refused_before_it_is_queued(hub):
    asyncio.run(refuse_each(hub))


async def refuse_each(hub: DemoHub) -> None:
    """Send each of the cells by the menu, and close what says why it cannot train."""
    for number, (source, kind, _) in enumerate(CELLS):
        write_notebook(hub.folder / f"homes/ann/refused-{number}.ipynb", source, kind=kind)
    async with LabPage.opened(hub.url, "ann", "0.25", "refused-0.ipynb") as lab:
        for number, (_, _, message) in enumerate(CELLS):
            if number > 0:
                await lab.open_notebook(f"refused-{number}.ipynb")
            await lab.select(lab.cells().first)
            await lab.page.get_by_role("menuitem", name="Run").click()
            await lab.page.get_by_role("menuitem", name="Send to training").click()
            await expect(lab.dialog().get_by_text(re.compile(message, re.I)).first).to_be_visible()
            await lab.page.keyboard.press("Escape")
            await expect(lab.dialog()).to_have_count(0)
