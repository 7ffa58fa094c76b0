"""The pages in a browser: what their scripts do. Behind the pure-Python proxy, which holds answers back."""

import shutil

import pytest

from tests.hub.real_hub import PATIENCE, eventually
from tests.hub.scripted_service import ticket, waiting
from tests.patience import scaled

pytestmark = pytest.mark.asyncio

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")
async def test_the_line_moves_on_the_page_can_be_left_and_leads_to_the_server(hub, person, service):
    playwright = pytest.importorskip("playwright.async_api")
    script = service.scripts["vic"]
    script.expect("POST tickets", waiting(2, ticket="nb-vic"))
    script.expect("GET tickets/*", waiting(2))
    async with playwright.async_playwright() as driver, person("vic"):
        browser = await driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = await browser.new_page()
        defects = []
        page.on("pageerror", lambda error: defects.append(str(error)))
        page.set_default_timeout(1000 * scaled(PATIENCE))
        await page.goto(f"{hub.url}/hub/login")
        await page.fill("#username_input", "vic")
        await page.fill("#password_input", "x")
        await page.click("#login_submit")
        await page.wait_for_url("**/hub/**")

        await page.goto(f"{hub.url}/hub/spawn/vic")
        await page.click("label[for=gq-1]")
        drawn = await page.eval_on_selector("#gq-choice", "bar => bar.style.width")
        assert drawn == "25%"
        await page.click("button[type=submit]")
        await page.wait_for_url("**/hub/spawn-pending/vic*")
        assert await page.inner_text("#gq-position") == "3"
        script.expect("GET tickets/*", waiting(1, sentence="<i>Two</i> minutes."))
        await page.wait_for_function("document.getElementById('gq-position').textContent === '2'")
        assert await page.inner_text("#gq-sentence") == "<i>Two</i> minutes."
        assert await page.inner_text("#gq-cancel") == "Leave the line"
        await page.click("#gq-cancel")
        await page.wait_for_url("**/hub/spawn/vic")
        await eventually(lambda: service.of("vic", "DELETE tickets/*"))

        script.expect("POST tickets", waiting(0))
        script.expect("GET tickets/*", *[waiting(0)] * 8, ticket())
        await page.click("label[for=gq-1]")
        await page.click("button[type=submit]")
        await page.wait_for_url("**/user/vic/**")

        assert defects == []
        await browser.close()
