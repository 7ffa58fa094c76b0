"""The cells of a manifest are paired with their code, in run order."""

import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_gq.client.bundle import CellToRun
from jupyter_gq.client.files.user_files import SMALL_FILE
from jupyter_gq.runner.files.bundle import Bundle, read_bundle
from jupyter_gq.runner.problems import BundleError
from jupyter_gq.runner.result import (
    describe_exception,
    describe_exit_by_code,
    describe_failed_command,
    describe_kernel_exit,
    describe_missing_reply,
    locate_cell,
)


def a_cell(cell_id: str, source: str | list[str] = "1", kind: str = "code") -> dict[str, Any]:
    return {"cell_type": kind, "id": cell_id, "source": source, "metadata": {}}


def bundle_of(tmp_path: Path, cells: list[dict], prefix: list[str], targets: list[str]) -> Bundle:
    manifest = {
        "cwd": "/",
        "kernel": {"name": "k", "argv": ["k"]},
        "prefix": [{"cell_id": cell} for cell in prefix],
        "targets": [{"cell_id": cell} for cell in targets],
    }
    file = tmp_path / "bundle.json"
    file.write_text(json.dumps({"manifest": manifest, "notebook": {"cells": cells}}))
    return read_bundle(file)


def test_markdown_between_the_cells_is_skipped(tmp_path: Path) -> None:
    cells = [a_cell("a"), a_cell("m", kind="markdown"), a_cell("b", ["x = 1\n", "y = 2"])]
    bundle = bundle_of(tmp_path, cells, ["a"], ["b"])
    assert [(cell.index, cell.id, cell.role) for cell in bundle.cells] == [(0, "a", "prefix"), (2, "b", "target")]
    assert bundle.cells[1].source == "x = 1\ny = 2"
    assert bundle.kernel_name == "k"


def test_only_the_last_run_of_a_repeated_cell_has_its_own_id(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, [a_cell("a", "1"), a_cell("a", "2"), a_cell("a", "3")], ["a", "a"], ["a"])
    assert [(cell.id, cell.source) for cell in bundle.cells] == [("a-1", "1"), ("a-2", "2"), ("a", "3")]
    assert [cell["id"] for cell in bundle.notebook["cells"]] == ["a-1", "a-2", "a"]


def test_many_cells_are_paired_in_time_that_grows_with_their_number(tmp_path: Path) -> None:
    ids = [f"c{number}" for number in range(10_000)] + ["again"] * 10_000
    bundle = bundle_of(tmp_path, [a_cell(each) for each in ids], ids[:-1], ids[-1:])
    assert len({cell.id for cell in bundle.cells}) == len(ids)
    assert bundle.cells[-1].id == "again"


def test_a_new_id_is_that_of_no_other_cell(tmp_path: Path) -> None:
    cells = [a_cell("a"), a_cell("a-1", "text", "markdown"), a_cell("a")]
    bundle = bundle_of(tmp_path, cells, ["a"], ["a"])
    assert [cell["id"] for cell in bundle.notebook["cells"]] == ["a-2", "a-1", "a"]


def test_missing_cells_are_named(tmp_path: Path) -> None:
    with pytest.raises(BundleError, match="lacks cells that its manifest names: c"):
        bundle_of(tmp_path, [a_cell("a"), a_cell("b")], ["a"], ["c"])


def test_sentences_name_the_cell_as_its_owner_knows_it(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, [a_cell("a", "import x\n..."), a_cell("b", "y" * 100), a_cell("c")], ["a"], ["b", "c"])
    first, second, _ = bundle.cells
    assert describe_exception(bundle.cells, first, "ImportError", "no x").sentence == (
        "The replayed cell 1 of 1 (`import x`) raised ImportError: no x. "
        "Correct that cell, or leave it out, and send again."
    )
    assert describe_exception(bundle.cells, second, "E", "").sentence == (
        f"Cell 1 of 2 (`{'y' * 57}...`) raised E. Correct the cell and send it again."
    )
    assert describe_kernel_exit(bundle.cells, first, "crashed").sentence == (
        "The kernel crashed; it was running the replayed cell 1 of 1 (`import x`)."
    )
    assert [locate_cell(bundle.cells, cell) for cell in bundle.cells] == [
        "replayed cell 1 of 1 (`import x`)",
        f"cell 1 of 2 (`{'y' * 57}...`)",
        "cell 2 of 2 (`1`)",
    ]


SCRIPT, FUNCTION = ("arguments", "script"), ("setup-1", "call")


@pytest.mark.parametrize(
    ("ids", "failed", "ename", "said"),
    [
        (SCRIPT, 1, "E", "The script raised E. Correct the script and send it again."),
        (SCRIPT, 1, "NameError", "The script raised NameError. Correct the script and send it again."),
        (SCRIPT, 1, "KeyboardInterrupt", "Something interrupted the kernel. Send the script again."),
        (SCRIPT, 1, "FileNotFoundError", "Relative paths start in the folder in which the job runs. Correct the path"),
        (SCRIPT, 1, "NotGitRepository", "If so, name the version yourself, as by SETUPTOOLS_SCM_PRETEND_VERSION."),
        (FUNCTION, 1, "E", "The function raised E. Correct the function and send it again."),
        (FUNCTION, 0, "E", "The load of the function raised E. Correct the function and send it again."),
        (FUNCTION, 0, "ModuleNotFoundError", "Install the package where the kernel of the job runs, then send the f"),
        (("a", "call"), 1, "E", "The cell raised E. Correct the cell and send it again."),
    ],
)
def test_a_script_and_a_function_are_told_as_such(
    tmp_path: Path, ids: tuple[str, str], failed: int, ename: str, said: str
) -> None:
    cells = bundle_of(tmp_path, [a_cell(each) for each in ids], [ids[0]], [ids[1]]).cells
    sentence = describe_exception(cells, cells[failed], ename, "").sentence
    assert said in sentence
    assert ("cell" in sentence) == (ids[0] == "a")


def test_other_ends_of_a_script_name_the_script(tmp_path: Path) -> None:
    cells = bundle_of(tmp_path, [a_cell(each) for each in SCRIPT], [SCRIPT[0]], [SCRIPT[1]]).cells
    script = cells[1]
    assert describe_exit_by_code(cells, script, "3").sentence == (
        "The script ended the job with exit status 3. Correct the script and send it again."
    )
    assert describe_kernel_exit(cells, script, "crashed").sentence == "The kernel crashed; it was running the script."
    assert describe_failed_command(cells, script, "!false", 1).sentence.startswith("The script ran, but its last")
    assert describe_missing_reply(cells, script).sentence.endswith("Split the script, and send it again.")


def test_long_messages_are_cut_in_the_sentence_only(tmp_path: Path) -> None:
    bundle = bundle_of(tmp_path, [a_cell("a")], [], ["a"])
    verdict = describe_exception(bundle.cells, bundle.cells[0], "E", "z" * 1000)
    assert len(verdict.sentence) < 400
    assert verdict.evalue == "z" * 1000


@pytest.mark.parametrize(
    ("ename", "evalue", "remedy"),
    [
        ("LookupError", "setuptools-scm was unable to detect version for /job.", "Choose the live folder"),
        ("git.exc.InvalidGitRepositoryError", "/job", "If the job has files, it runs in a folder of its own"),
        (
            "RuntimeError",
            "fatal: not a git repository (or any of the parent directories): .git",
            "Choose the live folder",
        ),
        ("LookupError", "no such key", "Correct the cell and send it again."),
        ("MemoryError", "Parser stack overflowed - Python source too complex to parse", "nested too deeply for Python"),
        ("MemoryError", "Unable to allocate 3 GiB", "ask for more memory for the job."),
        ("RuntimeError", "CUDA out of memory", "smaller batches"),
    ],
)
def test_the_remedy_is_that_of_the_true_cause(ename, evalue, remedy) -> None:
    (cell,) = cells = (CellToRun(index=0, id="a", source="x", role="target"),)
    assert remedy in describe_exception(cells, cell, ename, evalue).sentence


def test_the_result_of_any_exception_is_small_enough_to_be_read(tmp_path: Path) -> None:
    """The service takes a run whose result it cannot read for lost."""
    bundle = bundle_of(tmp_path, [a_cell("a")], [], ["a"])
    verdict = describe_exception(bundle.cells, bundle.cells[0], "\U0001f525" * 99_000, "\U0001f525" * 99_000)
    assert len(json.dumps(verdict.to_document(0.0))) < SMALL_FILE
