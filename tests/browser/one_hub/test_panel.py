"""The panel with many jobs on a real hub: they are searched, filtered, and two of them cancelled at once."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import expect

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub
from tests.browser.page import LabPage

JOBS = 60


def test_two_of_many_jobs_are_found_and_cancelled(hub, tmp_path):
    asyncio.run(find_and_cancel(hub, tmp_path))


async def find_and_cancel(hub: DemoHub, pictures: Path) -> None:
    """Send many jobs, find two of them in the panel, and cancel these; save pictures of it."""
    async with (
        LabPage.opened(hub.url, "ann", "0.25", "digits.ipynb") as lab,
        Person(hub.url, "ann") as ann,
    ):
        await send_many(ann)
        panel = await lab.open_panel()
        rows = panel.get_by_role("list", name="Jobs").get_by_role("listitem")
        await expect(rows.first).to_contain_text("Running")
        await expect(panel.get_by_role("button", name=re.compile(r"Show \d+ more jobs"))).to_be_visible()
        search = panel.get_by_role("searchbox", name="Search jobs")
        await search.fill("trial-3")
        await expect(rows).to_have_count(11)
        await panel.get_by_label("State", exact=True).select_option("waiting")
        for number in (31, 35):
            await panel.get_by_role("checkbox", name=f"Choose trial-{number}", exact=True).check()
        await lab.picture(pictures / "panel-many.png")
        await panel.get_by_role("button", name="Cancel 2 chosen jobs").click()
        await lab.dialog().get_by_role("button", name="Cancel jobs").click()
        await expect(rows).to_have_count(9)
        await panel.get_by_label("State", exact=True).select_option("cancelled")
        await expect(rows).to_have_count(2)
        listed = await ann.ask_service("GET", "jobs?limit=500")
        ended = {
            job["name"] for job in listed["jobs"] if job["phase"] == "cancelled" and job["name"].startswith("trial")
        }
        assert ended == {"trial-31", "trial-35"}


async def send_many(person: Person) -> None:
    """Send the jobs: the first one runs, the others wait."""
    notebook = await person.read_notebook("digits.ipynb")
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code[0]["source"] = "import time; time.sleep(3600)"
    kernel = await person.start_kernel("digits.ipynb")
    for number in range(JOBS):
        options = {"queue": "vision", "gpus": "1", "name": f"trial-{number}"}
        await person.send(notebook, "digits.ipynb", kernel, code[0]["id"], **options)
