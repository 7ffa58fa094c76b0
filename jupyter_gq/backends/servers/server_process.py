"""The check whether a process may be the notebook server of a user.

Rules
-----
- Account: the kernel says as which system user a process runs. A process of the system user with the owner's name is
  the owner's.
- Parent: where servers share the service's account, the account tells no users apart. In that case the parent of a
  reported process must be the Hub, and the process must have the owner's name in its environment, which the Hub set.
- Not yet: a process has no environment for a moment while its program is loaded. A child of the Hub is then neither
  accepted nor refused, in its first minute: a program can also empty its environment.
- Nobody else: a process of any other account is never accepted, whatever its environment says.

See docs/decisions/0093-believe-the-parent-of-a-server.md.
"""

import os
import pwd
from collections.abc import Collection

from jupyter_gq.backends.processes import environment_of, user_of
from jupyter_gq.devices.linux.processes import Process, read_process

#: Seconds by which two readings of a start time may differ, because of rounding or a correction of the clock.
_START_TOLERANCE = 2.0
#: Seconds after its start in which the program of a process may still be loaded, on a machine that is very busy.
_LOADED_WITHIN = 60.0


def find_process(pid: int, started: float) -> Process | None:
    """Return the living process with this id that started within 2 s of `started`; None if there is none."""
    process = read_process(pid)
    if process is None or process.dead or abs(process.started - started) > _START_TOLERANCE:
        return None
    return process


def may_belong_to(process: Process, user: str, parents: Collection[int] | None = None) -> bool:
    """Return whether a process may be the notebook server of this user of the Hub.

    A process of the service's account must have the user's name in `JUPYTERHUB_USER`, and one of the `parents`; None =
    any parent, for a process that was accepted before.
    """
    uid, account = user_of(process.pid), _account_of(user)
    if uid is None or uid not in {os.geteuid(), account}:
        return False
    if uid == account != os.geteuid():
        return True
    environment = environment_of(process.pid) or {}
    return environment.get("JUPYTERHUB_USER") == user and (parents is None or process.parent in parents)


def is_beginning(process: Process, now: float) -> bool:
    """Return whether a process of the service's account has no environment yet, because its program is being loaded.

    `now` is the time in seconds since the epoch.
    """
    is_young = now - process.started < _LOADED_WITHIN
    return is_young and user_of(process.pid) == os.geteuid() and environment_of(process.pid) == {}


def find_hub_processes() -> set[int]:
    """Return the ids of the processes that may be the Hub: the parent of this process, and the parent of that one.

    The Hub starts the service through `keep_running`, which ends with the Hub.
    """
    parent = os.getppid()
    found = read_process(parent)
    return {parent} if found is None else {parent, found.parent}


def _account_of(user: str) -> int | None:
    """Return the uid of the system user of that name; None if there is none."""
    try:
        return pwd.getpwnam(user).pw_uid
    except (KeyError, ValueError):
        return None
