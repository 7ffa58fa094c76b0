"""`jupyter-gq undrain`: put a GPU or a node back into service."""

import argparse

from jupyter_gq.client.plain_output import print_plain
from jupyter_gq.commands.connecting.connection import add_service_arguments, ask_service


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq undrain`."""
    parser.add_argument("name", metavar="NAME", help="the name of the drained node, or the index or UUID of the GPU")
    add_service_arguments(parser, admin=True)


def run(arguments: argparse.Namespace) -> int:
    """Put the node or GPU back into service, print the service's sentence about it, and return 0.

    Raises `CommandRefused` if the service cannot be asked or refuses.
    """
    print_plain(ask_service(arguments, lambda client: client.undrain(arguments.name)).sentence)
    return 0
