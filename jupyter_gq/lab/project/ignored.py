"""The files that stay unless the code or the user names them: caches, environments, and what the user ignores.

Files that may hold secrets stay even if they are named.
The file `.jupyter-gq-ignore` in the notebook's folder has patterns as `.gitignore` has them. A pattern with `!` before
it lets a file go along that would stay, such as `!.env`, unless a later one keeps it; one whose last name has `*`, `?`
or `[`, such as `!*.json` or `!src/**`, lets no secret go along. Secrets are recognised in capital letters too. A line
that can name no file is a problem of the whole file: it is not known what shall stay.

See docs/decisions/0462-let-secrets-go-along-by-their-names-only.md.
"""

import os
from collections.abc import Iterable
from pathlib import Path

from jupyter_gq.client.files.user_files import read_file
from jupyter_gq.domain.errors import UnusableFile

from .globs import ends_wild
from .patterns import MOST_FOLDERS, MOST_LINES, Patterns, explain_lines, is_usable
from .secret_files import SECRET_FILES, SECRET_FOLDERS, list_originals

IGNORE_FILE = ".jupyter-gq-ignore"
#: Folders that programs make beside code.
_MADE = (
    *(".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".ipynb_checkpoints/", ".pytest_cache/", ".mypy_cache/"),
    *(".ruff_cache/", ".tox/", ".venv/", "node_modules/", "*.egg-info/", ".gq/", "gq-results/"),
    IGNORE_FILE,
)
#: What is in each folder with an environment of Python.
_IN_ENVIRONMENTS = ("pyvenv.cfg", "conda-meta")
#: Usual names of such folders, and what is in damaged or old ones too; a package may be called `env`.
_USUAL, _IN_USUAL = frozenset({"env", "venv"}), ("bin/python", "Scripts/python.exe")
_LARGEST = 64 * 1024
_USUAL_SECRETS = Patterns(SECRET_FILES)


class Ignored:
    """The rules of one folder."""

    def __init__(self, folder: str, lines: Iterable[str] = (), problem: str = "") -> None:
        lines = list(lines)
        own = list(filter(is_usable, lines[:MOST_LINES]))
        #: Why the user's own file of patterns is not followed, as a clause; "" if it is, or if there is none.
        self.problem = problem or explain_lines(lines, folder)
        self._all = Patterns([*_MADE, *own])
        self._is_in_secret_folder = Patterns(SECRET_FOLDERS).names(f"{folder.lower().strip('/')}/")
        named = (line.lower() for line in own if not (line.startswith("!") and ends_wild(line)))
        self._secrets = Patterns([*SECRET_FILES, *named])
        #: Why a secret stays, as a clause.
        self.why_secret = f"it {'is in a folder that ' if self._is_in_secret_folder else ''}may hold secrets"
        self._folder = folder
        self._judged: dict[str, bool] = {}
        self._environments: dict[str, bool] = {}

    @classmethod
    def read(cls, folder: Path) -> "Ignored":
        """Return the rules of a folder; without a readable file of patterns, those that hold everywhere."""
        here, named = os.path.realpath(folder), folder / IGNORE_FILE
        file = Path(os.path.realpath(named))  # a link to a file of patterns for several folders is fine
        try:
            content = read_file(file, limit=_LARGEST)
            if content is None:
                return cls(here, problem="it is a link to no file" if named.is_symlink() else "")
            text = content.decode("utf-8-sig")  # editors of Windows write a mark before it
            text = text.replace("\r\n", "\n").replace("\r", "\n")  # other ends of lines may be part of a name
            return cls(here, text.removesuffix("\n").split("\n"))
        except UnusableFile as error:
            return cls(here, problem=error.problem)
        except UnicodeDecodeError:
            return cls(here, problem="it is not UTF-8 text")

    def is_secret(self, path: str) -> bool:
        """Return whether a file or folder probably holds secrets and no line with `!` of the user lets it go along.

        `path` is relative, with slashes, and ends with one for a folder. Only names count, and no content is read, so
        False is no proof. A copy is judged as the file that was copied. Of a path with more than `MOST_FOLDERS` names,
        the last ones count.
        """
        lower = "/".join(path.lower().split("/")[-MOST_FOLDERS:])
        if lower not in self._judged:
            self._judged[lower] = self._judge(lower)
        return self._judged[lower]

    def _judge(self, path: str) -> bool:
        """Return whether a path in small letters is that of a secret or of its copy.

        A line with `!` for a folder lets no secret in it go along, and so no copy of one. A path that looks like a
        secret but is a copy of something else, as `my.env.py~` of code, is none.
        """
        originals = list_originals(path)
        for own, usual in (
            (self._secrets.choose_by_name, _USUAL_SECRETS.choose_by_name),
            (self._secrets.choose, _USUAL_SECRETS.choose),
        ):
            known = own(path)
            if known:  # by a line that keeps it: then the usual rules tell whether it is a secret
                known = usual(path)
            if originals and known is not False:  # `!kaggle.json` lets no kaggle.json.bak go along
                known = next((each for each in map(usual, originals) if each is not None), None)
            if known is not None:
                return known
        return self._is_in_secret_folder

    def covers(self, path: str) -> bool:
        """Return whether a file stays; `path` is relative, with slashes, and ends with one for a folder.

        What lies below more than `MOST_FOLDERS` folders stays.
        """
        if path.count("/") > MOST_FOLDERS:
            return True
        named = self._all.choose(path)
        return (self._is_in_environment(path) if named is None else named) or self.is_secret(path)

    def _is_in_environment(self, path: str) -> bool:
        """Return whether a path is, or lies in, a folder with an environment of Python."""
        folder = path.rpartition("/")[0]
        if not folder:
            return False
        if folder not in self._environments:
            self._environments[folder] = self._is_in_environment(folder) or self._is_environment(folder)
        return self._environments[folder]

    def _is_environment(self, folder: str) -> bool:
        more = _IN_USUAL if folder.rpartition("/")[2] in _USUAL else ()
        return any(os.path.lexists(os.path.join(self._folder, folder, part)) for part in (*_IN_ENVIRONMENTS, *more))
