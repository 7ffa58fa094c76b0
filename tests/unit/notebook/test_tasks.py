"""Code in a job can ask how many tasks there are now, and which of them it is."""

import json

import pytest

import jupyter_gq

VARIABLES = ("NNODES", "NODE_RANK", "GQ_SIZE_FILE")


@pytest.fixture
def told(monkeypatch):
    """Set the variables that the backend gives to a task."""

    def tell(**variables) -> None:
        for name in VARIABLES:
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, str(value))

    tell()
    return tell


def test_a_notebook_is_one_task(told) -> None:
    assert jupyter_gq.tasks() == jupyter_gq.Tasks(number=0, present=(0,), least=1, most=1)


def test_the_tasks_of_a_job_that_keeps_its_size_are_all_of_them(told) -> None:
    told(NNODES=4, NODE_RANK=3)
    found = jupyter_gq.tasks()
    assert found == jupyter_gq.Tasks(number=3, present=(0, 1, 2, 3), least=4, most=4)
    assert (found.count, found.rank) == (4, 3)


def test_the_tasks_of_an_elastic_job_are_read_anew_each_time(told, tmp_path) -> None:
    file = tmp_path / "size.json"
    told(NNODES="2:4", NODE_RANK=3, GQ_SIZE_FILE=file)
    file.write_text(json.dumps({"tasks": [0, 1, 3], "least": 2, "most": 4}))
    found = jupyter_gq.tasks()
    assert (found.count, found.rank, found.least, found.most) == (3, 2, 2, 4)
    file.write_text(json.dumps({"tasks": [0, 1], "least": 2, "most": 4}))
    found = jupyter_gq.tasks()
    assert (found.count, found.rank) == (2, None), "this task was told to stop"
