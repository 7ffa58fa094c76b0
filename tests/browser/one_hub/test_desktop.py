"""A user who looks at other windows hears of the end of a job on the desktop."""

import asyncio
from pathlib import Path

from playwright.async_api import Locator, Response, expect

from jupyter_gq.demo.processes import DemoHub
from tests.browser.page import LabPage
from tests.browser.world import write_notebook

#: Keeps the notices that the page shows: a browser without a window shows them nowhere.
KEEP_NOTICES = """
() => {
  const Shown = window.Notification;
  window.shown = [];
  window.Notification = class extends Shown {
    constructor(title, options) {
      super(title, options);
      window.shown.push(this);
    }
  };
}
"""
#: Does what another window before the page does. A browser without a window hides no page.
HIDE = "() => Object.defineProperty(document, 'visibilityState', { get: () => 'hidden', configurable: true })"


def test_the_end_of_a_job_is_shown_on_the_desktop_while_the_page_is_hidden(hub, tmp_path):
    asyncio.run(hear_on_the_desktop(hub, tmp_path))


async def hear_on_the_desktop(hub: DemoHub, pictures: Path) -> None:
    """Allow notices, send a cell, look elsewhere, and come to the job by a click on its notice."""
    write_notebook(hub.folder / "homes/ann/desktop.ipynb", "print(6 * 7)")
    async with LabPage.opened(hub.url, "ann", "0.25", "desktop.ipynb") as lab:
        await lab.page.context.grant_permissions(["notifications"])
        await lab.page.evaluate(KEEP_NOTICES)
        box = await open_setting(lab)
        try:
            async with lab.page.expect_response(is_saved_setting):
                await box.check()
            await lab.picture(pictures / "setting.png")
            await close_settings(lab)
            cell = lab.cells().first
            await lab.select(cell)
            await lab.open_dialog(cell)
            await lab.fill_dialog(queue="vision", gpus="0.5", name="elsewhere")
            await lab.page.evaluate(HIDE)
            await lab.confirm()
            await lab.page.wait_for_function("window.shown.length > 0")
            shown = await lab.page.evaluate("window.shown.map(notice => [notice.title, notice.body])")
            assert [title for title, _ in shown] == ["elsewhere"]
            assert shown[0][1].startswith("Trained in vision on 0.5 GPU")
            await lab.page.evaluate("window.shown[0].onclick()")
            await expect(lab.row_of("elsewhere")).to_be_visible()
            await lab.picture(pictures / "led-to-the-job.png")
        finally:
            await (await open_setting(lab)).uncheck()


async def open_setting(lab: LabPage) -> Locator:
    """Return the box of the setting, in JupyterLab's settings."""
    await lab.page.keyboard.press("Control+,")
    editor = lab.page.locator(".jp-SettingsPanel:visible")
    search = lab.page.locator(".jp-PluginList:visible input")
    await search.fill("GPU training")
    await expect(editor).to_be_visible()
    return editor.get_by_label("Notify on the desktop as well")


def is_saved_setting(response: Response) -> bool:
    """Return whether the server has kept a setting of the extension: JupyterLab sends it some time after the click."""
    return response.request.method == "PUT" and "/api/settings/jupyter-gq" in response.url


async def close_settings(lab: LabPage) -> None:
    """Go back to the notebook."""
    await lab.page.get_by_role("tab", name="desktop.ipynb").click()
    await expect(lab.cells().first).to_be_visible()
