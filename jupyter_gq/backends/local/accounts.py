"""The accounts of processes and files: the service's own user, or the operating-system user of the job's owner.

Rules
-----
1. With system users the service is root, and each owner is the system user of the same name; root itself is refused.
2. Files in a folder that a user can write are touched only while acting as that user, so that a link planted there
   leads nowhere that the user could not go.
"""

import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from jupyter_gq.domain.errors import BackendError


@dataclass(frozen=True, kw_only=True, slots=True)
class Account:
    """A user of the operating system."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str
    #: The service is root and must become this user.
    switch: bool


class Accounts:
    """Finds the account of an owner."""

    def __init__(self, system_users: bool) -> None:
        self._system_users = system_users
        self._found: dict[str, Account] = {}

    def of(self, owner: str) -> Account:
        """Return the account of the owner's processes and files; raise `BackendError` if there is none."""
        self._found[owner] = account = self._look_up(owner)
        return account

    def known(self, owner: str) -> Account:
        """Return the account as it was at the last lookup, for runs that have started already."""
        return self._found.get(owner) or self.of(owner)

    def _look_up(self, owner: str) -> Account:
        if not self._system_users:
            return _account(pwd.getpwuid(os.getuid()), switch=False)
        try:
            entry = pwd.getpwnam(owner)
        except (KeyError, ValueError) as error:
            raise BackendError(
                f"There is no system user {owner!r} on this machine, so jobs of {owner} cannot run here. "
                "Ask your administrator to create that user."
            ) from error
        if entry.pw_uid == os.geteuid() != 0:
            return _account(entry, switch=False)
        if entry.pw_uid == 0:
            raise BackendError("Jobs do not run as root. Log in as another user.")
        if os.geteuid() != 0:
            raise BackendError(
                f"Jobs of {owner} must run as the system user {owner}, but the scheduler service is not root. "
                "Ask your administrator to run it as root, or to turn LocalBackend.system_users off."
            )
        return _account(entry, switch=True)


@contextmanager
def acting_as(account: Account) -> Iterator[None]:
    """Open and make files with the rights of this user alone within the block.

    The change holds for the whole process, so the block must not wait for anything.
    """
    if not account.switch:
        yield
        return
    groups, gid = os.getgroups(), os.getegid()
    os.setgroups(account.groups)
    os.setegid(account.gid)
    os.seteuid(account.uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(gid)
        os.setgroups(groups)


def _account(entry: pwd.struct_passwd, *, switch: bool) -> Account:
    return Account(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
        home=entry.pw_dir,
        shell=entry.pw_shell,
        switch=switch,
    )
