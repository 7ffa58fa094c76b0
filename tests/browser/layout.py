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
    // What is positioned lies on something else by intention, such as a menu.
    const isPlaced = element => ["absolute", "fixed", "sticky"].includes(getComputedStyle(element).position);
    const hasBox = element => getComputedStyle(element).display !== "contents";
    const problems = [];
    // The elements and words that stand side by side in an element; without a box of its own, it is as if it was not.
    const isFloat = node => node.nodeType === Node.ELEMENT_NODE && getComputedStyle(node).float !== "none";
    const listWords = node => {
        const range = document.createRange();
        range.selectNodeContents(node);
        return [...range.getClientRects()];
    };
    const listBeside = parent => [...parent.childNodes].flatMap(node => {
        if (node.nodeType === Node.TEXT_NODE) {
            return node.data.trim() === "" ? [] : [[node.data.trim().slice(0, 60), listWords(node)]];
        }
        if (node.nodeType !== Node.ELEMENT_NODE || isPlaced(node)) {
            return [];
        }
        if (!hasBox(node)) {
            return listBeside(node);
        }
        // The box of a block reaches below a float beside it, and its words do not.
        const isBesideFloat = !isFloat(node) && [...parent.children].some(isFloat);
        // An element that goes on in the next line has a box in each.
        return shown(node) ? [[name(node), isBesideFloat ? listWords(node) : [...node.getClientRects()]]] : [];
    });
    const findOverlaps = parent => {
        const boxes = listBeside(parent).flatMap(([what, rects], at) => rects.map(box => [what, box, at]))
            .filter(([, box]) => box.width > 1 && box.height > 1).sort(([, one], [, other]) => one.top - other.top);
        boxes.forEach(([what, box, at], index) => {
            for (const [below, other, place] of boxes.slice(index + 1)) {
                const down = Math.min(box.bottom, other.bottom) - other.top;
                if (down <= touch) {
                    break;
                }
                const across = Math.min(box.right, other.right) - Math.max(box.left, other.left);
                if (place !== at && across > touch) {
                    problems.push(`overlap by ${Math.round(down)} px: ${what} and ${below}`);
                }
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
        [root, ...root.querySelectorAll("*")]
            .filter(element => !element.closest("svg") && shown(element) && hasBox(element)).forEach(findOverlaps);
    }
    return problems;
}
"""


async def assert_no_hole_and_no_overlap(page: Page, *selectors: str) -> None:
    """Fail with each hole and each overlap in the elements that these CSS selectors find.

    All that stands in the same element is compared, however it is displayed: blocks, words in a line, cells of a grid.
    """
    found = await page.evaluate(_FIND, [list(selectors), HOLE, TOUCH])
    assert found == [], "\n".join(found)
