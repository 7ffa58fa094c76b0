"""A user who changes their mind: from the forecast of the dialog to holds, other GPUs, another queue and pauses."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.accessibility import assert_accessible
from tests.browser.cut_text import assert_nothing_is_cut
from tests.browser.layout import assert_no_hole_and_no_overlap
from tests.browser.page import MORE, WIDE, LabPage
from tests.browser.world import write_notebook

#: Uses a part of a simulated GPU until it is told to stop; saves its state once, and says how far it is.
RUNS = """\
import jupyter_gq, time
jupyter_gq.simulate_memory(5_000)
(jupyter_gq.checkpoint_dir() / "step-3").touch()
jupyter_gq.progress(0.3, text="step 3 of 10")
while not jupyter_gq.should_stop(): time.sleep(0.1)"""
DIALOG = ".jp-gq-send-dialog .jp-Dialog-content"
#: With both side bars open, it leaves the notebook a column of about 100 pixels.
SMALL = {"width": 800, "height": 700}


def test_a_job_is_weighed_held_changed_moved_and_paused(hub, tmp_path):
    asyncio.run(change_jobs(hub, tmp_path))


async def change_jobs(hub: DemoHub, pictures: Path) -> None:
    """Let one job run over its queue's quota and another one wait for it, then change both in the panel."""
    write_notebook(hub.folder / "homes/ann/change.ipynb", RUNS, RUNS + "  # waits")
    async with LabPage.opened(hub.url, "ann", "0.25", "change.ipynb") as lab:
        await runs_over_quota(lab, pictures)
        await would_wait(lab, pictures)
        panel = await lab.open_panel()
        waits = lab.row_of("waits")
        await tells_how_far_it_is(lab, pictures)
        await holds_and_releases(lab, waits)
        await limits_the_time(lab, pictures)
        await shows_links_in_a_small_window(lab, pictures)
        await corrects_what_is_refused(lab, waits, pictures)
        await moves_where_gpus_are_guaranteed(lab, waits)
        await pauses_and_resumes(lab.row_of("runs"), waits)
        await cancels_both(lab, panel, pictures)


async def runs_over_quota(lab: LabPage, pictures: Path) -> None:
    """The dialog says what runs over the quota and what would not: one click asks for that, and the user declines."""
    cell = lab.cells().nth(0)
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="1", name="runs")
    forecast = dialog.get_by_role("status", name="Forecast")
    await expect(forecast).to_contain_text("Starts now, 0.5 GPU over your queue's quota; may be paused when nlp needs")
    await expect(forecast).to_contain_text("but not within its first 5 s")
    await looks_whole(lab, pictures, "over-quota")
    await dialog.get_by_role("button", name="0.5 GPU would start now, within the quota").click()
    await expect(dialog.get_by_label("GPUs", exact=True)).to_have_value("0.5")
    await expect(forecast).to_contain_text("Starts now, within the quota.")
    await lab.fill_dialog(queue="vision", gpus="1")
    await expect(forecast).to_contain_text("0.5 GPU over your queue's quota")
    await lab.ask_for_more(expected="2 h")
    await lab.confirm()
    await expect(lab.output(cell)).to_contain_text("Running")


async def looks_whole(lab: LabPage, pictures: Path, name: str) -> None:
    """Nothing in the dialog is cut or covered in a small and a large window, and there is no hole in it."""
    for size in (SMALL, WIDE):
        await lab.page.set_viewport_size(size)
        await lab.picture(pictures / f"{name}-{size['width']}.png")
        await assert_nothing_is_cut(lab.page, DIALOG)
        await assert_no_hole_and_no_overlap(lab.page, DIALOG)


async def would_wait(lab: LabPage, pictures: Path) -> None:
    """The dialog says why the next job would wait, for what, at which place and about how long.

    A priority is part of the request.
    """
    cell = lab.cells().nth(1)
    await lab.select(cell)
    dialog = await lab.open_dialog(cell)
    await lab.fill_dialog(queue="vision", gpus="1", name="waits")
    forecast = dialog.get_by_role("status", name="Forecast")
    await expect(forecast).to_contain_text(
        re.compile(r"Would wait: .* your job runs \(1 GPU\) is in the way.*1st in line")
    )
    await expect(forecast).to_contain_text(re.compile(r"Probably starts within .+, almost surely within .+\."))
    await dialog.get_by_role("button", name=MORE).press("Enter")
    await dialog.get_by_label("Priority", exact=True).fill("-1")
    await dialog.get_by_label("Replay cell 1").uncheck()
    await expect(forecast).to_contain_text("1st in line")
    await lab.picture(pictures / "would-wait.png")
    await lab.confirm()
    await expect(lab.output(cell)).to_contain_text("1st in line")


async def tells_how_far_it_is(lab: LabPage, pictures: Path) -> None:
    """The details of a running job say how far it is, how long it takes and was expected to take, and what it saved."""
    runs = lab.row_of("runs")
    await runs.get_by_role("button", name="Details of runs").click()
    await expect(runs).to_contain_text("30 % · step 3 of 10")
    await expect(runs).to_contain_text("2 h were expected")
    await expect(runs).to_contain_text(re.compile(r"Checkpoint\s*saved (just now|\d+ (s|min) ago)"))
    await expect(runs).to_contain_text(re.compile(r"Left\s*about .+, by its progress"))
    await lab.picture(pictures / "details.png")
    await assert_nothing_is_cut(lab.page, ".jp-gq-panel")
    await runs.get_by_role("button", name="Details of runs").click()


async def holds_and_releases(lab: LabPage, waits: Locator) -> None:
    """A held job is called so in the panel and under its cell, without a forecast; released, it is in line again."""
    await waits.get_by_role("button", name="Details of waits").click()
    await expect(waits).to_contain_text("priority -1")
    await waits.get_by_role("button", name="Hold waits").click()
    for place in (waits, lab.output(lab.cells().nth(1))):
        await expect(place).to_contain_text(re.compile(r"Held.*By you since"))
        await expect(place).not_to_contain_text("Probably starts")
    await waits.get_by_role("button", name="Release waits").click()
    await expect(lab.output(lab.cells().nth(1))).to_contain_text("1st in line")


async def limits_the_time(lab: LabPage, pictures: Path) -> None:
    """A running job gets a maximum running time, which its details show; its GPUs cannot change."""
    runs = lab.row_of("runs")
    await runs.get_by_role("button", name="Details of runs").click()
    await runs.get_by_role("button", name="Change… runs").click()
    dialog = lab.dialog()
    await expect(dialog.get_by_label("GPUs", exact=True)).to_have_count(0)
    await dialog.get_by_label("Maximum time", exact=True).fill("2 h")
    await lab.picture(pictures / "maximum-time.png")
    await assert_accessible(lab.page, ".jp-Dialog-content")
    await dialog.get_by_role("button", name="Change").click()
    await expect(runs).to_contain_text("2 h over all runs, without pauses")
    await runs.get_by_role("button", name="Details of runs").click()


async def shows_links_in_a_small_window(lab: LabPage, pictures: Path) -> None:
    """Between two side bars in a small window, all links under a cell are there."""
    await lab.page.set_viewport_size(SMALL)
    await expect(lab.output(lab.cells().first).get_by_role("button", name="Details")).to_be_in_viewport()
    await lab.picture(pictures / "small.png")
    await assert_nothing_is_cut(lab.page, ".jp-gq-status-host")
    await lab.page.set_viewport_size(WIDE)


async def corrects_what_is_refused(lab: LabPage, waits: Locator, pictures: Path) -> None:
    """The dialog for other GPUs and tasks keeps what was written until it is right."""
    await waits.get_by_role("button", name="Change… waits").click()
    dialog = lab.dialog()
    await dialog.get_by_label("GPUs", exact=True).fill("lots")
    await dialog.get_by_label("Tasks", exact=True).fill("2")
    await dialog.get_by_role("button", name="Change").click()
    await expect(dialog.get_by_role("alert")).to_be_visible()
    await expect(dialog.get_by_label("GPUs", exact=True)).to_have_value("lots")
    await expect(dialog.get_by_label("Tasks", exact=True)).to_have_value("2")
    await lab.picture(pictures / "change.png")
    await assert_accessible(lab.page, ".jp-Dialog-content")
    await dialog.get_by_label("GPUs", exact=True).fill("0.25")
    await dialog.get_by_role("button", name="Change").click()
    await expect(waits).to_contain_text(re.compile(r"for 2 . 0\.25 GPU"))


async def moves_where_gpus_are_guaranteed(lab: LabPage, waits: Locator) -> None:
    """In a queue that does not use its quota the job starts, and what ran over the other queue's quota is paused."""
    await waits.get_by_role("button", name="Move… waits").click()
    await lab.dialog().get_by_role("combobox").select_option("nlp")
    await lab.dialog().get_by_role("button", name="Move").click()
    await expect(waits).to_contain_text("Running")
    await expect(lab.row_of("runs")).to_contain_text("Paused")


async def pauses_and_resumes(runs: Locator, waits: Locator) -> None:
    """A job that its owner pauses lets the other one run again, and goes on when it is released."""
    await waits.get_by_role("button", name="Hold waits").click()
    await expect(waits).to_contain_text("Held")
    await expect(runs).to_contain_text("Running")
    await waits.get_by_role("button", name="Release waits").click()
    await expect(waits).to_contain_text("Running")


async def cancels_both(lab: LabPage, panel: Locator, pictures: Path) -> None:
    """Both jobs are chosen in the panel, and cancelled after one question."""
    for name in ("runs", "waits"):
        await panel.get_by_role("checkbox", name=f"Choose {name}", exact=True).check()
    await panel.get_by_role("button", name="Cancel 2 chosen jobs").click()
    await lab.picture(pictures / "cancel.png")
    await lab.dialog().get_by_role("button", name="Cancel jobs").click()
    for cell in (lab.cells().nth(0), lab.cells().nth(1)):
        await expect(lab.output(cell)).to_contain_text("Cancelled")
