"""`jupyter-gq snapshot`: write the live state of the scheduler service to a file."""

import argparse
import sys
from pathlib import Path

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.state import read_state
from jupyter_gq.commands.connecting.connection import add_service_arguments, ask_service
from jupyter_gq.commands.refusal import CommandRefused

from .files import counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq snapshot`."""
    add_service_arguments(parser, admin=True)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (default: standard output)")


def run(arguments: argparse.Namespace) -> int:
    """Write the state of the service to the file, with a summary on standard output, or to standard output; return 0.

    Raises `CommandRefused` if the service cannot be asked or the file cannot be written.
    """
    text = ask_service(arguments, ServiceClient.state)
    state = read_state(text).state
    if arguments.output is None:
        sys.stdout.write(text + "\n")
        return 0
    try:
        arguments.output.write_text(text + "\n")
    except OSError as error:
        raise CommandRefused(f"{arguments.output} cannot be written: {error.strerror}.") from None
    snapshot = state.snapshot
    print(
        f"{arguments.output}: {counted(len(snapshot.nodes), 'node')}, {counted(len(snapshot.queues), 'queue')}, "
        f"{counted(len(snapshot.workloads), 'workload')}. It names users; keep it to yourself."
    )
    return 0
