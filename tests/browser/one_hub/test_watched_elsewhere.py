"""Jobs that are watched outside of their cells: one that uses nothing of its GPU, and one whose tasks come and go."""

import asyncio
import contextlib
import re
from collections.abc import Iterator
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.cut_text import assert_nothing_is_cut
from tests.browser.page import MORE, WIDE, LabPage
from tests.browser.world import write_notebook
from tests.replaced_files import write_at_once

SMALL, LARGE = {"width": 800, "height": 700}, {"width": 1600, "height": 1000}
#: Holds its GPU and uses nothing of it until it is told to stop.
IDLE = """\
import jupyter_gq, time
jupyter_gq.simulate_memory(5_000)
print("task", jupyter_gq.tasks().number)
while not jupyter_gq.should_stop(): time.sleep(0.1)
"""
#: Needs half of the only GPU for training, which an elastic job gives back task by task.
OTHER = "import jupyter_gq, time\nwhile not jupyter_gq.should_stop(): time.sleep(0.1)"
TOAST = ".Toastify__toast"


def test_jobs_are_watched_and_stopped_in_other_places_than_their_cells(hub, tmp_path):
    asyncio.run(watch(hub, tmp_path))


async def watch(hub: DemoHub, pictures: Path) -> None:
    """Hear of a job that uses no GPU, stop it in JupyterLab's panel, and see another one shrink and grow."""
    write_notebook(hub.folder / "homes/ann/watch.ipynb", IDLE, f"{IDLE}# elastic", OTHER)
    async with LabPage.opened(hub.url, "ann", "0.25", "watch.ipynb") as lab:
        idle, elastic, other = (lab.cells().nth(place) for place in range(3))
        await sends(lab, idle, "idle", gpus="0.25")
        with settings(hub, "c.TrainingQueues.unused_after = 1"):
            await says_that_no_gpu_is_used(lab, idle, pictures)
        await is_stopped_in_running_panel(lab, idle, pictures)
        await sends(lab, elastic, "elastic", gpus="0.5", tasks=2, least=1)
        await is_one_job_with_two_logs(lab, elastic, pictures)
        await shrinks_and_grows(lab, elastic, other, pictures)


async def sends(lab: LabPage, cell: Locator, name: str, *, gpus: str, queue: str = "vision", **tasks: int) -> None:
    """Send a cell, and no other one before it."""
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    await lab.fill_dialog(queue=queue, gpus=gpus, name=name)
    for box in await dialog.get_by_label(re.compile("^Replay cell")).all():
        if await box.is_checked():
            await box.click()
        await expect(box).not_to_be_checked()
    if tasks:
        await dialog.get_by_role("button", name=MORE).press("Enter")
        await dialog.get_by_label("Tasks", exact=True).fill(str(tasks["tasks"]))
        await dialog.get_by_label("At least", exact=True).fill(str(tasks["least"]))
    await lab.confirm()
    await expect(lab.output(cell)).to_contain_text("Running")


@contextlib.contextmanager
def settings(hub: DemoHub, line: str) -> Iterator[None]:
    """Add a line to the Hub's configuration, which the running service reads, and take it away again."""
    before = hub.config.read_text()
    write_at_once(hub.config, f"{before}\n{line}\n")
    try:
        yield
    finally:
        write_at_once(hub.config, before)


async def says_that_no_gpu_is_used(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """A notification, the line under the cell and the panel say so, and for how long; the job goes on."""
    said = re.compile(r"No GPU used for (less than a minute|[1-9]\d* min), although the job holds 0\.25 GPU\.")
    toast = lab.page.locator(TOAST).filter(has_text="“idle”")
    await expect(toast).to_contain_text(said)
    await expect(lab.output(cell)).to_contain_text(said)
    await lab.notifications_rest()
    await lab.picture(pictures / "unused.png")
    await assert_nothing_is_cut(lab.page, TOAST, ".jp-gq-status")
    await toast.get_by_role("button", name="Details").click()
    panel = lab.page.locator("#jupyter-gq-panel")
    await expect(panel.get_by_role("listitem", name="idle, Running, 0.25 GPU")).to_contain_text(said)
    for width, size in (("800", SMALL), ("1600", LARGE)):
        await lab.page.set_viewport_size(size)
        await lab.picture(pictures / f"unused-{width}.png")
        await assert_nothing_is_cut(lab.page, "#jupyter-gq-panel", ".jp-gq-status-host")
    await lab.page.set_viewport_size(WIDE)
    await assert_accessible(lab.page, "#jupyter-gq-panel")


async def is_stopped_in_running_panel(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """JupyterLab's list of what runs has the job; its button asks, and cancels it."""
    await lab.page.locator('.jp-SideBar [data-id="jp-running-sessions"]').click()
    job = lab.page.locator(".jp-RunningSessions-item").filter(has_text="idle · watch.ipynb")
    await expect(job).to_contain_text("Running")
    await job.hover()
    await lab.picture(pictures / "running-panel.png")
    await job.get_by_title("Cancel job").click()
    await lab.dialog().get_by_role("button", name="Cancel job").click()
    await expect(lab.output(cell)).to_contain_text("Cancelled")
    await expect(job).to_have_count(0)


async def is_one_job_with_two_logs(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """It starts with as many tasks as have room, as one job; each task has a log."""
    await expect(lab.output(cell)).to_contain_text(re.compile(r"2 . 0\.5 GPU"))
    await lab.output(cell).get_by_role("button", name="Log").click()
    log = lab.page.locator(".jp-gq-log")
    for task in (0, 1):
        await lab.page.get_by_label("Task", exact=True).select_option(f"Task {task}")
        await expect(log).to_contain_text(f"task {task}")
        await expect(log).not_to_contain_text(f"task {1 - task}")
    await lab.picture(pictures / "logs.png")
    await lab.page.get_by_role("tab", name="Log: elastic").locator(".lm-TabBar-tabCloseIcon").click()


async def shrinks_and_grows(lab: LabPage, cell: Locator, other: Locator, pictures: Path) -> None:
    """It gives a task to a queue that needs its quota, and takes the GPU again when that one has ended."""
    panel = await lab.open_panel()
    rows = panel.get_by_role("listitem", name=re.compile("^elastic, Running"))
    await sends(lab, other, "owner", gpus="0.5", queue="nlp")
    for place in (lab.output(cell), rows):
        await expect(place).to_contain_text(re.compile(r"1 of 2 . 0\.5 GPU"))
    await expect(rows).to_have_count(1)
    await lab.picture(pictures / "shrunk.png")
    await assert_nothing_is_cut(lab.page, "#jupyter-gq-panel", ".jp-gq-status")
    await lab.output(other).get_by_role("button", name="Cancel").click()
    await lab.dialog().get_by_role("button", name="Cancel job").click()
    for place in (lab.output(cell), rows):
        await expect(place).to_contain_text(re.compile(r"2 . 0\.5 GPU"))
    await lab.picture(pictures / "grown.png")
