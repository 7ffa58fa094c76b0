"""How the product's parts of JupyterLab look: in light and dark, in a small and a large window, with many jobs."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Page, expect

from jupyter_gq.demo.person import Person
from jupyter_gq.domain.json_types import JsonObject

from .accessibility import assert_accessible
from .cut_text import assert_nothing_is_cut
from .layout import assert_no_hole_and_no_overlap
from .page import MORE, HubPage, LabPage, running_browser
from .world import running_demo

SIZES = {"800": {"width": 800, "height": 700}, "1600": {"width": 1600, "height": 1000}}
THEMES = ("light", "dark")
DIALOG = ".jp-gq-send-dialog .jp-Dialog-content"
PANEL = "#jupyter-gq-panel"
TOAST = ".jp-Notification-Toast, .Toastify__toast"
TRAINING = "EPOCHS = "
LONG_NAME = "a long name: embeddings of the second corpus, with the larger model and warm restarts"
#: Uses a quarter of a simulated GPU.
RUNS = """
import jupyter_gq, time
jupyter_gq.simulate_memory(20_000)
while True:
    sum(range(1_000_000))
    time.sleep(0.05)
"""
#: How many jobs of each kind are sent, by their code.
JOBS = {"done": "print(42)", "failed": "raise ValueError('the loss is not a number')", "runs": RUNS, "waits": RUNS}
COUNTS = {"done": 5, "failed": 4, "runs": 2, "waits": 19}


def test_no_text_is_cut_in_light_and_dark_in_small_and_large_windows(tmp_path):
    asyncio.run(take_looks(tmp_path))


async def take_looks(pictures: Path) -> None:
    """Check all parts of the product in each theme and size, and save a picture of each."""
    async with running_demo(epochs=300) as hub, running_browser() as browser:
        follow_the_browsers_theme(hub.folder / "homes/ann")
        page = await browser.new_page(viewport=SIZES["1600"])
        await HubPage(page, hub.url, "ann").log_in("digits.ipynb")
        async for look in looks(page):
            await expect(page.get_by_text("0.5 GPU", exact=False).first).to_be_visible()
            await take(page, pictures / f"options-{look}.png", "#spawn_form")
        await HubPage(page, hub.url, "ann").choose("0.25")
        lab = LabPage(page)
        await expect(lab.cells().first).to_be_visible()
        async with Person(hub.url, "ann") as ann:
            await send_many(ann)
            await look_at_lab(lab, ann, pictures)


#: A notification that does not slide out of the window.
SHOWN_TOAST = '.Toastify__toast:not([class*="slide-exit"])'


def follow_the_browsers_theme(home: Path) -> None:
    """Let JupyterLab be light or dark as the browser wants it."""
    settings = home / ".jupyter/lab/user-settings/@jupyterlab/apputils-extension/themes.jupyterlab-settings"
    settings.parent.mkdir(parents=True, exist_ok=True)
    settings.write_text(json.dumps({"adaptive-theme": True}))


async def looks(page: Page) -> AsyncIterator[str]:
    """Give the page each size and theme; yield the name of each look."""
    for width, size in SIZES.items():
        await page.set_viewport_size(size)
        for theme in THEMES:
            await page.emulate_media(color_scheme=theme)
            # JupyterLab and the Hub say on the body, or on the root, which theme they show.
            light, bootstrap = str(theme == "light").lower(), f'[data-bs-theme="{theme}"]'
            await expect(page.locator(f'[data-jp-theme-light="{light}"], {bootstrap}').first).to_be_attached()
            await page.wait_for_timeout(500)  # the page is laid out anew
            yield f"{theme}-{width}"


async def take(page: Page, file: Path, *selectors: str) -> None:
    """Save a picture, then fail if something in these parts of the page is cut, covered or cannot be read."""
    file.parent.mkdir(parents=True, exist_ok=True)
    await page.screenshot(path=file)
    await assert_nothing_is_cut(page, *selectors)
    if SHOWN_TOAST not in selectors:  # notifications of JupyterLab lie on each other until the mouse is there
        await assert_no_hole_and_no_overlap(page, *selectors)
    await assert_accessible(page, *selectors)


async def look_at_lab(lab: LabPage, ann: Person, pictures: Path) -> None:
    """Check dialog, panel, details, the line under a cell and a notification in each look."""
    page = lab.page
    cell = await lab.walk_to(TRAINING)
    await lab.open_dialog(cell)
    async for look in looks(page):
        await take(page, pictures / f"dialog-{look}.png", DIALOG)
    await lab.fill_dialog(queue="vision", gpus="1", name=LONG_NAME)
    async with unfolded(lab):
        async for look in looks(page):
            await take(page, pictures / f"dialog-all-{look}.png", DIALOG)
        async with refused(lab):
            async for look in looks(page):
                await take(page, pictures / f"dialog-errors-{look}.png", DIALOG)
    await lab.confirm()
    await expect(lab.output(cell).locator(".jp-gq-status")).to_be_visible()
    await lab.show_output(cell)
    async for look in looks(page):
        await lab.show_output(cell)
        await take(page, pictures / f"cell-{look}.png", ".jp-gq-status")
    panel = await lab.open_panel()
    await expect(panel.get_by_role("listitem").filter(has_text="waits-0")).to_be_visible()
    async for look in looks(page):
        await take(page, pictures / f"panel-{look}.png", PANEL)
    await send_sweep(ann)
    for name in ("grid rate=0.1", "failed-0", "done-0", "runs-0"):
        await panel.get_by_role("button", name=f"Details of {name}").click()
    runs = panel.get_by_role("listitem").filter(has_text="runs-0")
    await expect(runs.get_by_role("img", name="GPU use over")).to_be_visible()
    async for look in looks(page):
        await take(page, pictures / f"details-{look}.png", PANEL)
    await cancel_all(ann)
    async for look in looks(page):
        await send_one(ann, f"{look}: {LONG_NAME}", JOBS["failed"])
        await page.locator(SHOWN_TOAST).filter(has_text=f"{look}:").hover()  # a notification under the mouse stays
        await lab.notifications_rest()
        await take(page, pictures / f"toast-{look}.png", SHOWN_TOAST)


@asynccontextmanager
async def unfolded(lab: LabPage) -> AsyncIterator[None]:
    """Open all sections of the dialog, and let variables go along, until the block ends."""
    dialog = lab.dialog()
    for name in (MORE, "Files", "Environment"):
        await dialog.get_by_role("button", name=name).first.press("Enter")
    await dialog.get_by_role("radio", name="Take the variables along").check()
    await expect(dialog.get_by_role("button", name="Send to training")).to_be_enabled()
    yield
    await dialog.get_by_role("radio").first.check()
    await expect(dialog.get_by_role("button", name="Send to training")).to_be_enabled()


@asynccontextmanager
async def refused(lab: LabPage) -> AsyncIterator[None]:
    """Ask for what is impossible, each beside its field, until the block ends."""
    await lab.ask_for_more(cpus="lots", expected="soon")
    await lab.dialog().get_by_role("button", name="Send as sweep").press("Enter")
    await expect(lab.dialog().get_by_role("alert").first).to_be_visible()
    yield
    await lab.dialog().get_by_role("button", name="Send as sweep").press("Enter")
    await lab.ask_for_more()


async def send_many(ann: Person) -> None:
    """Send jobs that come to be done, failed, running, paused, waiting, held and cancelled."""
    sent: dict[str, list[str]] = {}
    for kind, count in COUNTS.items():
        sent[kind] = [str((await send_one(ann, f"{kind}-{number}", JOBS[kind]))["id"]) for number in range(count)]
        if kind == "failed":
            await until_over(ann, [*sent["done"], *sent["failed"]])
    for job in (sent["runs"][1], *sent["waits"][2:4]):
        await ann.ask_extension("PATCH", f"jobs/{job}", {"held": True})
    for job in sent["waits"][4:7]:
        await ann.ask_extension("DELETE", f"jobs/{job}")


async def cancel_all(ann: Person) -> None:
    """Cancel all jobs that are not over, so that the next one starts at once."""
    listed = await ann.ask_service("GET", "jobs?limit=500")
    for job in listed["jobs"]:
        if job["finished_at"] is None:
            await ann.ask_extension("DELETE", f"jobs/{job['id']}")


async def send_one(ann: Person, name: str, source: str) -> JsonObject:
    """Send one cell with this source as a job of one GPU."""
    notebook = await ann.read_notebook("digits.ipynb")
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    code[0]["source"] = source
    kernel = await ann.start_kernel("digits.ipynb")
    return await ann.send(notebook, "digits.ipynb", kernel, code[0]["id"], queue="vision", gpus="1", name=name)


async def send_sweep(ann: Person) -> None:
    """Send one cell as a sweep of three jobs."""
    notebook = await ann.read_notebook("digits.ipynb")
    (cell, *_) = [each for each in notebook["cells"] if each["cell_type"] == "code"]
    cell["source"] = "rate = 0.1"
    kernel = await ann.start_kernel("digits.ipynb")
    body = {
        "key": "sweep",
        "notebook_path": "digits.ipynb",
        "kernel_id": kernel,
        "mode": "replay",
        "notebook": notebook,
        "targets": [cell["id"]],
        "prefix": [],
        "grid": {"rate": ["0.1", "0.2", "0.4"]},
        "group_metric": "rate",
        "group_mode": "min",
        "returns": ["rate"],
    }
    await ann.ask_extension("POST", "sweep", {**body, "queue": "vision", "gpus": "1", "name": "grid"})


async def until_over(ann: Person, jobs: list[str]) -> None:
    """Wait until all these jobs are over."""
    for job in jobs:
        while (await ann.job(job))["finished_at"] is None:
            await asyncio.sleep(0.3)
