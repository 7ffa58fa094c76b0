"""What assistive technology would stumble over on the product's own parts of a page, as axe-core finds it."""

from pathlib import Path

from playwright.async_api import Page

_AXE = Path(__file__).parents[2] / "labextension/node_modules/axe-core/axe.min.js"
#: The Hub's own button on each of its pages: white on its orange.
_THE_HUBS_OWN = ".btn-jupyter"
_FIND = """
async selectors => {
    const parts = { include: selectors.map(selector => [selector]), exclude: [["%s"]] };
    const found = await axe.run(parts, { resultTypes: ["violations"] });
    return found.violations.flatMap(({ id, help, nodes }) =>
        nodes.map(node => `${id}: ${help}: ${node.html} ${node.any.map(check => check.message).join(" ")}`));
}
""".replace("%s", _THE_HUBS_OWN)


async def assert_accessible(page: Page, *selectors: str) -> None:
    """Fail with each finding of axe-core in the elements that these CSS selectors find; each must find one."""
    for selector in selectors:
        assert await page.locator(selector).count(), f"{selector} finds nothing"
    # Evaluated, not added as a script: the pages' own policy refuses scripts from elsewhere.
    await page.evaluate(_AXE.read_text(encoding="utf-8"))
    found = await page.evaluate(_FIND, list(selectors))
    assert found == [], "\n".join(found)
