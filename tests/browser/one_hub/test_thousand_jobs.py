"""The panel with a thousand jobs is searched, filtered and sorted, and never keeps the page from answering.

Elements are found by CSS here: a search by roles among a thousand rows would itself keep the page for a second.
"""

import asyncio
import re
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub
from tests.browser.cut_text import assert_nothing_is_cut
from tests.browser.page import LabPage
from tests.browser.tasks import watched_tasks
from tests.browser.world import write_notebook
from tests.patience import slowness

from .conftest import cancel_jobs

JOBS, IN_A_SWEEP, CANCELLED = 1000, 200, 300
WAIT_OR_RUN = JOBS - CANCELLED
#: Milliseconds of processor time that one task of the page may take on a quiet, fast machine; the choice of all jobs
#: takes about 80 there. Beside other programs the same work takes two or three times as long, processor time included,
#: and how slow the machine was during a task is known only roughly.
LONGEST_TASK = 500
Act = Callable[[Locator], Awaitable[None]]
#: The jobs of this user are in the panels of no other test.
USER = "bob"


def test_the_panel_of_a_thousand_jobs_answers_at_once(hub, tmp_path):
    asyncio.run(look_through(hub, tmp_path))


async def look_through(hub: DemoHub, pictures: Path) -> None:
    """Send the jobs, then do with the panel all that a long list is for; save pictures of it."""
    write_notebook(hub.folder / "homes" / USER / "thousand.ipynb", "rate = 0", "import time; time.sleep(3600)")
    spent: dict[str, float] = {}
    async with LabPage.opened(hub.url, USER, "0.25", "thousand.ipynb") as lab, Person(hub.url, USER) as person:
        try:
            sent = await send_all(person)
            panel = lab.page.locator("#jupyter-gq-panel")
            for name, act in acts(lab, person, sent).items():
                async with watched_tasks(lab.page) as tasks:
                    await act(panel)
                spent[name] = tasks.longest / slowness()
                await assert_nothing_is_cut(lab.page, "#jupyter-gq-panel")
                await lab.picture(pictures / f"thousand-{name}.png")
        finally:
            await cancel_jobs(hub.url, USER)
    assert max(spent.values()) < LONGEST_TASK, f"on a quiet machine {spent}, of {LONGEST_TASK} at most"


def acts(lab: LabPage, person: Person, sent: list[str]) -> dict[str, Act]:
    """Return what is done one after the other, each from where the one before has left the panel."""

    async def open_panel(panel: Locator) -> None:
        await lab.open_panel()
        await expect(choice_of_all(panel)).to_be_visible()

    async def change_one(panel: Locator) -> None:
        await person.ask_extension("POST", "cancel", {"jobs": sent[1:2]})
        await expect(choice_of_all(panel, WAIT_OR_RUN - 1)).to_be_visible()

    return {
        "opened": open_panel,
        "searched": search,
        "filtered": filter_by_state,
        "sorted": sort,
        "changed": change_one,
        "shown": show_all,
        "chosen": choose_all,
    }


async def send_all(person: Person) -> list[str]:
    """Send the jobs as sweeps: one runs, some are cancelled, the others wait. Return their ids."""
    notebook = await person.read_notebook("thousand.ipynb")
    kernel = await person.start_kernel("thousand.ipynb")
    sent: list[str] = []
    for number in range(JOBS // IN_A_SWEEP):
        body = {
            "key": uuid.uuid4().hex,
            "notebook_path": "thousand.ipynb",
            "kernel_id": kernel,
            "notebook": notebook,
            "mode": "notebook",
            "targets": [],
            "prefix": [],
            "queue": "nlp",
            "gpus": "1",
            "name": f"sweep {number}",
            "grid": {"rate": [str(value) for value in range(IN_A_SWEEP)]},
        }
        answer = await person.ask_extension("POST", "sweep", body)
        sent += [each["job"] for each in answer["jobs"]]
    await person.ask_extension("POST", "cancel", {"jobs": sent[-CANCELLED:]})
    return sent


async def search(panel: Locator) -> None:
    """Find a job of each sweep by its name, letter by letter."""
    field = panel.locator(".jp-gq-search")
    await field.press_sequentially(f"rate={IN_A_SWEEP - 1}")
    await expect(rows(panel)).to_have_count(JOBS // IN_A_SWEEP)
    await field.fill("")
    await expect(choice_of_all(panel)).to_be_visible()


async def filter_by_state(panel: Locator) -> None:
    """Look at the jobs of several states, and at all again."""
    state = panel.locator('select[aria-label="State"]')
    for value, word in (("cancelled", "Cancelled"), ("waiting", "Waiting"), ("running", "Running")):
        await state.select_option(value)
        await expect(rows(panel).first).to_contain_text(word)
    await state.select_option("")
    await expect(choice_of_all(panel)).to_be_visible()


async def sort(panel: Locator) -> None:
    """Sort by each property, the last one being that of the beginning."""
    by = panel.locator('select[aria-label="Sort by"]')
    for key, first in (("name", "sweep 0"), ("newest", "Cancelled"), ("queue", "Cancelled"), ("state", "Running")):
        await by.select_option(key)
        await expect(rows(panel).first).to_contain_text(first)


async def show_all(panel: Locator) -> None:
    """Draw all rows."""
    more = panel.locator(".jp-gq-more button", has_text=re.compile(r"Show \d+ more jobs"))
    # The button presses itself once it is in view, and the last one goes then: a click would wait for it for ever.
    while (drawn := await rows(panel).count()) < JOBS:
        await more.evaluate_all("buttons => buttons.forEach(button => button.scrollIntoView())")
        await expect(rows(panel)).not_to_have_count(drawn)
    await expect(rows(panel)).to_have_count(JOBS)


async def choose_all(panel: Locator) -> None:
    """Choose all jobs that have not ended while all rows are drawn, and none of them again."""
    left = WAIT_OR_RUN - 1
    await choice_of_all(panel, left).check()
    await expect(panel.locator(".jp-gq-all", has_text=f"{left} chosen")).to_be_visible()
    await choice_of_all(panel, left).uncheck()
    await expect(panel.locator(".jp-gq-all", has_text=f"Choose all {left}")).to_be_visible()


def choice_of_all(panel: Locator, count: int = WAIT_OR_RUN) -> Locator:
    """The box for all jobs that have not ended; its label has their number, so it is there once all jobs have come."""
    return panel.locator(f'input[aria-label="Choose all {count} listed jobs that have not ended"]')


def rows(panel: Locator) -> Locator:
    """The rows of the list."""
    return panel.locator("[data-job]")
