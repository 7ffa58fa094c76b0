"""Many cells of one notebook, sent at once: each result comes back under its own cell, also after a reload.

"Twenty cells within a second" is a promise for a quiet machine. This test promises what holds on each machine: no cell
waits for the job of the one before, and twenty sends take no longer than twenty times one send that is timed alone,
with allowance for the processors that the jobs take which start meanwhile. A send that waits for other sends, or for
the start of their jobs, takes longer than that.
"""

import asyncio
import itertools
import math
import statistics
from pathlib import Path

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub
from jupyter_gq.domain.json_types import JsonObject
from tests.browser.page import LabPage
from tests.browser.world import read_cells, read_saved_cells, write_notebook
from tests.patience import count_processors, eventually

#: The cells, and what each of them alone prints.
CELLS = 20
#: Sends that are timed one by one, each once the job of the one before has ended; the first one makes all warm.
ALONE = 4
#: How much longer than alone a send may take, beyond what starting jobs explain.
MARGIN = 2
#: Jobs that start while cells are sent: as many as the demo's two GPUs hold. Each keeps a processor busy.
STARTING = 8
#: More jobs run at once than the demo's two GPUs take whole, and the rest waits for its turn.
SOURCE = "%%train --queue vision --gpus 0.25 --name cell-{number}\nprint('result', {number} * 1001)"
#: The last cell begins with this: its job ends only after the page was reloaded.
WAITS = "import pathlib, time\nwhile not pathlib.Path('{reloaded}').exists(): time.sleep(0.1)\n"

#: Returns the number in the source and the output of each cell that is in sight.
_READ_SHOWN = r"""
cells => cells
  .map(cell => [cell.querySelector(".jp-InputArea-editor"), cell.querySelector(".jp-Cell-outputArea")])
  .filter(([editor, output]) => editor !== null && output !== null && / \* 1001/.test(editor.innerText))
  .map(([editor, output]) => [/(\d+) \* 1001/.exec(editor.innerText)[1], output.innerText])
"""


def test_twenty_cells_sent_at_once_come_back_under_their_own_cells(hub, tmp_path):
    asyncio.run(many_cells(hub, tmp_path))


async def many_cells(hub: DemoHub, pictures: Path) -> None:
    """Run all cells, each of which sends itself; reload the page when the first results are there."""
    sources = [SOURCE.format(number=number) for number in range(CELLS)]
    file = hub.folder / "homes/ann/many.ipynb"
    reloaded = file.with_name("reloaded")
    sources[-1] = sources[-1].replace("print", f"{WAITS.format(reloaded=reloaded)}print")
    write_notebook(file, *sources)
    async with LabPage.opened(hub.url, "ann", "0.25", "many.ipynb") as lab, Person(hub.url, "ann") as ann:
        alone = await time_one_send(ann)
        await lab.page.get_by_role("menuitem", name="Run", exact=True).click()
        await lab.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        await eventually(lambda: _count_ended(ann), "the first results", seconds=120, every=0.5)
        await lab.kernel_is_idle()
        await lab.page.keyboard.press("Control+S")
        await eventually(
            lambda: len(_list_jobs(read_cells(file))) == CELLS, "a job for each cell in the saved notebook"
        )
        assert_sent_at_once(await _list_own(ann), alone)
        assert await _count_ended(ann) < CELLS, "the page is reloaded in the middle"
        await lab.page.reload()
        await lab.notebook_is_open()
        reloaded.touch()
        await eventually(lambda: _is_complete(file), "results in the saved notebook", seconds=120, every=0.5)
        await eventually(lambda: _are_shown(lab), "results under the cells in sight", every=0.5)
        await lab.picture(pictures / "many.png")
    saved = await read_saved_cells(file)
    assert [_read_results(cell) for cell in saved] == [[f"result {number * 1001}"] for number in range(CELLS)]
    assert len(_list_jobs(saved)) == CELLS


async def time_one_send(ann: Person) -> float:
    """Return the seconds that a cell takes to send itself while nothing else is sent, in a kernel without a page."""
    kernel, took, clock = await ann.start_kernel("alone.ipynb"), [], asyncio.get_running_loop().time
    for number in range(ALONE):
        began = clock()
        await ann.run_cell(kernel, SOURCE.format(number=number).replace("cell-", "alone-"))
        took.append(clock() - began)
        await eventually(lambda done=number + 1: _have_ended(ann, "alone-", done), "the end of a single job")
    return statistics.median(took[1:])


def assert_sent_at_once(jobs: list[JsonObject], alone: float) -> None:
    """Each cell was sent before the job of the previous one had ended, and all of them in the time of as many sends."""
    assert len(jobs) == CELLS
    ordered = sorted(jobs, key=lambda job: float(job["submitted_at"]))
    for before, after in itertools.pairwise(ordered):
        assert after["submitted_at"] < (before["finished_at"] or math.inf), "no cell waits for the job of another one"
    spread = ordered[-1]["submitted_at"] - ordered[0]["submitted_at"]
    crowd = 1 + STARTING / count_processors()
    assert spread < MARGIN * crowd * CELLS * alone, f"{CELLS} sends took {spread:.1f} s, and one alone {alone:.2f} s"


async def _have_ended(person: Person, name: str, count: int) -> bool:
    """Return whether so many jobs whose names begin so are done."""
    return sum(job["phase"] == "done" for job in await _list_own(person, name)) == count


async def _are_shown(lab: LabPage) -> bool:
    """Return whether the page shows its result under each cell in sight; cells out of sight are not in the page."""
    shown = await lab.cells().evaluate_all(_READ_SHOWN)
    return len(shown) >= 3 and all(f"result {int(source) * 1001}" in output.splitlines() for source, output in shown)


async def _count_ended(person: Person) -> int:
    """Return how many jobs of the cells in the page are done."""
    return sum(job["phase"] == "done" for job in await _list_own(person))


async def _list_own(person: Person, name: str = "cell-") -> list[JsonObject]:
    """Return the jobs whose names begin so, by default those of the cells; earlier tests have sent others."""
    page = await person.ask_service("GET", "jobs?limit=100")
    assert isinstance(page, dict)
    return [job for job in page["jobs"] if job["name"].startswith(name)]


def _list_jobs(cells: list[JsonObject]) -> set[str]:
    """Return the jobs to which the cells are bound."""
    bound = [cell["metadata"].get("jupyter_gq") for cell in cells]
    return {binding["job"] for binding in bound if binding is not None}


def _is_complete(file: Path) -> bool:
    """Return whether each cell of the saved notebook has results."""
    cells = read_cells(file)
    return bool(cells) and all(_read_results(cell) for cell in cells)


def _read_results(cell: JsonObject) -> list[str]:
    """Return the lines that the job of a cell has printed."""
    texts = ["".join(output["text"]) for output in cell["outputs"] if output["output_type"] == "stream"]
    return "".join(texts).splitlines()
