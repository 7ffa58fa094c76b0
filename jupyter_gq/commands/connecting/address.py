"""The address of the service, from each address that a user may have."""

import re
from urllib.parse import SplitResult, urlsplit

from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.domain.plain_text import quoted

SERVICE_PATH = "services/jupyter-gq"
#: A service on this machine has a Unix socket.
_SOCKET = "http+unix"
_SCHEMES = frozenset({"http", "https", _SOCKET})
#: Where the pages of the Hub and of servers begin, below the address of the Hub.
_BELOW_HUB = re.compile(r"/(?:hub|user)/")
_LONGEST = 2000


def find_service(address: str) -> str:
    """Return the address of the service that a Hub has; no request is sent.

    `address` is that of the Hub, of one of its pages, of a page of JupyterLab, or of the service itself. Without a
    scheme, https is meant. A query is left out. Raises `CommandRefused` if the address is none; its sentence never
    holds a password.
    """
    parts = _split(address)
    root = f"{parts.scheme}://{parts.netloc}"
    if parts.scheme == _SOCKET or "/services/" in parts.path:
        return root + parts.path.rstrip("/")
    base = _BELOW_HUB.split(f"{parts.path}/", maxsplit=1)[0].rstrip("/")
    return f"{root}{base}/{SERVICE_PATH}"


def is_on_this_machine(service: str) -> bool:
    """Return whether the service at this address runs on this machine, and its jobs as well."""
    return urlsplit(service).scheme == _SOCKET


def _split(address: str) -> SplitResult:
    """Return the parts of an address that a request can be sent to; raise `CommandRefused` for any other address."""
    text = address.strip()
    if len(text) > _LONGEST or not text.isprintable() or " " in text:
        raise _refuse(address, f"An address has at most {_LONGEST} characters, and no spaces or control characters.")
    try:
        parts = urlsplit(text if "://" in text else f"https://{text}")
        port = parts.port if parts.scheme != _SOCKET else None
    except ValueError:
        raise _refuse(address, "A port is a number up to 65535, and an IPv6 address stands in brackets.") from None
    if parts.scheme not in _SCHEMES:
        raise _refuse(address, "An address begins with https:// or http://.")
    if parts.scheme != _SOCKET:
        _check_host(address, parts, port)
    elif not parts.netloc:
        raise _refuse(address, "The path of the socket is missing.")
    return parts


def _check_host(address: str, parts: SplitResult, port: int | None) -> None:
    """Raise `CommandRefused` if the address has no host, no valid port, or a user name."""
    if "@" in parts.netloc:
        raise CommandRefused(
            "The address holds a user name or a password. Leave out what stands before the @: the service takes a "
            "token only."
        )
    if not parts.hostname:
        raise _refuse(address, "The address of a Hub is like https://hub.example.org.")
    if port == 0 or parts.netloc.endswith(":"):
        raise _refuse(address, "A port is a number from 1 to 65535.")


def _refuse(address: str, remedy: str) -> CommandRefused:
    """Return the error for an address; an address that may hold a password is not shown."""
    shown = "This" if "@" in address else quoted(address)
    return CommandRefused(f"{shown} is not the address of a service. {remedy}")
