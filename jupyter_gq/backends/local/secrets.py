"""The secrets of users on this machine, as files in their homes; only whether they exist is looked at here."""

import os
from collections.abc import Sequence

from jupyter_gq.client.environment.user_secrets import find_secret, is_valid_name

from .accounts import UnixAccounts
from .user_access import run_as


class LocalSecrets:
    """The secrets that users have stored with `jupyter-gq secret set`."""

    in_home = True

    def __init__(self, accounts: UnixAccounts) -> None:
        self._accounts = accounts

    def find_missing(self, owner: str, home: str, names: Sequence[str]) -> list[str]:
        """Return the names for which the owner's account has no file; a home that does not answer counts as complete.

        `home` is that of the notebook server; with system users, the account has its own.
        """
        account = self._accounts.look_up(owner)
        folder = home if os.path.isabs(home) and not account.switch else account.home

        def list_missing() -> list[str]:
            return [name for name in names if not is_valid_name(name) or not find_secret(folder, name).is_file()]

        try:
            return run_as(account, find_secret(folder, ""), list_missing)
        except OSError:
            return []  # the runner says what is wrong
