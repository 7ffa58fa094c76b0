"""`jupyter-gq snapshot`: write the live state of the scheduler service to a file."""

import argparse
import asyncio
import os
import sys
from pathlib import Path

from jupyter_gq.client.http import ServiceClient, ServiceError
from jupyter_gq.client.state import read_state

from .files import CommandRefused, counted

_URL, _TOKEN = "JUPYTER_GQ_URL", "JUPYTERHUB_API_TOKEN"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq snapshot`."""
    add_service_arguments(parser)
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="file to write (default: standard output)")
    parser.epilog = f"The token of an administrator is read from ${_TOKEN}; make one on the hub's token page."


def add_service_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option that names the service."""
    parser.add_argument(
        "--url",
        default=os.environ.get(_URL),
        help=f"address of the service, such as https://hub.example.org/services/jupyter-gq (default: ${_URL})",
    )


def ask_state(arguments: argparse.Namespace) -> str:
    """Return the state document of the service that the arguments name; raise `CommandRefused` if it cannot be had."""
    token = os.environ.get(_TOKEN, "")
    if not arguments.url:
        raise CommandRefused(f"Which service? Give its address with --url or in ${_URL}.")
    if not token:
        raise CommandRefused(f"Set ${_TOKEN} to the token of an administrator; make one on the hub's token page.")
    return asyncio.run(_ask(arguments.url, token))


def run(arguments: argparse.Namespace) -> int:
    """Ask the service; write what it says."""
    text = ask_state(arguments)
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


async def _ask(url: str, token: str) -> str:
    client = ServiceClient(url, token)
    try:
        return await client.state()
    except ServiceError as error:
        raise CommandRefused(f"{url} says: {error}") from None
    finally:
        client.close()
