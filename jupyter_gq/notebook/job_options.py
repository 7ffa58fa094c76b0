"""The options of a job in words: those of `jupyter-gq submit` and of the line of `%%train`.

See docs/decisions/0237-write-the-options-of-a-job-where-people-read-them.md.
"""

from __future__ import annotations

import argparse
import re

from jupyter_gq.domain.plain_text import BLANKS, quoted

from .durations import parse_duration

#: Fields of a job whose option has another name.
_RENAMED = {"preferred_gpu_models": "prefer_model", "expected_seconds": "expected", "max_seconds": "max_time"}
#: Digits of a whole number.
_MOST_DIGITS = 18
_FIELDS = (
    *("queue", "gpus", "gpu_memory", "name", "cpus", "memory", "gpu_model", "preferred_gpu_models"),
    *("tasks", "min_tasks", "within", "priority", "expected_seconds", "max_seconds", "continue_from"),
)


def add_job_options(parser: argparse.ArgumentParser, *, named_after: str) -> None:
    """Add the options of a job to a parser; a job without a name has that of what `named_after` says."""
    parser.add_argument("--queue", default="", help="training queue (default: yours, if you have only one)")
    parser.add_argument("--gpus", default="1", help="GPUs of each task: 0, a fraction or a whole number (default: 1)")
    parser.add_argument(
        "--gpu-memory", help="GPU memory of each task, such as '12 GiB', in place of a fraction of a GPU"
    )
    parser.add_argument("--name", default="", help=f"name of the job (default: that of the {named_after})")
    parser.add_argument("--cpus", help="CPU cores of each task (default: as the queue says)")
    parser.add_argument("--memory", help="memory of each task, such as '16 GiB' (default: as the queue says)")
    parser.add_argument("--gpu-model", help="only GPUs of this model (default: any)")
    parser.add_argument(
        "--prefer-model",
        action="append",
        default=[],
        metavar="MODEL",
        help="GPUs of this model, if there is room; may be repeated, the first is tried first",
    )
    parser.add_argument("--tasks", type=parse_whole, default=1, help="number of tasks; all start together (default: 1)")
    parser.add_argument(
        "--min-tasks",
        type=parse_whole,
        metavar="TASKS",
        help="least number of tasks: the job starts with so many, and grows and shrinks while it runs (default: all)",
    )
    parser.add_argument("--within", metavar="LEVEL", help="all tasks in one node, rack or other level of the cluster")
    parser.add_argument("--priority", type=parse_whole, default=0, help="priority inside the queue (default: 0)")
    parser.add_argument(
        "--expected",
        type=parse_duration,
        metavar="TIME",
        help="how long the job will probably run, such as 90m or 12h; for forecasts only, it is not a limit",
    )
    parser.add_argument(
        "--max-time",
        type=parse_duration,
        metavar="TIME",
        help="how long the job may run, over all runs and without pauses; then it saves its state and ends "
        "(default: as the queue says)",
    )
    parser.add_argument(
        "--continue-from",
        type=_parse_job,
        metavar="JOB",
        help="ended job of yours with a copy of whose checkpoints this one begins (default: with none)",
    )


def add_returns_option(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the variables which a job brings back, with commas between them."""
    parser.add_argument(
        "--returns", type=_split_names, default=[], metavar="NAMES", help="variables to bring back, such as model,loss"
    )


def add_also_option(parser: argparse._ActionsContainer) -> None:
    """Add the option that names files which the code does not name, and which go along."""
    parser.add_argument(
        "--also",
        action="append",
        default=[],
        metavar="PATTERN",
        help="take files along that the code does not name, such as '*.yaml' or conf/; may be repeated",
    )


def _split_names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def parse_whole(text: str) -> int:
    """Return the whole number that an option has, perhaps with a sign.

    Raises `ArgumentTypeError` for text in another form and for more than `_MOST_DIGITS` digits.
    """
    text = text.strip(BLANKS)
    if re.fullmatch(r"[+-]?[0-9]+", text) is None:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no whole number")
    digits = len(text.lstrip("+-"))
    if digits > _MOST_DIGITS:
        told = f"a number of at most {_MOST_DIGITS} digits was expected, not one of {digits}"
        raise argparse.ArgumentTypeError(told)
    return int(text)


def _parse_job(text: str) -> str:
    """Return the job that an option names; raise `ArgumentTypeError` for an empty text.

    A job that was to continue from another must not begin from nothing because a variable of a shell was empty.
    """
    job = text.strip()
    if not job:
        raise argparse.ArgumentTypeError("an empty text is no job: write the id of a job, or leave the option out")
    return job


def read_job_options(parsed: argparse.Namespace) -> dict[str, object]:
    """Return the values of the options of `add_job_options`, set or not, by the names of their fields in the API."""
    values = {field: getattr(parsed, _RENAMED.get(field, field)) for field in _FIELDS}
    return {**values, "continue_from": parsed.continue_from or ""}


def name_option(field: str) -> str:
    """Return the name of the option that sets a field of a job, such as "max-time" for "max_seconds"."""
    return _RENAMED.get(field, field).replace("_", "-")
