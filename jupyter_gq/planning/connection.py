"""The connection of a command to the scheduler service: its address, and the token of an administrator."""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar
from urllib.parse import urlsplit

from pydantic import ValidationError

from jupyter_gq.client.http import ServiceClient, ServiceError

from .files import CommandRefused

Answer = TypeVar("Answer")
#: A service on this machine has a Unix socket.
_SCHEMES = frozenset({"http", "https", "http+unix"})
_URL, _TOKEN = "JUPYTER_GQ_URL", "JUPYTERHUB_API_TOKEN"


def add_service_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the option `--url` for the address of the service, and an epilog that says where the token comes from."""
    parser.add_argument(
        "--url",
        default=os.environ.get(_URL),
        help=f"address of the service, such as https://hub.example.org/services/jupyter-gq (default: ${_URL})",
    )
    parser.epilog = f"The token of an administrator is read from ${_TOKEN}; make one on the hub's token page."


def ask_service(arguments: argparse.Namespace, question: Callable[[ServiceClient], Awaitable[Answer]]) -> Answer:
    """Call `question` with a client of the service and return its result.

    The address comes from the arguments, and the token from the environment. Raises `CommandRefused` if one of them is
    missing or wrong, if an argument of the command is, or if the service refuses or cannot be reached.
    """
    token = os.environ.get(_TOKEN, "")
    if not arguments.url:
        raise CommandRefused(f"Which service? Give its address with --url or in ${_URL}.")
    if urlsplit(arguments.url).scheme not in _SCHEMES:
        raise CommandRefused(
            f"{arguments.url!r} is no address of a service. An address begins with https:// or http://."
        )
    if not token:
        raise CommandRefused(f"Set ${_TOKEN} to the token of an administrator; make one on the hub's token page.")
    return asyncio.run(_ask(arguments.url, token, question))


async def _ask(url: str, token: str, question: Callable[[ServiceClient], Awaitable[Answer]]) -> Answer:
    client = ServiceClient(url, token)
    try:
        return await question(client)
    except ServiceError as error:
        raise CommandRefused(f"{url} says: {error}") from None
    except ValidationError as error:
        raise CommandRefused("; ".join(f"{detail['input']!r}: {detail['msg']}" for detail in error.errors())) from None
    finally:
        client.close()
