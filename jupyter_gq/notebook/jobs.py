"""Functions for code in a cell that runs as a training job. In a plain notebook they do no harm.

The runner and this module meet in files of the run's folder (`GQ_RUN_DIR`): `stop` (written by the runner
when it is told to end), `stop_seen` (written here when the code has learned of it), `progress.json` (written
here).
"""

from __future__ import annotations

import contextlib
import json
import math
import os
from pathlib import Path

_RUN_DIR = "GQ_RUN_DIR"
_CHECKPOINT_DIR = "GQ_CHECKPOINT_DIR"
_RESULTS_DIR = "GQ_RESULTS_DIR"

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


def results_dir() -> Path:
    """Return the folder for files that the job brings back, such as plots; outside a job the present folder.

    The folder exists after the call. The files in it are listed with the job.
    """
    folder = Path(os.environ.get(_RESULTS_DIR) or Path())
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def progress(done: float, total: float | None = None, text: str = "") -> None:
    """Show in the jobs panel how far the job is, as in `progress(12, 100, "epoch 12")`.

    Without `total`, `done` is a part from 0 to 1. Without a text, the steps are shown, such as "12/100". Does nothing
    outside a job, or if the disk is full. Never raises: what is no number is shown as no fraction, and what cannot be
    written as text is shown as no text.
    """
    global _last_progress  # a module in the user's kernel is the one place that lives as long as the kernel
    run_dir = os.environ.get(_RUN_DIR)
    if not run_dir:
        return
    fraction, words = _fraction(done, total), _words(text)
    now = (None if fraction is None else round(fraction, 3), words)
    if now == _last_progress:
        return
    temporary = os.path.join(run_dir, f"progress.{os.getpid()}.tmp")
    with contextlib.suppress(OSError):  # training must not end because its progress cannot be shown
        with open(temporary, "w", encoding="utf-8") as file:
            json.dump({"fraction": fraction, "text": words or _steps(done, total)}, file)
        os.replace(temporary, os.path.join(run_dir, "progress.json"))
        _last_progress = now


def _fraction(done: float, total: float | None) -> float | None:
    """Return `done` divided by `total` (None = 1), limited to 0 to 1; None if that is not defined or not a number."""
    try:
        whole = 1.0 if total is None else float(total)
        part = float(done) / whole if whole > 0 else math.nan
    except Exception:  # noqa: BLE001 - tensors, arrays and other numbers of libraries raise errors of all kinds
        return None
    return None if math.isnan(part) else min(1.0, max(0.0, part))


def _steps(done: float, total: float | None) -> str:
    """Return the steps as text, such as "12/100"; "" without a total, or if they are no numbers of steps."""
    if total is None:
        return ""
    try:
        steps, whole = float(done), float(total)
    except Exception:  # noqa: BLE001 - as in `_fraction`
        return ""
    return f"{steps:.12g}/{whole:.12g}" if 0 <= steps < math.inf and 0 < whole < math.inf else ""


def _words(text: object) -> str:
    """Return the text of an object; "" for an object that cannot be written as text."""
    try:
        return str(text)
    except Exception:  # noqa: BLE001 - the method is the user's
        return ""
