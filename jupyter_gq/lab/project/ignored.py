"""The files that stay unless the code or the user names them: caches, environments, and what the user ignores.

Files that may hold secrets stay even if they are named.
The file `.jupyter-gq-ignore` in the notebook's folder has patterns as `.gitignore` has them. A pattern with `!` before
it lets a file go along that would stay, such as `!.env`; one whose last name has no letter, such
as `!*/` or `!src/**`, lets no secret go along. Secrets are recognised in capital letters too. A line that can name no
file is a problem of the whole file: it is not known what shall stay.
"""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from jupyter_gq.client.user_files import read_file
from jupyter_gq.domain.errors import UnusableFile

from .patterns import MOST_FOLDERS, MOST_LINES, Patterns, explain_lines, widen
from .secret_files import SECRET_FILES, SECRET_FOLDERS

IGNORE_FILE = ".jupyter-gq-ignore"
#: Folders that programs make beside code.
_MADE = (
    *(".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".ipynb_checkpoints/", ".pytest_cache/", ".mypy_cache/"),
    *(".ruff_cache/", ".tox/", ".venv/", "venv/", "env/", "node_modules/", "*.egg-info/", ".gq/", "gq-results/"),
    IGNORE_FILE,
)
_LARGEST = 64 * 1024


class Ignored:
    """The rules of one folder."""

    def __init__(self, folder: str, lines: Iterable[str] = (), problem: str = "") -> None:
        lines = list(lines)
        own = lines[:MOST_LINES]
        #: Why the user's own file of patterns is not followed, as a clause; "" if it is, or if there is none.
        self.problem = problem or explain_lines(lines, folder)
        self._all = Patterns([*_MADE, *map(widen, own)])
        self._is_in_secret_folder = Patterns(SECRET_FOLDERS).names(f"{folder.lower().strip('/')}/")
        # In a folder for secrets, only the user's own lines let a file go along.
        usual = [each for each in SECRET_FILES if not (each.startswith("!") and self._is_in_secret_folder)]
        named = (line.lower() for line in own if line.startswith("!") and _names_something(line))
        self._secrets = Patterns([*usual, *named])
        #: Why a secret stays, as a clause.
        self.why_secret = f"it {'is in a folder that ' if self._is_in_secret_folder else ''}may hold secrets"
        self._judged: dict[str, bool] = {}

    @classmethod
    def read(cls, folder: Path) -> "Ignored":
        """Return the rules of a folder; without a readable file of patterns, those that hold everywhere."""
        here, named = os.path.realpath(folder), folder / IGNORE_FILE
        file = Path(os.path.realpath(named))  # a link to a file of patterns for several folders is fine
        try:
            content = read_file(file, limit=_LARGEST)
            if content is None:
                return cls(here, problem="it is a link to no file" if named.is_symlink() else "")
            return cls(here, content.decode("utf-8-sig").splitlines())  # editors of Windows write a mark before it
        except UnusableFile as error:
            return cls(here, problem=error.problem)
        except UnicodeDecodeError:
            return cls(here, problem="it is not UTF-8 text")

    def is_secret(self, path: str) -> bool:
        """Return whether a file probably holds secrets; `path` is relative, with slashes."""
        lower = "/".join(path.lower().split("/")[-MOST_FOLDERS:])
        if lower not in self._judged:
            named = self._secrets.choose(lower)
            self._judged[lower] = self._is_in_secret_folder if named is None else named
        return self._judged[lower]

    def covers(self, path: str) -> bool:
        """Return whether a file stays; `path` is relative, with slashes, and ends with one for a folder.

        What lies below more than `MOST_FOLDERS` folders stays.
        """
        return path.count("/") > MOST_FOLDERS or self._all.names(path) or self.is_secret(path)


def _names_something(line: str) -> bool:
    """Tell whether the last name of a line has a letter or digit that is not one of several to choose from."""
    last = line.rstrip("/ ").rpartition("/")[2]
    return re.search(r"[^\W_]", re.sub(r"\[.*?\]", "", last)) is not None
