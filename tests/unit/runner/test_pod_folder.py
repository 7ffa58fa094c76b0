"""A new pod finds the same files as a new run on the same machine."""

import json
import stat
from pathlib import Path
from typing import Any

import pytest

from jupyter_gq.client.outputs.executed import KEY
from jupyter_gq.runner.delivery.spool import Spool
from jupyter_gq.runner.files.bundle import read_bundle
from jupyter_gq.runner.files.folder import RunFolder
from jupyter_gq.runner.output.executed_notebook import load_earlier_outputs
from jupyter_gq.runner.pod.folder import read_variables, write_job_files
from jupyter_gq.runner.pod.service import TaskGrant
from jupyter_gq.runner.pod.settings import read_settings, remove_pod_variables
from jupyter_gq.runner.problems import BundleError, RunError

OUTPUT = {"output_type": "stream", "name": "stdout", "text": "x"}
CELL = {"cell_type": "code", "id": "a", "source": "1", "metadata": {}}


def a_document(cwd: object, **more: Any) -> dict[str, Any]:
    manifest = {
        "cwd": str(cwd),
        "kernel": {"name": "k", "argv": ["k"]},
        "prefix": [],
        "targets": [{"cell_id": "a"}],
        "environment": {"COLOUR": "blue", "HOME": "/elsewhere", "RANK": "3", "GQ_RUN": "9", "TF_CPP": "1"},
    }
    return {"manifest": manifest, "notebook": {"cells": [dict(CELL)]}, "executed": None, **more}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(job=tmp_path / "job", run=3, task=0)


def granted(task: int = 0) -> TaskGrant:
    return TaskGrant(token="secret", run=3, task=task, last_seq=7)


def test_numbers_of_pieces_continue_after_those_of_the_service(folder: RunFolder, tmp_path: Path) -> None:
    write_job_files(folder, a_document(tmp_path), granted(), None)
    spool = Spool(folder.spool, folder.earlier_spools())
    assert spool.last == 7
    spool.append([{"op": "run", "state": "start"}], run=3, at=0.0)
    assert [piece["seq"] for piece in spool.read(0)] == [8]
    assert [piece["seq"] for piece in spool.pieces_after(0)] == [8]
    spool.close()


def test_outputs_of_earlier_runs_are_restored(folder: RunFolder, tmp_path: Path) -> None:
    cells = [{**CELL, "outputs": [OUTPUT]}]
    executed = {"metadata": {KEY: {"seq": 7, "ended": ["b"]}}, "cells": cells}
    write_job_files(folder, a_document(tmp_path, executed=executed), granted(), None)
    assert load_earlier_outputs(folder.notebook, []) == ({"a": [OUTPUT]}, frozenset({"b"}))
    assert "executed" not in json.loads((folder.job / "bundle.json").read_text())
    assert read_bundle(folder.job / "bundle.json").cells[0].id == "a"


def test_the_token_is_for_the_owner_alone_and_read_once(folder: RunFolder, tmp_path: Path) -> None:
    write_job_files(folder, a_document(tmp_path), granted(), None)
    assert stat.S_IMODE((folder.path / "token").stat().st_mode) == 0o600
    assert (folder.take_token(), folder.take_token()) == ("secret", "")


def test_the_volume_for_checkpoints_is_the_folder_for_them(folder: RunFolder, tmp_path: Path) -> None:
    volume = tmp_path / "volume"
    write_job_files(folder, a_document(tmp_path), granted(), volume)
    (folder.checkpoint / "model").write_text("x")
    assert (volume / "model").read_text() == "x"
    folder.prepare()


def test_a_volume_that_cannot_be_written_ends_with_a_sentence(folder: RunFolder, tmp_path: Path) -> None:
    # Nobody can write there, root neither.
    with pytest.raises(BundleError, match=r"checkpoints at /proc/self/task cannot be written by the user \d+"):
        write_job_files(folder, a_document(tmp_path), granted(), Path("/proc/self/task"))


def test_a_folder_that_cannot_be_made_is_replaced_by_the_home(
    folder: RunFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "file").touch()
    write_job_files(folder, a_document(tmp_path / "file/below"), granted(), None)
    assert read_bundle(folder.job / "bundle.json").cwd == str(tmp_path)
    write_job_files(folder, a_document(tmp_path / "new/below"), granted(), None)
    assert read_bundle(folder.job / "bundle.json").cwd == str(tmp_path / "new/below")


@pytest.mark.parametrize("document", [{}, {"manifest": {}}, {"manifest": None}, {"manifest": []}])
def test_a_damaged_bundle_ends_with_a_sentence(folder: RunFolder, document: dict) -> None:
    with pytest.raises(BundleError, match="is damaged"):
        write_job_files(folder, document, granted(), None)


def test_variables_that_the_pod_sets_are_not_taken_from_the_server(tmp_path: Path) -> None:
    assert read_variables(a_document(tmp_path)) == {"COLOUR": "blue", "TF_CPP": "1"}


def test_runner_gets_no_variable_of_process_1() -> None:
    told = {
        "GQ_JOB_ID": "job-1",
        "GQ_RUN": "2",
        "GQ_SERVICE_URL": "http://s/",
        "GQ_TOKEN_FILE": "/t",
        "GQ_CHECKPOINT_URL": "s3://u:p@x",
        "GQ_STOP_GRACE": "12",
        "RANK": "1",
    }
    settings = read_settings(told)
    assert (settings.run, settings.task, settings.grace, settings.termination_log) == (2, 0, 12.0, None)
    kept = {"GQ_JOB_ID": "job-1", "GQ_SERVICE_URL": "http://s/", "GQ_STOP_GRACE": "12", "RANK": "1"}
    assert remove_pod_variables(told) == kept
    with pytest.raises(RunError, match="GQ_RUN must be a number, not 'two'"):
        read_settings({**told, "GQ_RUN": "two"})
