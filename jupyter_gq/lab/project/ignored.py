"""The files that stay unless the code or the user names them: caches, environments, and what the user ignores.

Files that may hold secrets stay even if they are named.
The file `.jupyter-gq-ignore` in the notebook's folder has patterns as `.gitignore` has them. A pattern with `!` before
it lets a file go along that would stay, such as `!.env`. Secrets are recognised in capital letters too.
"""

import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path

from pathspec import GitIgnoreSpec

from jupyter_gq.client.user_files import read_file
from jupyter_gq.domain.errors import UnusableFile

IGNORE_FILE = ".jupyter-gq-ignore"
#: Files and folders that often hold secrets.
SECRETS = (
    *(".env", ".env.*", ".envrc", "*.pem", "*.key", "*.p12", "*.pfx", "*.keystore", "id_rsa*", "id_dsa*", "id_ecdsa*"),
    *("id_ed25519*", ".ssh/", ".aws/", ".azure/", ".gnupg/", ".kube/", ".docker/", ".config/gcloud/"),
    *(".netrc*", ".pypirc", ".npmrc", ".pgpass", ".git-credentials", ".htpasswd", "credentials.json"),
    *("*secret*.json", "*secret*.y*ml", "*secret*.toml", "hf_token", "service-account*.json", "kaggle.json"),
)
#: Folders that programs make beside code.
_MADE = (
    *(".git/", ".hg/", ".svn/", "__pycache__/", "*.pyc", ".ipynb_checkpoints/", ".pytest_cache/", ".mypy_cache/"),
    *(".ruff_cache/", ".tox/", ".venv/", "venv/", "env/", "node_modules/", "*.egg-info/", ".gq/", "gq-results/"),
    IGNORE_FILE,
)
_LARGEST = 64 * 1024
#: Most lines that count, and most characters of one.
_MOST_LINES, _LONGEST = 2000, 1000
#: Most parts of a pattern with several places, and most folders above a file that is matched. The matching tries all
#: combinations of these places, and nothing can interrupt that.
_MOST_LOOSE, MOST_FOLDERS = 3, 50


class Ignored:
    """The rules of one folder."""

    def __init__(self, lines: Iterable[str] = (), problem: str = "") -> None:
        own = list(lines)
        #: Why the user's own file of patterns is not followed, as a clause; "" if it is, or if there is none.
        self.problem = problem
        self._all = _parse([*_MADE, *map(_widen, own)])
        self._secrets = _parse([*SECRETS, *(line.lower() for line in own if line.startswith("!"))])
        self._judged: dict[str, bool] = {}

    @classmethod
    def read(cls, folder: Path) -> "Ignored":
        """Return the rules of a folder; without a readable file of patterns, those that hold everywhere."""
        file = Path(os.path.realpath(folder / IGNORE_FILE))  # a link to a file of patterns for several folders is fine
        try:
            content = read_file(file, limit=_LARGEST) or b""
        except UnusableFile as error:
            return cls(problem=error.problem)
        return cls(content.decode(errors="replace").splitlines())

    def is_secret(self, path: str) -> bool:
        """Return whether a file probably holds secrets; `path` is relative, with slashes."""
        lower = "/".join(path.lower().split("/")[-MOST_FOLDERS:])
        if lower not in self._judged:
            self._judged[lower] = self._secrets.match_file(lower)
        return self._judged[lower]

    def covers(self, path: str) -> bool:
        """Return whether a file stays; `path` is relative, with slashes, and ends with one for a folder.

        What lies below more than `MOST_FOLDERS` folders stays.
        """
        return path.count("/") > MOST_FOLDERS or self._all.match_file(path) or self.is_secret(path)


def match_patterns(patterns: Iterable[str]) -> GitIgnoreSpec:
    """Return the files that a user's patterns name, as `.gitignore` reads them; an unusable pattern names none."""
    return _parse(patterns)


def is_usable(pattern: str) -> bool:
    """Tell whether a pattern is a valid one, not too long, and not too costly to match."""
    if len(pattern) > _LONGEST or _is_costly(pattern.split("/")):
        return False
    try:
        GitIgnoreSpec.from_lines([pattern])
    except (ValueError, re.error):
        return False
    return True


def _parse(lines: Iterable[str]) -> GitIgnoreSpec:
    """Return the rules of these lines without those that are not usable."""
    return GitIgnoreSpec.from_lines(filter(is_usable, islice(lines, _MOST_LINES)))


def _is_costly(names: Sequence[str]) -> bool:
    """Tell whether a pattern of these names, which slashes separate, takes too long to match.

    Several places have a `**`, and each `*` of a name but one: where the name ends, the last one ends too.
    """
    further = sum(max(0, name.count("*") - 1) for name in names if name != "**")
    return names.count("**") + further > _MOST_LOOSE


def _widen(line: str) -> str:
    """Return a line that ignores at least what the given one does, and does not take too long to match.

    If the given line is too costly, its last names are replaced by everything in the folders that the first ones name.
    """
    names = line[:_LONGEST].split("/")
    if line.startswith(("!", "#")) or not _is_costly(names):
        return line
    while names and _is_costly([*names, "**"]):
        names.pop()
    return "/".join([*names, "**"])
