"""The accounts of processes and files: the service's own user, or the operating-system user of the job's owner.

Rules
-----
- System users: if they are on, the service is root, and the processes of an owner run as the system user of the same
  name. Jobs never run as root.
- Users' files as the user: in folders that a user can write, files are opened only with the rights of that user (see
  `user_access`). So a link that the user planted there leads nowhere that the user could not go.
"""

import os
import pwd
from dataclasses import dataclass

from jupyter_gq.domain.errors import BackendError


@dataclass(frozen=True, kw_only=True, slots=True)
class UnixAccount:
    """A user of the operating system."""

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str
    shell: str
    #: Whether the service runs as root and must become this user.
    switch: bool


class UnixAccounts:
    """The accounts of the owners of jobs."""

    def __init__(self, system_users: bool) -> None:
        #: Whether each owner has an account of their own.
        self.system_users = system_users
        self._found: dict[str, UnixAccount] = {}

    def look_up(self, owner: str) -> UnixAccount:
        """Return the account that the owner's jobs run as, looked up anew, and remember it for `last_known`.

        Raises `BackendError` with a sentence if jobs cannot run as that user.
        """
        self._found[owner] = account = self._find(owner)
        return account

    def last_known(self, owner: str) -> UnixAccount:
        """Return the account as it was at the last lookup, for runs that have started; look it up if there was none.

        Raises `BackendError` if there was no lookup and jobs cannot run as that user.
        """
        return self._found.get(owner) or self.look_up(owner)

    def _find(self, owner: str) -> UnixAccount:
        """Return the service's own account, or with system users the one that has the owner's name.

        Raises `BackendError` if there is none, if it is root, or if the service has no right to become that user.
        """
        if not self.system_users:
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


def _account(entry: pwd.struct_passwd, *, switch: bool) -> UnixAccount:
    """Return the account of a password entry; `switch` says whether the service must become this user."""
    return UnixAccount(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
        home=entry.pw_dir,
        shell=entry.pw_shell,
        switch=switch,
    )
