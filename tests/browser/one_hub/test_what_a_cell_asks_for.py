"""Cells that ask for more: several tasks, values of a sweep, secrets and variables, and a service that is silent."""

import asyncio
import contextlib
import io
import itertools
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
from playwright.async_api import Locator, expect

from jupyter_gq.app import main
from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.page import MORE, LabPage
from tests.browser.world import write_notebook

DIALOG = ".jp-gq-send-dialog .jp-Dialog-content"
VALUES = "rate = 0.1\ndepth = 3"
#: The job with the largest rate runs until a file is there.
SWEPT = """
import os, time
while rate > 0.3 and not os.path.exists(FILE):
    time.sleep(0.1)
loss = (rate - 0.2) ** 2 + depth / 100
"""
#: Each of the tasks stops in the middle of its bar until a file is there.
BARS = """
import os, time, jupyter_gq
from tqdm import tqdm
jupyter_gq.simulate_memory(5_000)
print("task", os.environ["RANK"])
for step in tqdm(range(50), desc="epochs", mininterval=0):
    while step > 20 and not os.path.exists(FILE):
        time.sleep(0.1)
"""
ENVIRONMENT = "import os\nprint('token', os.environ['HF_TOKEN'], 'and', os.environ['OF_THE_TEST'])"
FAILS = "print(1 / (depth - 3))"
RAISED = "“fails”: The cell raised ZeroDivisionError: division by zero. Correct the cell and send it again."


def test_a_sweep_tasks_and_secrets_go_from_the_dialog_to_the_results(hub, tmp_path, monkeypatch):
    with monkeypatch.context() as terminal:
        terminal.setenv("HOME", str(hub.folder / "homes/ann"))
        terminal.setattr("sys.stdin", io.StringIO("hunter2-of-ann"))
        assert main(["secret", "set", "HF_TOKEN"]) == 0
    asyncio.run(ask_for_more(hub, tmp_path))


async def ask_for_more(hub: DemoHub, folder: Path) -> None:
    """Send what the cells of a notebook ask for. Save pictures of it."""
    # JupyterLab hides the toolbar of a cell whose first line reaches below it, and this line is long.
    file = f"# waits\nFILE = {str(folder / 'go-on')!r}"
    cells = (VALUES, f"{file}\n{SWEPT}", f"{file}\n{BARS}", ENVIRONMENT, FAILS)
    write_notebook(hub.folder / "homes/ann/more.ipynb", *cells)
    async with LabPage.opened(hub.url, "ann", "0.25", "more.ipynb") as lab:
        await lab.run(lab.cells().first)
        await sweep_is_compared(hub, lab, lab.cells().nth(1), folder)
        await tasks_have_bars_and_logs(lab, lab.cells().nth(2), folder)
        await environment_goes_along(lab, lab.cells().nth(3), folder)
        await failure_is_told_and_sent_again(lab, lab.cells().nth(4), folder)
        await silence_is_told(hub, lab, lab.cells().nth(3), folder)


async def sweep_is_compared(hub: DemoHub, lab: LabPage, cell: Locator, pictures: Path) -> None:
    """A wrong value is told while it is written; jobs run one at a time, are compared, and the rest is cancelled."""
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.1", name="grid")
    await dialog.get_by_role("button", name="Send as sweep").press("Enter")
    rate = dialog.get_by_label("rate", exact=True)
    await rate.fill("0.1, lots")
    await expect(dialog.get_by_role("alert")).to_contain_text("“lots” is not a number")
    await expect(rate).to_have_attribute("aria-invalid", "true")
    await rate.fill("0.1, 0.2, 0.4")
    await expect(dialog.get_by_role("alert")).to_have_count(0)
    await dialog.get_by_label("At once").fill("1")
    await dialog.get_by_label("Compare by").fill("loss")
    await dialog.get_by_label("Best is").select_option("min")
    await expect(dialog).to_contain_text("Sends 3 jobs as one group. At most 1 of them runs at the same time;")
    await lab.picture(pictures / "sweep.png")
    await assert_accessible(lab.page, DIALOG)
    await lab.confirm()
    table = lab.output(cell).get_by_role("group", name="Sweep grid")
    await expect(table).to_contain_text("2 done, 1 running")
    await jobs_took_turns(hub.url, 3)
    await expect(table.get_by_role("row").nth(1)).to_contain_text("0.03")
    await expect(table.get_by_role("row").nth(2)).to_contain_text("0.04")
    await table.get_by_role("button", name="Cancel the rest").click()
    await lab.dialog().get_by_role("button", name="Cancel jobs").click()
    await expect(table).to_contain_text("2 done, 1 cancelled")
    await expect(table.get_by_role("button", name="Cancel the rest")).to_have_count(0)
    await lab.picture(pictures / "sweep-table.png")
    await assert_accessible(lab.page, ".jp-gq-sweep")


async def jobs_took_turns(url: str, count: int) -> None:
    """The service knows that one job of the sweep runs at a time, and each began when the one before had ended."""
    async with Person(url, "ann") as ann:
        page = await ann.ask_service("GET", "jobs?limit=100")
    assert isinstance(page, dict)
    jobs = sorted((job for job in page["jobs"] if job["name"].startswith("grid")), key=lambda job: job["started_at"])
    assert [job["group_parallel"] for job in jobs] == [1] * count
    for before, after in itertools.pairwise(jobs):
        assert before["finished_at"] <= after["started_at"], "the queue has room for all of them at once"


async def tasks_have_bars_and_logs(lab: LabPage, cell: Locator, folder: Path) -> None:
    """Two tasks are one job, with the progress of a tqdm bar, a chart of their GPU use, and a log of each."""
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.25", name="bars")
    await dialog.get_by_role("button", name=MORE).press("Enter")
    await dialog.get_by_label("Tasks", exact=True).fill("2")
    await lab.confirm()
    await expect(lab.output(cell)).to_contain_text(re.compile(r"2 . 0\.25 GPU"))
    await expect(lab.output(cell)).to_contain_text("epochs: 2")
    await expect(lab.output(cell).get_by_role("progressbar", name="Progress")).to_be_visible()
    await lab.output(cell).get_by_role("button", name="Details").click()
    job = lab.row_of("bars")
    await expect(job.get_by_role("img", name="GPU use over")).to_be_visible()
    await lab.output(cell).get_by_role("button", name="Log").click()
    log = lab.page.locator(".jp-gq-log")
    await expect(log).to_contain_text("task 0")
    await expect(log).to_contain_text("task 1")
    await lab.picture(folder / "tasks.png")
    await lab.page.get_by_label("Task", exact=True).select_option("Task 1")
    await expect(log).to_contain_text("task 1")
    await expect(log).not_to_contain_text("task 0")
    (folder / "go-on").touch()
    await expect(lab.output(cell)).to_contain_text("Trained in vision")


async def environment_goes_along(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The variable and the stored secret that the cell reads are ticked; the output hides the value of the secret."""
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.25", name="token")
    environment = dialog.get_by_role("button", name="Environment")
    await expect(environment).to_contain_text("HF_TOKEN, OF_THE_TEST and the usual variables")
    await environment.press("Enter")
    await expect(dialog.get_by_role("checkbox", name="HF_TOKEN")).to_be_checked()
    await expect(dialog.get_by_role("checkbox", name="WANDB_API_KEY")).to_be_disabled()
    await lab.picture(pictures / "environment.png")
    await assert_accessible(lab.page, DIALOG)
    await lab.confirm()
    await expect(lab.output(cell)).to_contain_text("token *** and a variable")


async def failure_is_told_and_sent_again(lab: LabPage, cell: Locator, pictures: Path) -> None:
    """The notification of a failed job leads to its cell; the one that waits for a correction sends the cell again."""
    await lab.select(cell)
    await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="0.25", name="fails")
    await lab.confirm()
    told = lab.page.get_by_role("alert").filter(has_text="ZeroDivisionError")
    await expect(told).to_contain_text(RAISED)
    await expect(told.get_by_role("button", name="Go to cell")).to_be_visible()
    await lab.output(cell).get_by_role("button", name="Fix and send again").click()
    offer = lab.page.get_by_role("alert").filter(has_text="Correct the cell, then send “fails” again.")
    await lab.picture(pictures / "failed.png")
    await offer.get_by_role("button", name="Send again").click()
    await expect(lab.dialog().get_by_label("Name", exact=True)).to_have_value("fails")
    await expect(offer).to_have_count(0)
    await lab.dialog().get_by_role("button", name="Cancel").click()


async def silence_is_told(hub: DemoHub, lab: LabPage, cell: Locator, pictures: Path) -> None:
    """While the service is frozen, a double click on the button is told to wait; then it opens the dialog."""
    silent = lab.page.get_by_text("The GPU scheduler has not answered for some seconds.").first
    await lab.select(cell)
    with frozen_service(hub):
        await cell.get_by_role("button", name="Send to training").dblclick()
        await expect(silent).to_be_visible()
        await lab.picture(pictures / "frozen.png")
    await expect(lab.dialog().get_by_role("button", name="Send to training")).to_be_enabled()
    await lab.dialog().get_by_role("button", name="Cancel").click()


@contextlib.contextmanager
def frozen_service(hub: DemoHub) -> Iterator[None]:
    """Stop the process of the scheduler service for a while, as a machine without memory does."""
    commands = {process: _read_command(process) for process in psutil.Process(hub.pid).children(recursive=True)}
    (service,) = (
        process
        for process, command in commands.items()
        if {"jupyter_gq.app", "service"} <= set(command) and "keep_running.py" not in " ".join(command)
    )
    os.kill(service.pid, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(service.pid, signal.SIGCONT)


def _read_command(process: psutil.Process) -> list[str]:
    """Return the words of a command; none for a process that ends just now."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []
