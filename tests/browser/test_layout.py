"""The checks of layout find what a reader would stumble over, and nothing else. No Hub runs."""

import asyncio

from .cut_text import assert_nothing_is_cut
from .layout import HOLE, assert_no_hole_and_no_overlap
from .page import running_browser

GOOD = """<p>Queue <select><option>vision</option></select></p><p style="margin-top: 20px">GPUs <input value="1"></p>
<ul><li>first</li><li>second</li></ul>
<p>Words <code>and code</code> <b>in one line</b> that goes on <a href="#">and on</a>, <i>into the next line</i> of a
paragraph with more than a line.</p>
<div style="display: flex; gap: 4px"><b>one</b><span>two</span><button>three</button></div>
<dl><dt style="float: left; clear: left; width: 90px">Queue</dt><dd style="margin-left: 0">vision</dd></dl>
<div style="position: relative">below<span style="position: absolute; top: 0; left: 0">above</span></div>
<div style="height: 400px; visibility: hidden">not seen</div>"""
BESIDE = "<span>GPUs</span>"
#: Each is an overlap; the name says what overlaps.
OVERLAPS = {
    "words in a line": '<p>Queue <span style="margin-left: -30px">vision</span></p>',
    "buttons in a line": '<button>Send</button><button style="margin-left: -25px">Cancel</button>',
    "items of a flex box": f'<div style="display: flex"><b style="margin-right: -20px">Queue</b>{BESIDE}</div>',
    "cells of a grid": '<div style="display: grid"><b style="grid-area: 1 / 1">Queue</b>'
    '<i style="grid-area: 1 / 1">GPUs</i></div>',
    "a float": f'<i style="float: left; margin-right: -30px">Queue</i>{BESIDE}',
    "blocks with one between them": '<p>Queue</p><hr style="margin: 0"><p style="margin-top: -40px">GPUs</p>',
    "what has no box of its own": f'<div style="display: flex"><b style="display: contents">'
    f'<i style="margin-right: -20px">Queue</i></b>{BESIDE}</div>',
}
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


def test_all_that_stands_side_by_side_is_compared():
    for (what, body), text in zip(OVERLAPS.items(), asyncio.run(check(*OVERLAPS.values())), strict=True):
        assert "overlap by" in text, (what, body, text)


def test_holes_overlaps_and_cut_sentences_are_found():
    good, *told = asyncio.run(check(GOOD, *TROUBLES.values()))
    assert good == ""
    for trouble, text in zip(TROUBLES, told, strict=True):
        assert trouble in text, (trouble, text)
