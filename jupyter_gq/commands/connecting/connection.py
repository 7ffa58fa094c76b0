"""The connection of a command to the scheduler service: its address, and the token of the user.

The address is that of `--url`, of the environment or of `jupyter-gq login`, and the token that of the environment or
of `jupyter-gq login`. A token of `jupyter-gq login` is sent only to the address for which it was stored, and the token
that the Hub gave to a notebook server only to the service of that Hub.
"""

import argparse
import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import TypeVar

from pydantic import ValidationError

from jupyter_gq.client.connection.http import ServiceError, ServiceUnavailable
from jupyter_gq.client.model_errors import describe_errors
from jupyter_gq.commands.refusal import CommandRefused, RefusedByService, ServiceAway
from jupyter_gq.notebook.job_options import name_option

from .address import find_service
from .login_file import Login, read_login
from .patience import MOMENT, NOT_HTTPS, Patience, PatientClient
from .tokens import clean_token

Answer = TypeVar("Answer")
_URL = "JUPYTER_GQ_URL"
#: The first variable that is set holds the token; the Hub sets the second one in notebook servers.
TOKEN_VARIABLES = ("JUPYTER_GQ_TOKEN", "JUPYTERHUB_API_TOKEN")
_PLACES = f"is read from ${TOKEN_VARIABLES[0]} or ${TOKEN_VARIABLES[1]}, or from `jupyter-gq login`."


def add_service_arguments(parser: argparse.ArgumentParser, *, admin: bool = False) -> None:
    """Add the options `--url` for the address of the service and `--no-wait`, and an epilog about the token."""
    parser.add_argument(
        "--url",
        help="address of the service, such as https://hub.example.org/services/jupyter-gq, or of the Hub "
        f"(default: ${_URL}, else that of `jupyter-gq login`)",
    )
    add_wait_argument(parser)
    parser.epilog = f"The token{' of an administrator' if admin else ''} {_PLACES}"


def add_wait_argument(parser: argparse.ArgumentParser) -> None:
    """Add the option `--no-wait`, which `ask_service` reads."""
    parser.add_argument(
        "--no-wait",
        action="store_true",
        help=f"end at once if the service does not answer (default: try again for {MOMENT:.0f} s: it may restart)",
    )


def ask_service(arguments: argparse.Namespace, question: Callable[[PatientClient], Awaitable[Answer]]) -> Answer:
    """Call `question` with a client of the service and return its result.

    Raises `CommandRefused` if address or token are missing or wrong, or if an argument of the command is;
    `RefusedByService` if the service refuses, and `ServiceAway` if it does not answer, also not after a moment.
    """
    return ask_as(find_login(arguments.url), question, no_wait=arguments.no_wait)


def ask_as(login: Login, question: Callable[[PatientClient], Awaitable[Answer]], *, no_wait: bool = False) -> Answer:
    """Call `question` with a client for this address and token, and return its result; see `ask_service`.

    `no_wait` raises `ServiceAway` at once if the service does not answer.
    """
    return asyncio.run(_ask(login, question, Patience(0.0 if no_wait else MOMENT)))


def find_login(url: str | None) -> Login:
    """Return the address and the token of the user; `url` is the value of `--url`.

    Raises `CommandRefused` if one of them is missing or wrong, or if the stored login cannot be used.
    """
    stored = read_login()
    address = os.environ.get(_URL) if url is None else url
    if not address and url is None and stored is not None:
        address = stored.url
    if not address:
        raise CommandRefused(
            f"No service is named. Run `jupyter-gq login`, or give its address with --url or in ${_URL}."
        )
    address = find_service(address)
    token = _find_token(address, stored)
    if not token:
        raise CommandRefused(
            f"There is no token for {address}. Run `jupyter-gq login`, or set ${TOKEN_VARIABLES[0]}; the Hub's token "
            "page makes tokens."
        )
    return Login(url=address, token=token)


def _find_token(address: str, stored: Login | None) -> str:
    """Return the token for an address; "" if there is none. Raises `CommandRefused` for a text that is no token."""
    own, of_hub = TOKEN_VARIABLES
    known = os.environ.get(_URL)
    # In a terminal of a notebook server, the Hub's token is for the service of that Hub and for no other one.
    names = [own, of_hub] if not known or find_service(known) == address else [own]
    for name in names:
        if token := clean_token(os.environ.get(name, ""), f"in ${name}"):
            return token
    return clean_token(stored.token, "of `jupyter-gq login`") if stored and stored.url == address else ""


async def _ask(login: Login, question: Callable[[PatientClient], Awaitable[Answer]], patience: Patience) -> Answer:
    client = PatientClient(login.url, login.token, patience)
    try:
        return await question(client)
    except ServiceUnavailable as error:
        raise ServiceAway(error.problem.message + _hint_at_http(error.problem.message)) from None
    except ServiceError as error:
        remedy = " Run `jupyter-gq login` to store another one." if error.status == 401 else ""
        raise RefusedByService(error.problem.message + remedy) from None
    except ValidationError as error:
        raise CommandRefused(_describe_arguments(error)) from None
    finally:
        client.close()


def _describe_arguments(error: ValidationError) -> str:
    """Return a sentence for each argument of the command that the API does not take, with the name of its option."""
    found = describe_errors(error).items()
    return " ".join(f"{name_option(field)}: {why}." if field else f"{why}." for field, why in found)


def _hint_at_http(message: str) -> str:
    """Return a sentence about the scheme if the message of a failed connection says that nobody spoke HTTPS."""
    hint = " If the Hub has no HTTPS, write its address with http://."
    return hint if NOT_HTTPS.search(message) else ""
