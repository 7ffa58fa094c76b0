"""The two forms in which commands print an answer of the service: a table or sentences for people, and JSON."""

import argparse
import json
import shutil
import sys
from collections.abc import Iterable

from pydantic import BaseModel

from jupyter_gq.client.plain_output import print_plain


def add_output_argument(parser: argparse.ArgumentParser, form: str) -> None:
    """Add the option `--output`; `form` says for its help what the JSON form is."""
    parser.add_argument(
        "-o",
        "--output",
        choices=["table", "json"],
        default="table",
        help=f"table for people; json: {form} (default: table)",
    )


def print_json(answer: BaseModel, **beside: BaseModel) -> None:
    """Print the answer as one JSON object, with more fields `beside` its own."""
    fields = {name: more.model_dump(mode="json") for name, more in beside.items()}
    print(json.dumps({**answer.model_dump(mode="json"), **fields}, indent=2, ensure_ascii=False))


def print_lines(lines: Iterable[str]) -> None:
    """Print lines without control characters."""
    for line in lines:
        print_plain(line)


def terminal_width() -> int | None:
    """Return the width of the terminal in characters; None if standard output is a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None
