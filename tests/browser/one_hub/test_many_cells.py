"""Many cells of one notebook, sent at once: each result comes back under its own cell, also after a reload."""

import asyncio
from pathlib import Path

from jupyter_gq.demo.person import Person
from jupyter_gq.demo.processes import DemoHub
from jupyter_gq.domain.json_types import JsonObject
from tests.browser.page import LabPage
from tests.browser.world import read_cells, read_saved_cells, write_notebook
from tests.patience import eventually, scaled

#: The cells, and what each of them alone prints.
CELLS = 20
#: Most seconds between the first and the last job on a quiet machine, on which twenty jobs take longer to run.
BURST = 10
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
        await lab.page.get_by_role("menuitem", name="Run", exact=True).click()
        await lab.page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
        await eventually(lambda: _count_ended(ann), "the first results", seconds=120, every=0.5)
        await lab.kernel_is_idle()
        await lab.page.keyboard.press("Control+S")
        await eventually(
            lambda: len(_list_jobs(read_cells(file))) == CELLS, "a job for each cell in the saved notebook"
        )
        sent_at = [job["submitted_at"] for job in await _list_own(ann)]
        assert len(sent_at) == CELLS
        assert max(sent_at) - min(sent_at) < scaled(BURST), "no cell waits for the job of another one"
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


async def _are_shown(lab: LabPage) -> bool:
    """Return whether the page shows its result under each cell in sight; cells out of sight are not in the page."""
    shown = await lab.cells().evaluate_all(_READ_SHOWN)
    return len(shown) >= 3 and all(f"result {int(source) * 1001}" in output.splitlines() for source, output in shown)


async def _count_ended(person: Person) -> int:
    """Return how many jobs of the cells are done."""
    return sum(job["phase"] == "done" for job in await _list_own(person))


async def _list_own(person: Person) -> list[JsonObject]:
    """Return the jobs of the cells; earlier tests have sent others."""
    page = await person.ask_service("GET", "jobs?limit=100")
    assert isinstance(page, dict)
    return [job for job in page["jobs"] if job["name"].startswith("cell-")]


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
