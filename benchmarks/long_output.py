"""How long the page is busy at a stretch while a training of two hours prints, compressed in time.

The cell prints 100,000 lines, reports its progress 5,000 times and shows 50 images within a minute. The same cell first
runs in the notebook's own kernel, and the page is reloaded with its output; then as a job, whose page is reloaded in
the middle; both in the same JupyterLab. A task of the page is a stretch of work during which the page answers nobody;
Chromium reports those above 50 ms.
"""

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.demo.processes import end_descendants
from jupyter_gq.domain.json_types import JsonObject
from tests.browser.page import LabPage
from tests.browser.tasks import watched_tasks
from tests.browser.world import show_extension_of_checkout
from tests.patience import eventually

from . import table
from .hub import running_hub

#: Milliseconds in which the cell must end, here and as a job.
_PATIENCE = 400_000
#: Milliseconds that one task of the page may take.
_GOAL = 200
_LONG = """\
import random, struct, sys, time, zlib
import jupyter_gq
from IPython.display import Image, display

def draw(number):
    rows = b"".join(b"\\0" + random.Random(number * 64 + row).randbytes(192) for row in range(64))
    def part(kind, content):
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
    head = struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)
    return b"\\x89PNG\\r\\n\\x1a\\n" + part(b"IHDR", head) + part(b"IDAT", zlib.compress(rows)) + part(b"IEND", b"")

for step in range(5000):
    for line in range(20):
        print(f"step {step} of 5000, batch {line}: loss {1 / (1 + step):.6f}")
    jupyter_gq.progress(step + 1, 5000, f"step {step}")
    if step % 100 == 99:
        display(Image(draw(step)))
    time.sleep(0.01)
print("all", "done")
"""
#: Whether the page shows the output of a cell that is at least half done.
_SHOWS_IMAGES = "document.querySelectorAll('.jp-Cell-outputArea img').length > 20"
_OBSERVE = """
window.gqTasks = [];
new PerformanceObserver(list => {
  for (const entry of list.getEntries()) {
    window.gqTasks.push(entry.duration);
  }
}).observe({entryTypes: ['longtask']});
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Span:
    """The tasks of the page in a span of time, in milliseconds."""

    #: By the clock, of those above 50 ms; 0 stands for none.
    tasks: list[float]
    #: Of the processor, of all tasks. A busy machine makes these little longer.
    cpu: list[float]

    def __add__(self, other: "Span") -> "Span":
        return Span(tasks=self.tasks + other.tasks, cpu=self.cpu + other.cpu)

    def describe(self) -> str:
        """Return the longest tasks as a text."""
        longest = [", ".join(f"{each:.0f}" for each in sorted(some)[:-9:-1]) for some in (self.tasks, self.cpu)]
        return f"{longest[0]} ms; CPU {longest[1]} ms"


@contextlib.asynccontextmanager
async def _watched(lab: LabPage, spans: dict[str, Span], name: str) -> AsyncIterator[None]:
    """Put what the page does within the block into `spans`. A reload forgets the tasks by the clock before it."""
    async with watched_tasks(lab.page) as watched:
        await lab.page.evaluate("window.gqTasks.splice(0)")
        yield
        tasks = await lab.page.evaluate("window.gqTasks.splice(0)")
    spans[name] = Span(tasks=[0.0, *tasks], cpu=[0.0, *watched.cpu])


async def measure() -> list[table.Row]:
    """Run the cell in the kernel and as a job, reload the page with either output; return the longest tasks."""
    spans: dict[str, Span] = {}
    async with running_hub() as hub:
        home = hub.hub.folder / "homes" / "ann"
        show_extension_of_checkout(home)
        (home / "long.ipynb").write_text(json.dumps(_notebook()))
        async with LabPage.opened(hub.hub.url, "ann", "0.25", "long.ipynb") as lab:
            await lab.page.add_init_script(_OBSERVE)
            await lab.page.evaluate(_OBSERVE)
            async with _watched(lab, spans, "kernel"):
                await lab.select(lab.cells().nth(0))
                await lab.page.keyboard.press("Control+Enter")
                await _until(lab, "document.querySelector('.jp-CodeCell .jp-InputPrompt').textContent === '[1]:'")
            await _save(lab, home / "long.ipynb")
            await _reload(lab, spans, "reload after kernel")
            await lab.page.get_by_role("menuitem", name="Edit").click()
            await lab.page.get_by_role("menuitem", name="Clear Cell Output").click()
            await lab.select(lab.cells().nth(1))
            await lab.open_dialog(lab.cells().nth(1))
            await lab.fill_dialog(queue="vision", gpus="0.5")
            async with _watched(lab, spans, "job"):
                await lab.confirm()
                await _until(lab, _SHOWS_IMAGES)
            await lab.page.keyboard.press("Control+S")
            await _reload(lab, spans, "reload")
            async with _watched(lab, spans, "rest of job"):
                await _until(lab, "document.querySelector('.jp-gq-status')?.dataset.phase === 'done'")
            size = await _save(lab, home / "long.ipynb")
    for name, span in spans.items():
        print(f"  {name}: {span.describe()}")
    case = "100,000 lines, 5,000 updates, 50 images"
    job = spans["job"] + spans["rest of job"]
    return [
        *_compare(case, job, spans["kernel"]),
        *_compare("reload in the middle", spans["reload"], spans["reload after kernel"]),
        table.Row(case="notebook in its file", figure="size", unit="MB", ours=size / 1e6, goal=36),
    ]


def _compare(case: str, ours: Span, peer: Span) -> list[table.Row]:
    return [
        table.Row(case=case, figure="longest task", unit="ms", ours=max(ours.tasks), peer=max(peer.tasks), goal=_GOAL),
        table.Row(case=case, figure="longest task, CPU", unit="ms", ours=max(ours.cpu), peer=max(peer.cpu)),
        table.Row(case=case, figure="all tasks, CPU", unit="s", ours=sum(ours.cpu) / 1000, peer=sum(peer.cpu) / 1000),
    ]


async def _reload(lab: LabPage, spans: dict[str, Span], name: str) -> None:
    """Reload the page until it shows the outputs of the notebook; put what it does meanwhile into `spans`."""
    async with _watched(lab, spans, name):
        await lab.page.reload()
        await _until(lab, _SHOWS_IMAGES)
    await lab.notebook_is_open()


async def _until(lab: LabPage, condition: str) -> None:
    """Wait until an expression of the page is true. Playwright's own waits would look at the whole page each time."""
    await lab.page.wait_for_function(condition, polling=500, timeout=_PATIENCE)


async def _save(lab: LabPage, file: Path) -> int:
    """Save the notebook with the whole output of a cell; return the bytes of its file."""
    await lab.page.keyboard.press("Control+S")
    await eventually(lambda: "all done" in file.read_text(), "the saved notebook")
    return len(await asyncio.to_thread(file.read_bytes))


def _notebook() -> JsonObject:
    cells: list[JsonObject] = [
        {"cell_type": "code", "id": name, "source": _LONG, "metadata": {}, "outputs": [], "execution_count": None}
        for name in ("here", "job")
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}


def main() -> int:
    """Print the table."""
    parser = table.parser(__doc__ or "")
    arguments = parser.parse_args()
    try:
        rows = asyncio.run(measure())
    finally:
        end_descendants()
    return table.show("Long output", rows, arguments.json)


if __name__ == "__main__":
    sys.exit(main())
