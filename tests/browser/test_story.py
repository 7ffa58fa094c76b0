"""A user's whole path in the browser: a share, a cell that trains, a closed server, the plot under the cell."""

import asyncio
import re
from pathlib import Path

from playwright.async_api import Locator, expect

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.story import keep_in_use, make_notebook, run_alongside, wait_for_end_of_use

from .accessibility import assert_accessible
from .page import MORE, WIDE, HubPage, LabPage, patience, running_browser
from .world import LENT_SOON, ONE_GPU, WARNED_SOON, running_demo, write_notebook

DIALOG = ".jp-gq-send-dialog .jp-Dialog-content"
BOBS_CELLS = ("import jupyter_gq\njupyter_gq.simulate_memory(6_000)\nbatches = 41", "print(batches + 1)")
TRAINING = "EPOCHS = "  # near the top: an editor keeps lines out of sight out of the page


def test_a_cell_trains_while_its_server_is_closed_and_its_plot_is_found_under_it(tmp_path):
    asyncio.run(whole_path(tmp_path))


async def whole_path(pictures: Path) -> None:
    """Go the whole path and save what the user sees on it."""
    async with running_demo(epochs=300) as hub, running_browser() as browser:
        page = await browser.new_page(viewport=WIDE)
        hub_page, lab = HubPage(page, hub.url, "ann"), LabPage(page)
        await hub_page.log_in("digits.ipynb")
        await expect(page.get_by_text("0.5 GPU", exact=False).first).to_be_visible()
        await lab.picture(pictures / "options.png")
        await assert_accessible(page, "#spawn_form")
        await hub_page.choose("0.25")
        await lab.notebook_is_open()
        assert lab.refused == [], "the lab's first connection to its kernel fails"
        cell = await lab.walk_to(TRAINING, running=True)
        await lab.offers_sending_in_its_menus(cell)
        dialog = await lab.open_dialog(cell)
        await lab.fill_dialog(queue="vision", gpus="1", name="digits")
        await expect(dialog).to_contain_text(re.compile("starts now|Starts now"))
        await lab.picture(pictures / "dialog.png")
        await assert_accessible(page, DIALOG)
        await asks_for_more_than_gpus(lab, pictures)
        await lab.confirm()
        await expect(lab.output(cell)).to_contain_text("digits")
        await expect(lab.output(cell)).to_contain_text(re.compile(r"epoch [3-9]\d of"))
        panel, job = await lab.open_panel(), lab.row_of("digits")
        await expect(job).to_contain_text("Running")
        await remembers_what_was_asked_for(lab, cell)
        await lab.show_output(cell)
        await lab.picture(pictures / "cell-running.png")
        await shows_details(panel, job, pictures)
        await page.keyboard.press("Control+S")

        await hub_page.stop_server()
        await hub_page.open_options("digits.ipynb")
        await hub_page.choose("0.25")
        await lab.notebook_is_open()
        cell = await lab.walk_to(TRAINING)
        await expect(lab.output(cell)).to_contain_text("Trained in vision", timeout=2 * patience())
        await expect(lab.output(cell).locator("img").first).to_be_visible()
        await lab.show_output(cell)
        await lab.picture(pictures / "cell-done.png")


async def shows_details(panel: Locator, job: Locator, pictures: Path) -> None:
    """The row of a job says what it asked for; panel, row and the line under the cell can be used without eyes."""
    await job.get_by_role("button", name="Details of digits").click()
    await expect(job).to_contain_text("1 GPU, 1 CPU core, 512 MiB of memory, expected to run 45 min")
    await panel.screenshot(path=pictures / "panel.png")
    await assert_accessible(panel.page, "#jupyter-gq-panel", ".jp-gq-status")


async def asks_for_more_than_gpus(lab: LabPage, pictures: Path) -> None:
    """What no node has is told at its field; what it has lets the job start now."""
    dialog = lab.dialog()
    await lab.ask_for_more(cpus="100000", memory="512 MiB", expected="soon")
    field = dialog.get_by_label("Expected duration", exact=True)
    await expect(field).to_have_attribute("aria-invalid", "true")
    await expect(dialog.get_by_role("alert")).to_contain_text("“soon” is not a length of time")
    await field.fill("45 min")
    await expect(dialog.get_by_role("alert")).to_contain_text(re.compile(r"Ask for \d+ CPU cores? or less"))
    await expect(dialog.get_by_label("CPU", exact=True)).to_have_attribute("aria-invalid", "true")
    await lab.ask_for_more(cpus="1", memory="512 MiB", expected="45 min")
    await expect(dialog).to_contain_text("Starts now")
    await lab.page.set_viewport_size({**WIDE, "height": 960})  # the whole dialog is in the picture
    await lab.picture(pictures / "dialog-more.png")
    await lab.page.set_viewport_size(WIDE)
    await assert_accessible(lab.page, DIALOG)


async def remembers_what_was_asked_for(lab: LabPage, cell: Locator) -> None:
    """The next dialog proposes it, and says so while that section is closed."""
    await lab.select(cell)
    await cell.get_by_role("button", name="Send to training").click()
    await lab.dialog().get_by_role("button", name="Keep both").click()
    await expect(lab.dialog().get_by_role("button", name=MORE)).to_contain_text("1 CPU core · 512 MiB · about 45 min")
    await lab.dialog().get_by_role("button", name="Cancel").click()


def test_an_idle_notebook_counts_down_while_somebody_waits_and_keep_it_keeps_it(tmp_path):
    asyncio.run(countdown(tmp_path))


async def countdown(pictures: Path) -> None:
    """Let bob's notebook be idle while carol waits for its share; bob keeps it. Save pictures of bob's pages."""
    async with (
        running_demo(epochs=10, idle_rule=WARNED_SOON) as hub,
        Person(hub.url, "ann") as ann,
        Person(hub.url, "carol") as carol,
        LabPage.opened(hub.url, "bob", "0.25", "digits.ipynb") as lab,
    ):
        await ann.start_server("0.5")
        kernel = await ann.start_kernel("digits.ipynb")
        async with (
            run_alongside(ann.run_cell(kernel, "import time; time.sleep(3600)")),
            run_alongside(carol.start_server("0.5")) as waits,
        ):
            keep = lab.page.get_by_role("button", name="Keep it")
            await expect(keep).to_be_visible()
            lost = "Your server stops: variables are lost, files are kept. Run a cell or press Keep it to keep it."
            await expect(lab.page.get_by_text(lost).first).to_be_visible()
            status = lab.page.get_by_role("button", name="Idle warning")
            await expect(status).to_have_attribute("title", re.compile("variables are lost.*carol's server"))
            await lab.notifications_rest()
            await lab.picture(pictures / "countdown.png")
            await keep.click()
            await expect(keep).not_to_be_visible()
            (bobs,) = (await notebooks_of_bob(hub.url))["notebooks"]
            assert (bobs["phase"], bobs["warning"]) == ("running", None)
            assert not waits.done()


def test_an_idle_notebook_lends_its_gpu_and_a_cell_waits_until_it_is_back(tmp_path):
    asyncio.run(lending(tmp_path))


async def lending(pictures: Path) -> None:
    """Let bob's idle GPU be lent to a job of ann's until bob runs a cell. Save pictures of bob's page."""
    async with running_demo(epochs=10, idle_rule=LENT_SOON, settings=ONE_GPU) as hub, Person(hub.url, "ann") as ann:
        write_notebook(hub.folder / "homes/bob/lunch.ipynb", *BOBS_CELLS)
        await ann.start_server("0")
        async with LabPage.opened(hub.url, "bob", "1", "lunch.ipynb") as lab:
            anns_kernel = await ann.start_kernel("digits.ipynb")
            async with Person(hub.url, "bob") as bob:
                await wait_for_end_of_use(bob, run_first_cell(lab))
                (session,) = (await bob._lab("GET", "api/sessions")).json()
                async with keep_in_use(bob, session["kernel"]["id"]):
                    await send_borrower(ann, anns_kernel)
            cell = lab.active_cell()
            await is_counted_down(lab)
            await is_lent(lab, pictures)
            await lab.keep_notifications()
            await lab.page.keyboard.press("Control+Enter")
            waits = lab.output(cell).get_by_role("status")
            await expect(waits).to_contain_text("makes room. This cell starts by itself when the GPU is back")
            await lab.picture(pictures / "waiting.png")
            await expect(lab.output(cell)).to_have_text("42", timeout=2 * patience())
            await expect(lab.page.get_by_text("Your GPU is back.")).to_be_visible()


async def run_first_cell(lab: LabPage) -> None:
    """Run the first cell and go to the next one."""
    await lab.run(lab.cells().first)
    await lab.select(lab.cells().nth(1))


async def send_borrower(ann: Person, kernel: str) -> None:
    """Send a job that needs a few seconds to give its GPU back, so that the wait of a cell can be seen."""
    source = "import time, jupyter_gq\nwhile not jupyter_gq.should_stop():\n    time.sleep(0.2)\ntime.sleep(6)"
    options = {"name": "embeddings", "queue": "vision", "gpus": "0.5"}
    await ann.send(make_notebook(source), "digits.ipynb", kernel, "cell", **options)


async def is_counted_down(lab: LabPage) -> None:
    """Notification and status bar count down to the time at which the GPU is lent."""
    await expect(lab.page.get_by_role("button", name="Keep it")).to_be_visible()
    await expect(lab.page.get_by_role("button", name="Idle warning")).to_contain_text("Share taken in")


async def is_lent(lab: LabPage, pictures: Path) -> None:
    """Notification and status bar say that the GPU is lent, to whom, and what brings it back."""
    share = lab.page.get_by_role("button", name="GPU share")
    await expect(share).to_contain_text("lent, comes back with the next cell", timeout=2 * patience())
    await expect(lab.page.get_by_role("button", name="Keep it")).not_to_be_visible()
    await expect(lab.page.get_by_role("alert").get_by_text("waited for a GPU")).to_be_visible()
    await lab.notifications_rest()
    await lab.picture(pictures / "suspended.png")
    await assert_accessible(lab.page, ".jp-gq-status-item")


async def notebooks_of_bob(url: str) -> dict[str, list[dict[str, object]]]:
    """Bob's notebook, as the service sees it."""
    async with Person(url, "bob") as bob:
        return await bob.ask_service("GET", "notebooks")
