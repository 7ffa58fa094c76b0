"""The audit entries of the commands on a database."""

import os
import pwd

from jupyter_gq.domain.audit import Action, AuditEntry, name_account

from . import clock


def make_command_entry(action: Action, file: str) -> AuditEntry:
    """Return the entry of an act on a file or a database, by the account of this process and at this moment."""
    return AuditEntry(at=clock.now(), actor=name_account(_find_account()), action=action, object=file)


def _find_account() -> str:
    """Return the name of the account of this process; its number if it has no name, as in many containers."""
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())
