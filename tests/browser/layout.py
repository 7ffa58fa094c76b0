"""Holes and overlaps in the product's parts of a page: a reader sees an empty stretch, or one row on top of another."""

from playwright.async_api import Page

#: Pixels between what is shown and what is shown next below it, above which a reader takes the page for broken. The
#: forecast keeps the room of two lines while there is none, so that nothing jumps when it comes.
HOLE = 80
#: Pixels by which neighbours may touch: borders overlap, and a letter reaches out of its line.
TOUCH = 3
#: What a user sees of an element: its own words, a control, a picture. Parents are as large as what they hold.
_FIND = """
([selectors, most, touch]) => {
    const controls = "input, select, textarea, button, img, svg, canvas, progress, meter, hr";
    const words = element => element.textContent.replace(/\\s+/g, " ").trim().slice(0, 60);
    const shown = element => element.checkVisibility({ checkVisibilityCSS: true, checkOpacity: true });
    const name = element => `<${element.tagName.toLowerCase()} class="${element.className}"> ${words(element)}`;
    const isInFlow = element => {
        const style = getComputedStyle(element);
        return !["absolute", "fixed", "sticky"].includes(style.position) && style.float === "none"
            && !style.display.startsWith("inline") && style.display !== "contents";
    };
    const problems = [];
    const findOverlaps = parent => {
        const children = [...parent.children].filter(child => shown(child) && isInFlow(child))
            .map(child => [child, child.getBoundingClientRect()])
            .filter(([, box]) => box.width > 1 && box.height > 1);
        children.slice(1).forEach(([child, box], at) => {
            const [before, above] = children[at];
            const down = Math.min(box.bottom, above.bottom) - Math.max(box.top, above.top);
            const across = Math.min(box.right, above.right) - Math.max(box.left, above.left);
            if (down > touch && across > touch) {
                problems.push(`overlap by ${Math.round(down)} px: ${name(before)} and ${name(child)}`);
            }
        });
    };
    const listSeen = root => {
        const seen = [...root.querySelectorAll(controls)].filter(shown)
            .map(element => [name(element), element.getBoundingClientRect()]);
        const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
        while (walker.nextNode()) {
            const node = walker.currentNode;
            if (node.data.trim() !== "" && shown(node.parentElement)) {
                const range = document.createRange();
                range.selectNodeContents(node);
                seen.push(...[...range.getClientRects()].map(box => [node.data.trim().slice(0, 60), box]));
            }
        }
        return seen.filter(([, box]) => box.height > 0).sort(([, one], [, other]) => one.top - other.top);
    };
    const findHoles = root => {
        let [last, bottom] = ["", null];
        for (const [what, box] of listSeen(root)) {
            if (bottom !== null && box.top - bottom > most) {
                problems.push(`hole of ${Math.round(box.top - bottom)} px between “${last}” and “${what}”`);
            }
            if (bottom === null || box.bottom > bottom) {
                [last, bottom] = [what, box.bottom];
            }
        }
    };
    for (const root of selectors.flatMap(selector => [...document.querySelectorAll(selector)]).filter(shown)) {
        findHoles(root);
        [root, ...root.querySelectorAll("*")].filter(element => !element.closest("svg")).forEach(findOverlaps);
    }
    return problems;
}
"""


async def assert_no_hole_and_no_overlap(page: Page, *selectors: str) -> None:
    """Fail with each hole and each overlap of neighbours in the elements that these CSS selectors find."""
    found = await page.evaluate(_FIND, [list(selectors), HOLE, TOUCH])
    assert found == [], "\n".join(found)
