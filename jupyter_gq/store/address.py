"""The address of a database as an administrator writes it: a URL, or the path of a SQLite file."""

import os
from pathlib import Path

from jupyter_gq.domain.errors import AdminError

from .engine import find_file, make_sqlite_url, parse_url

#: Environment variable that names the database, so that a password is on no command line.
VARIABLE = "JUPYTER_GQ_DATABASE_URL"
#: The service's own database, seen from the folder in which JupyterHub starts.
_USUAL = Path("jupyter-gq-state/service.sqlite")
#: Help of an argument that `database_url` reads.
DATABASE_HELP = f"URL of the database, or path of its SQLite file (default: ${VARIABLE}, or {_USUAL})"


def database_url(given: str | None, *, may_be_missing: bool = False) -> str:
    """Return the URL of the database that `given` names, as a URL or as the path of a SQLite file.

    Without `given`, the environment variable `JUPYTER_GQ_DATABASE_URL` names it, or else the file
    "jupyter-gq-state/service.sqlite" in this folder. With `may_be_missing` only the folder of that file must exist.
    Raises `AdminError` if none of them names a database.
    """
    is_usual = _USUAL.parent.is_dir() if may_be_missing else find_file(_USUAL)
    text = given or os.environ.get(VARIABLE, "") or (str(_USUAL) if is_usual else "")
    if not text:
        raise AdminError(
            f"Which database? There is no {_USUAL} in this folder. Give the URL of the database, or the path of its "
            f"SQLite file, or set ${VARIABLE}."
        )
    is_file = "://" not in text and ("/" in text or text.endswith(".sqlite") or find_file(Path(text)))
    return make_sqlite_url(Path(text).resolve()) if is_file else text


def expect_file(url: str) -> None:
    """Raise `AdminError` if the SQLite file of the URL is missing or hidden, since opening would create it."""
    parsed = parse_url(url)
    if parsed.get_backend_name() == "sqlite" and not find_file(Path(parsed.database or "")):
        raise AdminError(
            f"There is no database at {parsed.database or url!r}. A full path has four slashes: sqlite:////var/…"
        )
