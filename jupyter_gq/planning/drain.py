"""`jupyter-gq drain`: take a GPU or a node out of service, or list what is out of service."""

import argparse

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.commands.connecting.connection import add_service_arguments, ask_service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq drain`."""
    parser.add_argument(
        "name",
        metavar="NAME",
        nargs="?",
        help="a node; on one machine also a GPU by its index or UUID (default: list what is out of service)",
    )
    add_service_arguments(parser, admin=True)


def run(arguments: argparse.Namespace) -> int:
    """Drain the named node or GPU and print what leaves and what stays, or list all drains if none is named; return 0.

    Raises `CommandRefused` if the service cannot be asked or refuses.
    """
    if arguments.name is not None:
        print_plain(ask_service(arguments, lambda client: client.drain(arguments.name)).sentence)
        return 0
    drains = ask_service(arguments, ServiceClient.drains).drains
    for drain in drains:
        print_plain(f"{drain.name} ({drain.note}): {drain.sentence}")
    if not drains:
        print("Nothing is out of service.")
    return 0
