"""The checks of layout find what a reader would stumble over, and nothing else. No Hub runs."""

import asyncio

from .cut_text import assert_nothing_is_cut
from .layout import HOLE, assert_no_hole_and_no_overlap
from .page import running_browser

GOOD = """<p>Queue <select><option>vision</option></select></p><p style="margin-top: 20px">GPUs <input value="1"></p>
<ul><li>first</li><li>second</li></ul><div style="height: 400px; visibility: hidden">not seen</div>"""
TROUBLES = {
    "hole of": f'<p>Queue</p><div style="height: {HOLE + 40}px"></div><p>GPUs</p>',
    "overlap by": '<p>Queue</p><p style="margin-top: -30px">GPUs and more</p>',
    "is cut": '<p style="width: 40px; overflow: hidden; white-space: nowrap">a sentence that does not fit</p>',
    "is clipped": '<p style="width: 80px; height: 20px; overflow: hidden">a sentence of more than one line</p>',
}


async def check(*bodies: str) -> list[str]:
    """Return what the checks say about a frame with each of these bodies; "" if nothing."""
    said = []
    async with running_browser() as browser:
        page = await browser.new_page(viewport={"width": 800, "height": 700})
        for body in bodies:
            await page.set_content(f'<div id="frame">{body}</div>')
            try:
                await assert_nothing_is_cut(page, "#frame")
                await assert_no_hole_and_no_overlap(page, "#frame")
                said.append("")
            except AssertionError as error:
                said.append(str(error))
    return said


def test_holes_overlaps_and_cut_sentences_are_found():
    good, *told = asyncio.run(check(GOOD, *TROUBLES.values()))
    assert good == ""
    for trouble, text in zip(TROUBLES, told, strict=True):
        assert trouble in text, (trouble, text)
