"""The one page object: what a user does in the hub's pages and in JupyterLab, by roles and names."""

import asyncio
import contextlib
import os
import re
import shutil
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import quote

from playwright.async_api import Browser, Error, Locator, Page, WebSocket, async_playwright, expect

from tests.kept_logs import LOGS
from tests.patience import PATIENCE, eventually, scaled

WIDE = {"width": 1280, "height": 860}
#: Beginning of the name of the line that opens what is seldom asked for; "and 9 more" is another button.
MORE = re.compile(r"^More\b")


def patience() -> float:
    """Return the deadline of the browser's waits, in milliseconds."""
    return 1000 * scaled(PATIENCE)


def chromium() -> str:
    """The browser of this machine."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    raise FileNotFoundError("The browser tests need Chromium. Install it with: sudo apt-get install chromium")


@contextlib.asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """Chromium without a window."""
    with tempfile.TemporaryDirectory(prefix="jupyter-gq-chromium-") as folder:
        LOGS.add("chromium", Path(folder), "chromium.log", "page-*.png")
        try:
            async with _started_browser(Path(folder, "chromium.log")) as browser:
                try:
                    yield browser
                except Exception:
                    await _draw_pages(browser, Path(folder))
                    raise
        finally:
            LOGS.release("chromium", Path(folder))


@contextlib.asynccontextmanager
async def _started_browser(log: Path) -> AsyncIterator[Browser]:
    """The same, with a log that has the messages of its pages' consoles."""
    expect.set_options(timeout=patience())
    async with async_playwright() as playwright:
        arguments = [
            "--enable-logging",
            f"--log-file={log}",
            "--disable-gpu",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
        ]
        if os.geteuid() == 0:
            arguments.append("--no-sandbox")
        browser = await playwright.chromium.launch(executable_path=chromium(), args=arguments)
        try:
            yield browser
        finally:
            await browser.close()


async def _draw_pages(browser: Browser, folder: Path) -> None:
    """Save what the user of each open page sees, for the folder of a failed test."""
    pages = [page for context in browser.contexts for page in context.pages]
    for number, page in enumerate(pages, 1):
        with contextlib.suppress(Error):
            await page.screenshot(path=folder / f"page-{number}.png", timeout=patience())


class HubPage:
    """The hub's own pages for one user."""

    def __init__(self, page: Page, url: str, user: str) -> None:
        self.page, self.url, self.user = page, url, user
        page.set_default_timeout(patience())

    async def log_in(self, notebook: str = "") -> None:
        """Log in; ends on the options page, after which the hub opens that notebook (or the lab's start page)."""
        opened = f"/user/{self.user}/lab/workspaces/test/tree/{notebook}?reset" if notebook else ""
        options = f"/hub/spawn/{self.user}" + (f"?next={quote(opened, safe='')}" if opened else "")
        await self.page.goto(f"{self.url}/hub/login?next={quote(options, safe='')}")
        await self.page.get_by_label("Username").fill(self.user)
        await self.page.get_by_label("Password").fill("demo")
        await self.page.get_by_role("button", name="Sign in").click()

    async def choose(self, gpus: str) -> None:
        """Choose a share on the options page and start."""
        await self.page.locator(f'input[name="gpus"][value="{gpus}"]').check(force=True)
        await self.page.get_by_role("button", name="Start").click()

    async def open_options(self, notebook: str) -> None:
        """Go to the options page, after which the hub opens that notebook."""
        opened = f"/user/{self.user}/lab/workspaces/test/tree/{notebook}?reset"
        await self.page.goto(f"{self.url}/hub/spawn/{self.user}?next={quote(opened, safe='')}")

    async def stop_server(self) -> None:
        """Stop the server on the hub's home page and wait until it is gone."""
        # The page's scripts come after it: a button that is clicked before them does nothing.
        await self.page.goto(f"{self.url}/hub/home", wait_until="networkidle")
        await self.page.locator("#stop").click()
        await expect(self.page.locator("#start")).to_have_text("Start My Server")


class LabPage:
    """JupyterLab with one notebook open."""

    def __init__(self, page: Page) -> None:
        self.page = page
        #: Errors of connections to kernels.
        self.refused: list[str] = []
        self._sockets: list[WebSocket] = []
        page.on("websocket", self._watch)
        # Playwright does not close the connections of a page that another one replaces.
        page.on("domcontentloaded", lambda _: self._sockets.clear())

    def _watch(self, socket: WebSocket) -> None:
        if "/api/kernels/" in socket.url:
            socket.once("framereceived", lambda _: self._sockets.append(socket))
            socket.on("socketerror", lambda error: self.refused.append(error))

    @classmethod
    @contextlib.asynccontextmanager
    async def opened(cls, url: str, user: str, gpus: str, notebook: str) -> AsyncIterator["LabPage"]:
        """Log in with a fresh browser, take a share and open a notebook."""
        async with running_browser() as browser:
            page = await browser.new_page(viewport=WIDE)
            hub = HubPage(page, url, user)
            lab = cls(page)
            await hub.log_in(notebook)
            # An earlier test may have started the server: then the hub opens the notebook at once.
            options = page.locator("#spawn_form")
            await expect(options.or_(lab.cells()).first).to_be_visible()
            if await options.is_visible():
                await hub.choose(gpus)
            await lab.notebook_is_open()
            yield lab

    async def notebook_is_open(self) -> None:
        """Wait until the notebook is there and its kernel is connected and idle.

        The lab shows a kernel as idle before it is connected, and what is run then may be lost: so wait for a
        connection that has brought something.
        """
        await expect(self.cells().first).to_be_visible()
        await eventually(self._has_connection, "a connection to the kernel", every=0.1)
        await self.kernel_is_idle()

    def _has_connection(self) -> bool:
        return not all(socket.is_closed() for socket in self._sockets)

    async def open_notebook(self, notebook: str) -> None:
        """Open another notebook in the same page, in place of the present one."""
        await self.go_to_notebook(notebook)
        await self.notebook_is_open()

    async def go_to_notebook(self, notebook: str) -> None:
        """Load the page of another notebook, which may have no kernel."""
        self.page.once("dialog", lambda question: asyncio.ensure_future(question.accept()))  # unsaved outputs
        base, _, _ = self.page.url.partition("/lab/")
        await self.page.goto(f"{base}/lab/workspaces/test/tree/{notebook}?reset")
        await expect(self.page.get_by_role("tab", name=notebook)).to_be_visible()

    async def keep_notifications(self) -> None:
        """Let no notification close itself, as JupyterLab does while the user looks at another window."""
        await self.page.evaluate("document.hasFocus = () => false; window.dispatchEvent(new Event('blur'))")

    async def notifications_rest(self) -> None:
        """Wait until no notification slides into the window or out of it."""
        await expect(self.page.locator('[class*="slide-enter"], [class*="slide-exit"]')).to_have_count(0)

    # --- cells --------------------------------------------------------------------------------------------------

    def cells(self) -> Locator:
        """All cells of the notebook."""
        return self.page.locator(".jp-Notebook:visible .jp-Cell")

    def active_cell(self) -> Locator:
        """The cell that the user is in. (Cells out of sight are not in the page at all.)"""
        return self.page.locator(".jp-Notebook:visible .jp-Cell.jp-mod-active")

    async def walk_to(self, text: str, *, running: bool = False) -> Locator:
        """Go down from the first cell to the code cell with that text; with `running`, run each cell on the way."""
        await self.cells().first.click(position={"x": 5, "y": 5})
        await self.page.keyboard.press("Escape")
        while text not in await self._source_of_active_cell():
            number = await self.active_cell().get_attribute("data-windowed-list-index")
            cell = self.page.locator(f'.jp-Notebook:visible .jp-Cell[data-windowed-list-index="{number}"]')
            if running and await self._is_code(cell):
                await self.run(cell)
            await self.page.keyboard.press("j")
            await expect(self.active_cell()).not_to_have_attribute("data-windowed-list-index", str(number))
        return self.active_cell()

    async def _source_of_active_cell(self) -> str:
        """The source of a code cell, once the lab has drawn it; "" for a cell of another kind."""
        cell = self.active_cell()
        return await cell.locator(".jp-InputArea-editor").inner_text() if await self._is_code(cell) else ""

    async def _is_code(self, cell: Locator) -> bool:
        return bool(await cell.evaluate("cell => cell.classList.contains('jp-CodeCell')"))

    async def select(self, cell: Locator) -> None:
        """Make it the active cell."""
        await cell.locator(".jp-InputPrompt").click()

    async def run(self, cell: Locator) -> None:
        """Run a code cell in the notebook's own kernel until it has ended, and stay in it.

        The lab shows the kernel as idle until the kernel has begun: so wait for the number that the cell gets.
        """
        prompt = cell.locator(".jp-InputPrompt")
        before = await prompt.inner_text()
        await self.select(cell)
        await self.page.keyboard.press("Control+Enter")
        await expect(prompt).not_to_have_text(before)
        await expect(prompt).to_have_text(re.compile(r"\[\d+\]"))
        await self.kernel_is_idle()

    async def editor_has_focus(self) -> None:
        """Wait until the active cell takes what is typed: the lab gives it the focus some time after a command."""
        await expect(self.active_cell().locator(".cm-content")).to_be_focused()

    async def kernel_is_idle(self) -> None:
        """Wait for the kernel. What was sent to it just now may not have made it busy yet: see `run`."""
        await expect(self.page.locator(".jp-Notebook-ExecutionIndicator:visible")).to_have_attribute(
            "data-status", "idle"
        )

    async def restart_kernel(self) -> None:
        """Restart the kernel by the notebook's menu, and wait until the new one is idle."""
        await self.page.get_by_role("menuitem", name="Kernel", exact=True).click()
        await self.page.get_by_role("menuitem", name="Restart Kernel…").click()
        async with self.page.expect_response(re.compile("/api/kernels/[^/]+/restart")):  # it is idle until then
            await self.dialog().get_by_role("button", name="Confirm Kernel Restart").click()
        await self.kernel_is_idle()

    # --- training -----------------------------------------------------------------------------------------------

    async def offers_sending_in_its_menus(self, cell: Locator) -> None:
        """The cell's context menu, the notebook's toolbar and the palette have it too."""
        await cell.locator(".jp-InputPrompt").click(button="right")
        await expect(self.page.get_by_role("menuitem", name="Send to training")).to_be_visible()
        await self.page.keyboard.press("Escape")
        toolbar = self.page.locator(".jp-NotebookPanel-toolbar:visible")
        await expect(toolbar.get_by_role("button", name="Send to training")).to_be_visible()
        await self.page.keyboard.press("Control+Shift+C")
        await self.page.keyboard.type("send to training")
        await expect(self.page.locator(".lm-CommandPalette-item", has_text="Training").first).to_be_visible()
        await self.page.keyboard.press("Escape")
        await self.select(cell)

    def dialog(self) -> Locator:
        """The dialog that sends a cell."""
        return self.page.get_by_role("dialog")

    async def open_dialog(self, cell: Locator) -> Locator:
        """Press the button of the active cell's toolbar; return the dialog once it is usable."""
        await cell.get_by_role("button", name="Send to training").click()
        dialog = self.dialog()
        await expect(dialog.get_by_role("button", name="Send to training")).to_be_enabled()
        return dialog

    async def fill_dialog(self, *, queue: str, gpus: str, name: str = "") -> None:
        """Fill in the dialog."""
        dialog = self.dialog()
        if name:
            await dialog.get_by_label("Name", exact=True).fill(name)
        await dialog.get_by_label("Queue", exact=True).select_option(queue)
        await dialog.get_by_label("GPUs", exact=True).select_option(gpus)

    async def ask_for_more(self, *, cpus: str = "", memory: str = "", expected: str = "") -> None:
        """Open the section of what is seldom asked for, if it is closed, and fill it in."""
        dialog = self.dialog()
        more = dialog.get_by_role("button", name=MORE)
        if await more.get_attribute("aria-expanded") == "false":
            await more.press("Enter")
        for label, text in {"CPU": cpus, "Memory": memory, "Expected duration": expected}.items():
            await dialog.get_by_label(label, exact=True).fill(text)

    async def confirm(self) -> None:
        """Press the dialog's primary button."""
        await self.dialog().get_by_role("button", name="Send to training").click()

    def output(self, cell: Locator) -> Locator:
        """What stands under the cell."""
        return cell.locator(".jp-Cell-outputArea")

    async def show_output(self, cell: Locator) -> None:
        """Scroll to the end of what stands under the cell, without a notification before it."""
        shown = self.page.get_by_role("button", name="Hide notification")
        # Some close themselves before they could be clicked one after the other.
        await shown.evaluate_all("buttons => buttons.forEach(button => button.click())")
        await expect(shown).to_have_count(0)
        await self.output(cell).evaluate("output => output.scrollIntoView({block: 'end'})")
        await self.page.wait_for_timeout(500)  # the notebook settles its scroll position

    async def open_panel(self) -> Locator:
        """Show the side panel."""
        panel = self.page.locator("#jupyter-gq-panel")
        if not await panel.is_visible():
            await self.page.locator('.jp-SideBar [data-id="jupyter-gq-panel"]').click()
        await expect(panel).to_be_visible()
        return panel

    def row_of(self, job: str) -> Locator:
        """The panel's row of the job with that name; the rows of other jobs may have the name in their sentences."""
        rows = self.page.locator("#jupyter-gq-panel").get_by_role("list", name="Jobs").get_by_role("listitem")
        return rows.and_(self.page.get_by_role("listitem", name=re.compile(f"^{re.escape(job)}, ")))

    async def time_to_first_output(self, text: str, *, queue: str, gpus: str, place: int = 0) -> float:
        """Seconds from the click in the dialog until `text` stands under the code cell at `place`; clears it before."""
        cell = self.page.locator(".jp-Notebook:visible .jp-CodeCell").nth(place)
        await self.select(cell)
        await self.page.get_by_role("menuitem", name="Edit").click()
        await self.page.get_by_role("menuitem", name="Clear Cell Output").click()
        await expect(self.output(cell)).not_to_contain_text(text)
        await self.open_dialog(cell)
        await self.fill_dialog(queue=queue, gpus=gpus)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self.confirm()
        await self.output(cell).locator(".jp-OutputArea-output", has_text=text).last.wait_for()
        return loop.time() - began

    async def picture(self, file: Path) -> None:
        """Save what the user sees."""
        file.parent.mkdir(parents=True, exist_ok=True)
        await self.page.screenshot(path=file)
