"""`jupyter-gq copy-database`: copy the data of the service to another database."""

import argparse
import os

from jupyter_gq.domain.errors import AdminError, JupyterGQError

from .copying import copy

_TARGET = "JUPYTER_GQ_DATABASE_URL"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq copy-database`."""
    parser.add_argument(
        "source", metavar="OLD", help="URL of the database to read, such as sqlite:////path/service.sqlite"
    )
    parser.add_argument(
        "target",
        metavar="NEW",
        nargs="?",
        default=os.environ.get(_TARGET),
        help=f"URL of an empty database (default: ${_TARGET}, which keeps a password off the command line)",
    )
    parser.epilog = "Stop the service first. The old database stays as it is."


def run(arguments: argparse.Namespace) -> int:
    """Copy the database, and print the number of rows of each table. Raises `AdminError` if it cannot be copied."""
    if not arguments.target:
        raise AdminError(f"Copy to which database? Give its URL after that of the old one, or in ${_TARGET}.")
    try:
        copied = copy(arguments.source, arguments.target)
    except JupyterGQError as error:
        raise AdminError(str(error)) from error
    print("Copied: " + ", ".join(f"{number} {name}" for name, number in copied.items()) + ".")
    return 0
