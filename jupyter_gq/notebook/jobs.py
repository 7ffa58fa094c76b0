"""Functions for code in a cell that runs as a training job. In a plain notebook they do no harm.

The runner and this module meet in files of the run's folder (`GQ_RUN_DIR`): `stop` (written by the runner
when it is told to end), `stop_seen` (written here when the code has learned of it), `progress.json` (written
here).
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

_RUN_DIR = "GQ_RUN_DIR"
_CHECKPOINT_DIR = "GQ_CHECKPOINT_DIR"

_last_progress: tuple[float | None, str] | None = None


def in_job() -> bool:
    """Return True if this code runs in a training job, False in a notebook."""
    return bool(os.environ.get(_RUN_DIR))


def should_stop() -> bool:
    """Return True once this job has to give its GPUs back: save a checkpoint then, and let the cell end.

    A cell that ends after it saw True is *paused*: it is started again later, from its beginning, and finds what it
    saved in `checkpoint_dir()`. The call is cheap enough for every batch. Outside a job, return False.
    """
    run_dir = os.environ.get(_RUN_DIR)
    if not run_dir or not os.path.exists(os.path.join(run_dir, "stop")):
        return False
    seen = os.path.join(run_dir, "stop_seen")
    if not os.path.exists(seen):
        with open(seen, "w", encoding="utf-8"):
            pass
    return True


def checkpoint_dir() -> Path:
    """Return the folder for checkpoints, which outlives pauses of a job; outside a job `.gq/checkpoint` here.

    The folder exists after the call. Write a checkpoint under a temporary name and then `os.replace` it, so that it is
    always either complete or absent.
    """
    folder = Path(os.environ.get(_CHECKPOINT_DIR) or Path(".gq", "checkpoint"))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Show in the jobs panel how far the job is, as in `progress(12, 100, "epoch 12")`.

    Without `total`, `done` is a part from 0 to 1. Does nothing outside a job, or if the disk is full.
    """
    global _last_progress  # a module in the user's kernel is the one place that lives as long as the kernel
    run_dir = os.environ.get(_RUN_DIR)
    if not run_dir:
        return
    fraction = _fraction(done, total)
    now = (None if fraction is None else round(fraction, 3), text)
    if now == _last_progress:
        return
    temporary = os.path.join(run_dir, f"progress.{os.getpid()}.tmp")
    with contextlib.suppress(OSError):  # training must not end because its progress cannot be shown
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"fraction": fraction, "text": str(text)}, file)
        os.replace(temporary, os.path.join(run_dir, "progress.json"))
        _last_progress = now


def _fraction(done: float, total: float | None) -> float | None:
    """Return `done` divided by `total` (None = 1), limited to 0 to 1; None if that is not defined or not a number."""
    if total is None:
        total = 1
    if not total > 0:
        return None
    try:
        part = float(done) / float(total)
    except OverflowError:  # integers have no limit, but floats do
        return None
    return min(1.0, max(0.0, part)) if part == part else None
