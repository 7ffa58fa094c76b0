"""`jupyter-gq backup`: write the service's database to a file, while it runs."""

import argparse
from pathlib import Path

from jupyter_gq.domain.audit import Action

from .address import DATABASE_HELP, database_url
from .backups import back_up
from .command_audit import make_command_entry
from .command_errors import raised_to_admin
from .copying import describe_rows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq backup`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the new file; only you can read it")
    parser.add_argument(
        "--database",
        metavar="DATABASE",
        help=DATABASE_HELP,
    )
    parser.epilog = "The service may run meanwhile. The folders of jobs are not part of a backup."


def run(arguments: argparse.Namespace) -> int:
    """Write the backup, print the number of rows of each table, and return 0. Raises `AdminError` if that fails."""
    with raised_to_admin():
        entry = make_command_entry(Action.DATABASE_BACKUP, str(arguments.file.absolute()))
        copied = back_up(database_url(arguments.database), arguments.file, audit=[entry])
    print(f"Written to {arguments.file}: {describe_rows(copied)}.")
    return 0
