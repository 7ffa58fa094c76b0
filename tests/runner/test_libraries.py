"""Notebooks that use libraries as their users do give the outputs that `jupyter nbconvert --execute` stores.

Widgets are the exception: nbconvert stores a reference to the state of a widget, and a job the text of the widget.
"""

import contextlib
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient.exceptions import CellExecutionError
from nbconvert.preprocessors import ExecutePreprocessor

from .conftest import Job, Service

NOTEBOOKS = sorted((Path(__file__).parent / "notebooks").glob("*.ipynb"))
VIEW = "application/vnd.jupyter.widget-view+json"
#: Parts of outputs that differ from run to run.
CHANGING = {
    r"0x[0-9a-f]{8,}": "ADDRESS",
    r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}": "UUID",
    r"[\w/.-]*/ipykernel_\d+/\d+\.py": "CELL",
    r"<dc:date>[^<]*": "DATE",
}
#: White space that is not seen, and the movement of the cursor to the line above, which nbconvert drops at times.
UNSEEN = r"( |\\u001b\[A)+(?=\\n)"


def read_cells(file: Path) -> list[str]:
    """Return the code cells of a notebook."""
    return [cell.source for cell in nbformat.read(file, as_version=4).cells if cell.cell_type == "code"]


class Converter(ExecutePreprocessor):
    """The part of nbconvert that executes, made to look again for replies that it has missed.

    nbclient sends the state of Output widgets while it waits for a reply, and then may never see that reply.
    """

    async def _async_handle_timeout(self, *_: object) -> None:
        """Do not give up the cell after `timeout`, but go on waiting."""


def convert(cells: list[str], folder: Path) -> tuple[list[list[dict]], Mapping[str, dict]]:
    """Return the outputs of each cell and the state of each widget as nbconvert has them.

    It ends at the first error, as a job does.
    """
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    folder.mkdir()
    converter = Converter(timeout=1, coalesce_streams=True)
    with contextlib.suppress(CellExecutionError):
        converter.preprocess(notebook, {"metadata": {"path": folder}})
    return [json.loads(json.dumps(cell.outputs)) for cell in notebook.cells], converter.widget_state


def expect(outputs: list[dict], widgets: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outputs that a job shows in place of those of nbconvert, in a form that can be compared."""
    for output in outputs:
        view = output.get("data", {}).get(VIEW)
        if view is None:
            yield comparable(output)
            continue
        yield "a widget"
        for model in find_outputs(view["model_id"], widgets):
            yield from (comparable(as_display(each)) for each in widgets[model]["outputs"])


def find_outputs(model: str, widgets: Mapping[str, Any]) -> Iterator[str]:
    """Yield the models of the Output widgets in a widget."""
    if widgets[model]["_model_name"] == "OutputModel":
        yield model
    for child in widgets[model].get("children", ()):
        yield from find_outputs(child.removeprefix("IPY_MODEL_"), widgets)


def as_display(output: dict) -> dict:
    """Return captured text as the display that shows it."""
    if output["output_type"] != "stream":
        return output
    return {"output_type": "display_data", "data": {"text/plain": output["text"]}, "metadata": {}}


def comparable(output: dict) -> str:
    text = json.dumps(output, sort_keys=True)
    for pattern, name in CHANGING.items():
        text = re.sub(pattern, name, text)
    return re.sub(UNSEEN, "", text)


def shown(outputs: list[dict], expected: list[str]) -> Iterator[str]:
    """Yield the outputs of a job in a form that can be compared; places that show nothing are left out."""
    for output, wanted in zip(outputs, expected + [""] * len(outputs), strict=False):
        data = output.get("data")
        if wanted == "a widget" and data is not None and set(data) == {"text/plain"}:
            yield wanted
        elif data != {"text/plain": ""}:
            yield comparable(output)


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_outputs_are_those_of_nbconvert(job: Job, service: Service, tmp_path: Path, file: Path) -> None:
    cells = read_cells(file)
    for number, cell in enumerate(cells):
        job.target(cell, f"cell-{number}")
    job.run()
    converted, widgets = convert(cells, tmp_path / "home-of-nbconvert")
    for number, cell in enumerate(cells):
        expected = list(expect(converted[number], widgets))
        assert list(shown(service.outputs(f"cell-{number}"), expected)) == expected, cell
