"""`jupyter-gq logout`: delete the address and the token that `jupyter-gq login` stored."""

import argparse

from .connecting.login_file import delete_login


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add nothing but a hint to the parser: `jupyter-gq logout` has no options."""
    parser.epilog = "The token itself stays valid until it is revoked on the Hub's token page."


def run(_: argparse.Namespace) -> int:
    """Delete the stored login, print what became of it, and return 0; raise `CommandRefused` if that fails."""
    path = delete_login()
    if path is None:
        print("There was no stored login.")
    else:
        print(f"{path} was deleted. Revoke the token on the Hub's token page if nothing else uses it.")
    return 0
