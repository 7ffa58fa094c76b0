"""`jupyter-gq login`: store the address of a service and a token for it."""

import argparse
import getpass
import os
import sys
from urllib.parse import urlsplit

from jupyter_gq.client.connection.http import ServiceClient

from .connecting.address import SERVICE_PATH, find_service
from .connecting.connection import TOKEN_VARIABLES, ask_as
from .connecting.login_file import Login, write_login
from .connecting.tokens import clean_token
from .refusal import CommandRefused

_THIS_MACHINE = frozenset({"localhost", "127.0.0.1", "::1"})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq login`."""
    parser.add_argument(
        "address",
        metavar="ADDRESS",
        nargs="?",
        help="address of the Hub, such as https://hub.example.org, or of the service (default: asked for)",
    )
    parser.epilog = (
        "At a terminal, type the token; it is not shown. Otherwise the first line of standard input is the token. Make "
        "a token on the Hub's page *Token*. The address and the token are stored in a file that only you may read."
    )


def run(arguments: argparse.Namespace) -> int:
    """Store the address and the token once the service has accepted them; print for whom, and return 0.

    Raises `CommandRefused` if one of them is missing or wrong, or if the file cannot be written.
    """
    address = arguments.address if arguments.address is not None else _ask_address()
    url = find_service(address)
    parts = urlsplit(url)
    if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
        print(f"The connection to {parts.hostname} is not encrypted: others may read your token.", file=sys.stderr)
    login = Login(url=url, token=_ask_token(url))
    me = ask_as(login, ServiceClient.me, no_wait=True)  # an address that was just typed may be wrong
    path = write_login(login)
    print(f"You are {me.user} at {url}. The token is stored in {path}.")
    for name in TOKEN_VARIABLES:
        if os.environ.get(name):
            print(f"${name} is set here: commands in this terminal use its token instead.", file=sys.stderr)
    return 0


def _ask_address() -> str:
    """Return the address that the user types; raise `CommandRefused` if there is no terminal to ask at."""
    if not sys.stdin.isatty():
        raise CommandRefused("No Hub is named. Give its address, as in `jupyter-gq login https://hub.example.org`.")
    return input("Address of the Hub: ")


def _ask_token(url: str) -> str:
    """Return the token that the user types, or the first line of standard input if that is no terminal.

    Raises `CommandRefused` if it is empty or cannot be a token.
    """
    if sys.stdin.isatty():
        hub = url.removesuffix(SERVICE_PATH)
        token = getpass.getpass(f"Token ({hub}hub/token makes one): " if hub != url else "Token: ")
    else:
        token = sys.stdin.readline()
    if not (token := clean_token(token, "that was given")):
        raise CommandRefused("There was no token. Make one on the Hub's token page.")
    return token
