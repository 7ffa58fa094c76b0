"""Notebooks that use libraries as their users do give the outputs that `jupyter nbconvert --execute` stores.

Widgets are the exception: nbconvert stores a reference to the state of a widget, and a job the text of the widget.

`JUPYTER_GQ_NOTEBOOKS` may name a folder of further notebooks, with the files that they read. A cell that raises in
nbconvert has to raise the same in the job, and the cells after it run in both.
See docs/decisions/0488-run-notebooks-and-bars-of-libraries-outside-ci.md.
"""

import json
import os
import re
import shutil
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbconvert.preprocessors import ExecutePreprocessor

from jupyter_gq.client.outputs.fold import collapse

from .conftest import Job, Service

OURS = Path(__file__).parent / "notebooks"
OTHERS = os.environ.get("JUPYTER_GQ_NOTEBOOKS")
NO_OTHERS = "set JUPYTER_GQ_NOTEBOOKS to a folder of notebooks, as `make test-notebooks NOTEBOOKS=...` does"
#: Seconds that a notebook of others may take.
LONGEST = 1200
VIEW = "application/vnd.jupyter.widget-view+json"
#: Parts of outputs that differ from run to run.
CHANGING = {
    r"(0x|\bat )[0-9a-f]{8,}": "ADDRESS",
    r"[0-9a-f]{8}(-?[0-9a-f]{4}){3}-?[0-9a-f]{12}": "UUID",
    r"[\w/.-]*/ipykernel_\d+/\d+\.py": "CELL",
    r"<dc:date>[^<]*": "DATE",
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}[ T][0-9]{2}:[0-9]{2}:[0-9]{2}([.,][0-9]+)?": "DATE",
    # what time, %time, %timeit and tqdm measure
    r"[0-9.]+user .*?swaps": "TIMES",
    r"[0-9]([0-9.,]*[0-9])?(e[+-]?[0-9]+)? ?(ns|[µμ]s|us|ms|s|min|h)\b": "TIME",
    r"[0-9,]+ loops? each": "LOOPS",
    r"The slowest run took .*?\\n": "",
    r"\[[0-9:]{5,8}(<([0-9:]{5,8}|\?))?, +[^],]*": "[TIMES",
}
#: White space that is not seen.
UNSEEN = r" +(?=\\n)"


#: Code that each kernel runs first: what is random in a cell is the same in both.
SEEDS = """\
import numpy
_make_generator = numpy.random.default_rng
numpy.random.default_rng = lambda seed=None: _make_generator(1 if seed is None else seed)

def _seed(*_):
    import random, numpy
    random.seed(1)
    numpy.random.seed(1)

get_ipython().events.register("pre_run_cell", _seed)
del numpy
"""


def find_notebooks(folder: Path) -> Iterator[Any]:
    """Yield the notebooks in a folder and its subfolders as parameters of a test."""
    for file in sorted(folder.rglob("*.ipynb")):
        if ".ipynb_checkpoints" not in file.parts:
            yield pytest.param(file, id=str(file.relative_to(folder).with_suffix("")))


def read_cells(file: Path) -> list[str]:
    """Return the code cells of a notebook."""
    cells = nbformat.read(file, as_version=4).cells
    return [cell.source for cell in cells if cell.cell_type == "code" and cell.source.strip()]


def make_home(home: Path, files: Path | None) -> None:
    """Make the home folder, which is the working folder, anew: with a copy of these files, if they are given."""
    shutil.rmtree(home, ignore_errors=True)
    if files is None:
        home.mkdir()
    else:
        shutil.copytree(files, home)
    startup = home / ".ipython" / "profile_default" / "startup"
    startup.mkdir(parents=True)
    (startup / "seeds.py").write_text(SEEDS)


class Converter(ExecutePreprocessor):
    """The part of nbconvert that executes, made to look again for replies that it has missed.

    nbclient sends the state of Output widgets while it waits for a reply, and then may never see that reply.
    """

    #: Environment variables of the kernel.
    env: dict[str, str]

    async def _async_handle_timeout(self, *_: object) -> None:
        """Do not give up the cell after `timeout`, but go on waiting."""

    def start_new_kernel(self, **options: Any) -> None:
        """Start the kernel with the variables that a job has."""
        super().start_new_kernel(**options, env=self.env)


def convert(cells: list[str], job: Job) -> tuple[list[list[dict]], Mapping[str, dict]]:
    """Return the outputs of each cell and the state of each widget as nbconvert has them where the job will run."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    converter = Converter(timeout=1, allow_errors=True)
    converter.env = job.environment()
    converter.preprocess(notebook, {"metadata": {"path": job.cwd}})
    return [gather(json.loads(json.dumps(cell.outputs))) for cell in notebook.cells], converter.widget_state


def gather(outputs: list[dict]) -> list[dict]:
    """Return the outputs with the text of each stream joined up to the next other output, as a terminal shows it.

    The kernel sends the text of stdout and stderr in parts, whose order may differ; stdout stands first here.
    """
    gathered: list[dict] = []
    for is_stream, group in groupby(outputs, key=lambda output: output["output_type"] == "stream"):
        if not is_stream:
            gathered += group
            continue
        texts = {"stdout": "", "stderr": ""}
        for output in group:
            texts[output["name"]] += output["text"]
        gathered += [
            {"output_type": "stream", "name": name, "text": collapse(text)} for name, text in texts.items() if text
        ]
    return gathered


def has_error(outputs: list[dict]) -> bool:
    """Return whether a cell has raised an error; IPython prints that of a magic that it does not know."""
    printed = "".join(output["text"] for output in outputs if output.get("name") == "stderr")
    return printed.startswith("UsageError: ") or any(output["output_type"] == "error" for output in outputs)


def expect(outputs: list[dict], widgets: Mapping[str, Any]) -> Iterator[str]:
    """Yield the outputs that a job shows in place of those of nbconvert, in a form that can be compared."""
    for output in outputs:
        view = output.get("data", {}).get(VIEW)
        if view is None:
            yield comparable(output)
            continue
        yield "a widget"
        for model in find_outputs(view["model_id"], widgets):
            yield from expect([as_display(each) for each in gather(widgets[model]["outputs"])], widgets)


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
    text = json.dumps(output, sort_keys=True, ensure_ascii=False)
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


def compare(job: Job, service: Service, file: Path, files: Path | None = None) -> None:
    """Run a notebook by nbconvert and as a job, both in a new home with these files; compare the outputs."""
    cells = read_cells(file)
    job.env = {"PYTHONHASHSEED": "0", "MPLCONFIGDIR": str(job.cwd.parent / "matplotlib")}
    make_home(job.cwd, files)
    converted, widgets = convert(cells, job)
    make_home(job.cwd, files)
    for number, cell in enumerate(cells):
        job.target(cell, f"cell-{number}")
        if has_error(converted[number]):
            job.tags[f"cell-{number}"] = ["raises-exception"]
    job.start()
    job.finish(seconds=LONGEST)
    wanted = {number: list(expect(outputs, widgets)) for number, outputs in enumerate(converted)}
    outputs = {number: list(shown(gather(service.outputs(f"cell-{number}")), wanted[number])) for number in wanted}
    differ = [number for number in wanted if outputs[number] != wanted[number]]
    assert not differ, "\n".join(
        f"cell {number}: {cells[number]}\nthe job: {outputs[number]}\nnbconvert: {wanted[number]}" for number in differ
    )


@pytest.mark.parametrize("file", find_notebooks(OURS))
def test_outputs_are_those_of_nbconvert(job: Job, service: Service, file: Path) -> None:
    compare(job, service, file)


@pytest.mark.skipif(OTHERS is None, reason=NO_OTHERS)
@pytest.mark.parametrize("file", find_notebooks(Path(OTHERS)) if OTHERS else [None])
def test_outputs_of_notebooks_of_others_are_those_of_nbconvert(job: Job, service: Service, file: Path) -> None:
    compare(job, service, file, file.parent)
