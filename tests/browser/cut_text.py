"""Text of the product's parts of a page that a user cannot read: it is cut, clipped or outside of the window."""

from playwright.async_api import Page

#: A name or a line of code may end with an ellipsis if pointing at it shows the whole; anything else may not be cut.
_FIND = """
selectors => {
    const ruler = document.createElement("canvas").getContext("2d");
    const widthOf = (text, style) => {
        ruler.font = `${style.fontStyle} ${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
        return ruler.measureText(text).width;
    };
    const room = (element, style) =>
        element.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const words = element => element.textContent.replace(/\\s+/g, " ").trim();
    const shown = element =>
        element.checkVisibility({ checkVisibilityCSS: true }) && element.clientWidth !== 1;
    const scrolls = value => value === "auto" || value === "scroll";
    const isShort = (element, style) => style.textOverflow === "ellipsis" && element.title.trim() !== "";
    const problems = [];
    const tell = (element, what) =>
        problems.push(`${what}: <${element.tagName.toLowerCase()} class="${element.className}"> ${words(element)}`);
    const checkChoice = (element, style) => {
        const text = element.selectedOptions[0]?.text ?? "";
        if (widthOf(text, style) > room(element, style) + 1) {
            tell(element, `the choice "${text}" is cut`);
        }
    };
    const checkField = (element, style) => {
        if (element.value === "" && widthOf(element.placeholder, style) > room(element, style) + 1) {
            tell(element, `the placeholder "${element.placeholder}" is cut`);
        }
    };
    const check = (element, root) => {
        const style = getComputedStyle(element);
        if (element instanceof HTMLSelectElement) {
            return checkChoice(element, style);
        }
        if (element instanceof HTMLInputElement) {
            return checkField(element, style);
        }
        const wide = element.scrollWidth > element.clientWidth + 1 && element.clientWidth > 0;
        if (wide && style.overflowX !== "visible" && !isShort(element, style) && words(element) !== "") {
            tell(element, scrolls(style.overflowX) ? "scrolls sideways" : "is cut");
        }
        const tall = element.scrollHeight > element.clientHeight + 1 && element.clientHeight > 0;
        const isCutAtLine = style.webkitLineClamp !== "none" && element.title.trim() !== "";
        if (tall && ["hidden", "clip"].includes(style.overflowY) && !isCutAtLine && words(element) !== "") {
            tell(element, "is clipped");
        }
        const [own, frame] = [element.getBoundingClientRect(), root.getBoundingClientRect()];
        if (own.width > 0 && (own.right > frame.right + 1 || own.right > innerWidth + 1 || own.left < -1)) {
            tell(element, "ends outside of its frame");
        }
    };
    for (const root of selectors.flatMap(selector => [...document.querySelectorAll(selector)])) {
        [root, ...root.querySelectorAll("*")]
            .filter(element => element instanceof HTMLElement && shown(element))
            .forEach(element => check(element, root));
    }
    return problems;
}
"""


async def assert_nothing_is_cut(page: Page, *selectors: str) -> None:
    """Fail with each text that is cut in the elements that these CSS selectors find; each must find one."""
    for selector in selectors:
        assert await page.locator(selector).count(), f"{selector} finds nothing"
    found = await page.evaluate(_FIND, list(selectors))
    assert found == [], "\n".join(found)
