"""The file in which `jupyter-gq login` keeps the address of a service and a token for it.

Rules
-----
- One reader: the file has mode 0600 from its first byte, and a file that other accounts may read is refused.
- One address: the token is used for the stored address only, never for an address from elsewhere.

See docs/decisions/0111-keep-the-login-in-a-file.md.
"""

import contextlib
import json
import os
import stat
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gq.commands.refusal import CommandRefused

#: Characters of the file that are read: more than the longest address and token, each as an escape.
_LONGEST = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Login:
    """The address of a service, and a token for it."""

    url: str
    #: Never shown or logged.
    token: str = field(repr=False)


def find_login_file() -> Path | None:
    """Return the path of the file in the user's Jupyter configuration folder; None if Jupyter is not installed."""
    try:
        from jupyter_core.paths import jupyter_config_dir
    except ModuleNotFoundError:  # images of the service and of agents
        return None
    return Path(jupyter_config_dir()) / "jupyter_gq_login.json"


def read_login() -> Login | None:
    """Return the stored login, None if there is none.

    Raises `CommandRefused` if the file is damaged, cannot be read, or may be read by other accounts.
    """
    path = find_login_file()
    if path is None:
        return None
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not stat.S_ISREG(mode):  # a pipe would be waited for, and a device may never end
                raise CommandRefused(f"{path} is no regular file. Remove it, then run `jupyter-gq login` again.")
            document = json.loads(file.read(_LONGEST))
        login = Login(url=_text(document["url"]), token=_text(document["token"]))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandRefused(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError, TypeError, RecursionError):
        raise CommandRefused(f"{path} is damaged. Run `jupyter-gq login` again.") from None
    if mode & 0o077:
        raise CommandRefused(
            f"Other accounts may use {path}, which holds a token. Revoke that token on the Hub's token page, then run "
            "`jupyter-gq login` again."
        )
    return login


def _text(value: object) -> str:
    """Return a value of the file that is text; raise `TypeError` for any other."""
    if not isinstance(value, str):
        raise TypeError("it is no text")
    return value


def write_login(login: Login) -> Path:
    """Replace the stored login, and return the path of the file; raise `CommandRefused` if that is not possible."""
    path = find_login_file()
    if path is None:
        raise CommandRefused("A login needs the module jupyter_core: pip install 'jupyter-gq[cli]'")
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        with os.fdopen(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump({"url": login.url, "token": login.token}, file)
        temporary.replace(path)
    except OSError as error:
        raise CommandRefused(f"{path} cannot be written: {error.strerror}.") from None
    return path


def delete_login() -> Path | None:
    """Delete the stored login, and return the path of the file that was deleted; None if there was none.

    Raises `CommandRefused` if the file cannot be deleted.
    """
    path = find_login_file()
    try:
        if path is None:
            return None
        path.unlink()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CommandRefused(f"{path} cannot be deleted: {error.strerror}.") from None
    return path
