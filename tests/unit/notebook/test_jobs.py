"""The user's calls do what they say in a job, and no harm in a notebook."""

import json
from pathlib import Path

import pytest

import jupyter_gq
from jupyter_gq.notebook import jobs


@pytest.fixture
def run_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "runs" / "1" / "0"
    folder.mkdir(parents=True)
    monkeypatch.setenv("GQ_RUN_DIR", str(folder))
    monkeypatch.setenv("GQ_CHECKPOINT_DIR", str(tmp_path / "checkpoint"))
    monkeypatch.setattr(jobs, "_last_progress", None)
    return folder


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("GQ_RUN_DIR", raising=False)
    monkeypatch.delenv("GQ_CHECKPOINT_DIR", raising=False)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_in_a_notebook_nothing_stops_and_nothing_is_written_but_checkpoints(notebook: Path) -> None:
    assert not jupyter_gq.in_job()
    assert not jupyter_gq.should_stop()
    jupyter_gq.progress(1, 2, "half")
    assert list(notebook.iterdir()) == []
    assert jupyter_gq.checkpoint_dir() == Path(".gq", "checkpoint")
    assert (notebook / ".gq" / "checkpoint").is_dir()


def test_a_job_is_asked_to_stop_by_a_file_and_tells_that_it_saw(run_dir: Path) -> None:
    assert jupyter_gq.in_job()
    assert not jupyter_gq.should_stop()
    assert not (run_dir / "stop_seen").exists()
    (run_dir / "stop").touch()
    assert jupyter_gq.should_stop()
    assert jupyter_gq.should_stop()
    assert (run_dir / "stop_seen").exists()


def test_checkpoints_of_a_job_outlive_its_runs(run_dir: Path, tmp_path: Path) -> None:
    assert jupyter_gq.checkpoint_dir() == tmp_path / "checkpoint"
    assert jupyter_gq.checkpoint_dir().is_dir()


@pytest.mark.parametrize(
    ("said", "fraction"),
    [((30, 120), 0.25), ((0.5,), 0.5), ((7, 5), 1.0), ((-1, 5), 0.0), ((1, 0), None), ((float("nan"), 1), None)],
)
def test_progress_is_a_part_between_0_and_1(run_dir: Path, said: tuple, fraction: float | None) -> None:
    jupyter_gq.progress(*said, text="loss 0.1")
    assert json.loads((run_dir / "progress.json").read_text()) == {"fraction": fraction, "text": "loss 0.1"}


class HasNoTruth:
    """A stand-in for an array of several numbers: each comparison, conversion and attribute raises RuntimeError."""

    def __getattr__(self, name: str) -> object:
        raise RuntimeError(f"no {name} of several values")

    def __gt__(self, other: object) -> bool:
        raise RuntimeError("the truth of several values is ambiguous")

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("the truth of several values is ambiguous")

    def __float__(self) -> float:
        raise RuntimeError("only one value is a number")

    def __str__(self) -> str:
        raise RuntimeError("cannot be written")

    __hash__ = None  # type: ignore[assignment]


@pytest.mark.parametrize(
    "said",
    [
        (10**400, 10),
        (1, 10**400),
        (10**400, 10**400),
        (None,),
        (1, "many"),
        (1, 1j),
        (HasNoTruth(), 2),
        (1, HasNoTruth()),
    ],
    ids=range(8),
)
def test_progress_that_is_no_number_does_not_end_the_training(run_dir: Path, said: tuple) -> None:
    jupyter_gq.progress(*said, text="epoch 1")
    assert json.loads((run_dir / "progress.json").read_text()) == {"fraction": None, "text": "epoch 1"}


def test_a_text_that_cannot_be_written_does_not_end_the_training(run_dir: Path) -> None:
    for _ in range(2):
        jupyter_gq.progress(1, 2, HasNoTruth())  # type: ignore[arg-type]
    assert json.loads((run_dir / "progress.json").read_text()) == {"fraction": 0.5, "text": "1/2"}


@pytest.mark.parametrize(
    ("said", "text"),
    [
        ((12, 100), "12/100"),
        ((2.5, 10), "2.5/10"),
        ((123_456, 1_000_000), "123456/1000000"),
        ((0.5,), ""),
        ((1, float("inf")), ""),
        ((1, "many"), ""),
        ((1, HasNoTruth()), ""),
        ((1, 0), ""),
        ((-5, 10), ""),
    ],
    ids=range(9),
)
def test_steps_are_the_text_if_there_is_no_other(run_dir: Path, said: tuple, text: str) -> None:
    jupyter_gq.progress(*said)
    assert json.loads((run_dir / "progress.json").read_text())["text"] == text


def test_the_same_progress_is_not_written_again(run_dir: Path) -> None:
    jupyter_gq.progress(1, 10_000)
    (run_dir / "progress.json").unlink()
    jupyter_gq.progress(2, 10_000)
    assert not (run_dir / "progress.json").exists()
    jupyter_gq.progress(1, 2)
    assert (run_dir / "progress.json").exists()
