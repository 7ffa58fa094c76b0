"""`jupyter-gq restore`: put a backup back into a database."""

import argparse
from pathlib import Path

from jupyter_gq.domain.audit import Action

from .address import DATABASE_HELP, database_url
from .backups import restore
from .command_audit import make_command_entry
from .command_errors import raised_to_admin
from .copying import describe_rows
from .running_service import expect_no_service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq restore`."""
    parser.add_argument("file", metavar="FILE", type=Path, help="the backup; it is only read")
    parser.add_argument(
        "database",
        metavar="DATABASE",
        nargs="?",
        help=DATABASE_HELP,
    )
    parser.add_argument(
        "--replace",
        metavar="KEPT",
        type=Path,
        help="replace what the database holds; a backup of that is written to this new file first",
    )
    parser.epilog = "Stop the Hub first. Jobs that run and are not in the backup go on, and are shown to the admin."


def run(arguments: argparse.Namespace) -> int:
    """Restore the backup, print the number of rows of each table, and return 0. Raises `AdminError` if that fails."""
    with raised_to_admin():
        url = database_url(arguments.database, may_be_missing=True)
        expect_no_service(url)
        entry = make_command_entry(Action.DATABASE_RESTORE, str(arguments.file.absolute()))
        copied = restore(arguments.file, url, kept=arguments.replace, audit=[entry])
    print(f"Restored: {describe_rows(copied)}.")
    return 0
