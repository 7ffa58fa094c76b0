"""`jupyter-gq secret`: store, list and remove the secrets of this machine that jobs may name."""

import argparse
import getpass
import os
import sys

from jupyter_gq.client.environment.user_secrets import LARGEST, is_valid_name, list_secrets, remove_secret, write_secret
from jupyter_gq.client.plain_output import print_plain

from .refusal import CommandRefused, ExitCode


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the actions of `jupyter-gq secret`."""
    parser.add_argument("action", choices=["set", "list", "remove"], help="what to do")
    parser.add_argument("name", nargs="?", default="", metavar="NAME", help="name of the secret, such as HF_TOKEN")
    parser.epilog = (
        "`set` asks for the value without showing it, or reads it from standard input if that is no terminal. The "
        "value stays in a file of yours on this machine; jobs that name the secret find it in a variable of that name."
    )


def run(arguments: argparse.Namespace) -> int:
    """Carry out the action; return 0, or 1 if there is no secret to remove.

    Raises `CommandRefused` if the name or the value cannot be used, or the disk refuses.
    """
    home, name = os.path.expanduser("~"), arguments.name
    if arguments.action == "list":
        print_plain("\n".join(list_secrets(home)) or "There are no secrets. `jupyter-gq secret set NAME` stores one.")
        return ExitCode.OK
    if not is_valid_name(name):
        raise CommandRefused(f"{name!r} is no name of a secret. Write letters, digits and _, such as HF_TOKEN.")
    try:
        if arguments.action == "remove":
            return _remove(home, name)
        write_secret(home, name, _ask_value(name))
    except OSError as error:
        raise CommandRefused(f"The folder of secrets cannot be used: {error.strerror or error}.") from None
    print_plain(
        f"{name} is stored. Name it as a secret of a job: in the dialog, or with --secret {name}. Your administrator "
        "decides which secrets jobs may have."
    )
    return ExitCode.OK


def _remove(home: str, name: str) -> int:
    if not remove_secret(home, name):
        print_plain(f"There is no secret {name}.")
        return ExitCode.FAILED
    print_plain(f"{name} is removed. Jobs that wait for it will fail.")
    return ExitCode.OK


def _ask_value(name: str) -> str:
    """Return the value that the user types or pipes, without its last line break; refuse one that cannot be used."""
    typed = sys.stdin.isatty()
    value = getpass.getpass(f"Value of {name} (not shown): ") if typed else sys.stdin.read(LARGEST + 2)
    value = value.removesuffix("\n").removesuffix("\r")
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        size = 0
    if not size or "\0" in value:
        raise CommandRefused(f"The value of {name} is empty, or is no text in UTF-8. Nothing was stored.")
    if size > LARGEST:
        raise CommandRefused(f"The value of {name} is larger than {LARGEST // 1024} KiB. Nothing was stored.")
    return value
