"""The secrets that a user keeps on a machine: one file for each name, in the user's home. Standard library only.

Rules
-----
- One reader: the folder has mode 0700 and each file 0600; a file that other accounts may read is refused.
- By name: a job names its secrets. The values are read by the runner, with the user's rights, when a run starts.

See docs/decisions/0132-read-secrets-where-the-job-runs.md.
"""

import os
import re
import stat
import tempfile
from pathlib import Path

from jupyter_gq.client.files.user_files import read_file
from jupyter_gq.domain.errors import UnusableFile

_FOLDER = ".config/jupyter-gq/secrets"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,254}")
#: Most bytes of a secret.
LARGEST = 32 * 1024


def is_valid_name(name: str) -> bool:
    """Return whether a secret, and so an environment variable and a file, can have this name."""
    return _NAME.fullmatch(name) is not None


def find_secret(home: str, name: str) -> Path:
    """Return the path of the file of a secret; `name` is valid, and the file may not exist."""
    return Path(home or "/", _FOLDER, name)


def list_secrets(home: str) -> list[str]:
    """Return the names of the stored secrets, sorted; none if the folder cannot be read."""
    try:
        return sorted(name for name in os.listdir(find_secret(home, "")) if is_valid_name(name))
    except OSError:
        return []


def read_secret(home: str, name: str) -> str | None:
    """Return the value of a secret, None if it is not stored.

    Raises `UnusableFile` if the file may be read by other accounts, or is no file of text.
    """
    path = find_secret(home, name)
    content = read_file(path, limit=LARGEST, uid=os.getuid())
    if content is None:
        return None
    if stat.S_IMODE(path.stat().st_mode) & 0o077:
        raise UnusableFile(name, f"other accounts may read it: store it again with `jupyter-gq secret set {name}`")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        raise UnusableFile(name, "it is not UTF-8 text") from error


def write_secret(home: str, name: str, value: str) -> None:
    """Store a secret in place of an earlier one; raise `OSError` if the disk refuses."""
    path = find_secret(home, name)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".")  # mode 0600
    try:
        with open(handle, "w", encoding="utf-8", newline="") as file:
            file.write(value)
        os.replace(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def remove_secret(home: str, name: str) -> bool:
    """Delete a secret; return whether there was one. Raises `OSError` if the disk refuses."""
    try:
        find_secret(home, name).unlink()
    except FileNotFoundError:
        return False
    return True
