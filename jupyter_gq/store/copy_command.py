"""`jupyter-gq copy-database`: copy the data of the service to another database."""

import argparse
import os

from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.errors import AdminError

from .address import VARIABLE, database_url
from .command_audit import make_command_entry
from .command_errors import raised_to_admin
from .copying import copy, describe_rows
from .engine import parse_url
from .running_service import expect_no_service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq copy-database`."""
    parser.add_argument(
        "source", metavar="OLD", help="database to read: its URL, such as sqlite:////path/service.sqlite, or its file"
    )
    parser.add_argument(
        "target",
        metavar="NEW",
        nargs="?",
        default=os.environ.get(VARIABLE),
        help=f"URL of an empty database (default: ${VARIABLE}, which keeps a password off the command line)",
    )
    parser.epilog = "Stop the service first. The old database stays as it is."


def run(arguments: argparse.Namespace) -> int:
    """Copy the database, print the number of rows of each table, and return 0. Raises `AdminError` if that fails."""
    if not arguments.target:
        raise AdminError(f"Copy to which database? Give its URL after that of the old one, or in ${VARIABLE}.")
    with raised_to_admin():
        source = database_url(arguments.source)
        for url in (source, arguments.target):
            expect_no_service(url)
        entry = make_command_entry(
            Action.DATABASE_COPY, parse_url(source).database or ""
        )  # the URL may hold a password
        copied = copy(source, arguments.target, audit=[entry])
    print(f"Copied: {describe_rows(copied)}.")
    return 0
