"""The patterns of files in the manner of `.gitignore`: which ones can be used, and which files they name. Pure.

Rules
-----
- `./data` means `/data`: a file or folder of that name in the folder itself.
- Hidden files: for `Chosen`, a pattern with `*`, `?` or `[` names one only if a name in it begins with a dot.
- Later lines: the last pattern that names the path itself decides; if none does, the last one that names a folder in
  which the path lies.
- Not as in a shell: `{csv,txt}` and `[[:alpha:]]` stand for no choice, which is told.

See docs/decisions/0457-name-hidden-files-with-their-dot.md and
docs/decisions/0472-look-for-a-text-of-a-pattern-first.md.
"""

import re
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase

from jupyter_gq.domain.plain_text import quoted

from .globs import LONGEST, Glob, InvalidLine, read_line

#: Most lines of a file of patterns.
MOST_LINES = 2000
#: Most folders above a file that is matched.
MOST_FOLDERS = 50
#: What means something else here than its user probably thinks, and what to write, as a predicate.
_MISREAD = (
    (re.compile(r"[^/\\]\\\w"), "has a \\ where a / is meant"),  # in "\raw", the letter itself is meant
    (
        re.compile(r"(?<![\\\[])\{[^}]*,"),
        "has a { }, which names no choice here: write a pattern for each, such as *.csv and *.txt",
    ),
    (re.compile(r"\[\[:"), "has a class such as [:alpha:]: write its letters, such as [a-z]"),
)
#: What stands for any letters in a pattern.
_WILD = re.compile(r"[*?\[]")


class Chosen:
    """The files that the patterns of a user name."""

    def __init__(self, patterns: Sequence[str]) -> None:
        used = list(filter(is_usable, patterns))
        #: Patterns that are not valid or too long.
        self.unusable = [pattern for pattern in patterns if pattern not in used]
        self._of_visible = Patterns(used)
        of_hidden = [pattern for pattern in used if pattern.startswith("!") or names_hidden(pattern)]
        self._of_hidden = Patterns(of_hidden)
        self._may_be_hidden = any(not pattern.startswith("!") for pattern in of_hidden)
        self._unmatched = {each: Patterns([each]) for each in used if not (is_comment(each) or each.startswith("!"))}
        #: Hidden files and folders that patterns without a dot would name.
        self.hidden: list[str] = []

    @property
    def unmatched(self) -> list[str]:
        """The patterns that have named no file so far, without those with `!`, empty ones and comments."""
        return list(self._unmatched)

    def may_search(self, folder: str) -> bool:
        """Return whether to search a folder: False only if it is hidden and no pattern names hidden files.

        A folder that is not searched, but that a pattern fits, is added to `hidden`. `folder` ends with a slash.
        """
        if self._may_be_hidden or not folder.rpartition("/")[0].rpartition("/")[2].startswith("."):
            return True
        if self._of_visible.names(folder):
            self.hidden.append(folder)
        return False

    def names(self, path: str) -> bool:
        """Return whether the patterns name a file; `path` is relative, with slashes, and ends with one for a folder.

        A pattern that names the path is no longer `unmatched`. A path that only its dot keeps here is added to
        `hidden`.
        """
        is_hidden = path.startswith(".") or "/." in path
        for pattern, alone in list(self._unmatched.items()):
            if (not is_hidden or names_hidden(pattern)) and alone.names(path):
                del self._unmatched[pattern]
        if is_hidden and not self._of_hidden.names(path):
            if self._of_visible.names(path):
                self.hidden.append(path)
            return False
        return self._of_visible.names(path)


def names_hidden(pattern: str) -> bool:
    """Return whether a pattern without `!` names files although a name in their path begins with a dot."""
    return _WILD.search(pattern) is None or any(name.startswith(".") for name in _anchor(pattern).split("/"))


class Patterns:
    """Patterns that name paths, as `.gitignore` reads them; an invalid one names none."""

    def __init__(self, patterns: Iterable[str | Glob]) -> None:
        globs = [each if isinstance(each, Glob) else _read(each) for each in patterns]
        #: The patterns from the last one on, each with its place.
        self._globs = [(at, glob) for at, glob in enumerate(globs) if glob is not None][::-1]
        #: Finds a text that stands in each path which a pattern names. Most paths have none, and this is a quick look.
        literals = sorted({glob.literal for _, glob in self._globs})
        self._literals = re.compile("|".join(map(re.escape, literals)) if literals else r"(?!)")

    def choose(self, path: str) -> bool | None:
        """Return whether the patterns name a path; None if no pattern is about it, not even one with `!`.

        `path` is relative, with slashes, and ends with one for a folder.
        """
        return self._decide(path)[0]

    def choose_by_name(self, path: str) -> bool | None:
        """Return what `choose` returns; None also if what decides is about all of the folder in which the path lies."""
        folder, (own, place) = path.rstrip("/").rpartition("/")[0], self._decide(path)
        is_of_folder = own is not None and folder != "" and self._decide(f"{folder}/")[1] == place
        return None if is_of_folder else own

    def names(self, path: str) -> bool:
        """Return whether the patterns name a path, which is relative, with slashes, and ends with one for a folder."""
        return self.choose(path) is True

    def _decide(self, path: str) -> tuple[bool | None, int]:
        """Return what `choose` returns, and the place of the pattern that decides; -1 if none does."""
        answer: tuple[bool | None, int] = (None, -1)
        if not self._literals.search(path):
            return answer
        for place, glob in self._globs:
            rank = glob.rank(path) if glob.literal in path else 0
            if rank == 2:
                return glob.include, place
            if rank and answer[0] is None:
                answer = glob.include, place
        return answer


def write_pattern(path: str) -> str:
    """Return the pattern that names a file or folder itself, which may have signs that mean more in a pattern.

    `path` is relative, with slashes. A path with a line feed or of many letters has no pattern that can be used.
    """
    return re.sub(r"([\\*?\[{]|\A[\s!#~]|\s(?=\s*\Z))", r"\\\1", path)


def is_usable(pattern: str) -> bool:
    """Return whether a pattern is a valid one; an empty one and a comment are, and name nothing."""
    return _explain_invalid(pattern) == ""


def is_comment(pattern: str) -> bool:
    """Return whether a pattern is empty or begins with `#`, also after spaces: its user means no file by it."""
    return not pattern.strip() or pattern.lstrip().startswith("#")


def _read(pattern: str) -> Glob | None:
    """Return what a pattern means; None if it is empty, a comment or invalid."""
    try:
        return read_line(_anchor(pattern))
    except InvalidLine:
        return None


def _explain_invalid(pattern: str) -> str:
    """Return why a pattern is not valid, as a predicate; "" if it is."""
    try:
        read_line(_anchor(pattern))
    except InvalidLine as error:
        return str(error)
    return ""


def _anchor(line: str) -> str:
    """Return a pattern in the way of `.gitignore`, which writes "/data" for "./data"."""
    return re.sub(r"\A(!?)\./", r"\1/", line)


def explain_lines(lines: Sequence[str], folder: str) -> str:
    """Return why lines of a file of patterns cannot be followed, as a clause about the first one; "" if all can.

    `folder` is the full path of the folder of the file, without links on the way.
    """
    if len(lines) > MOST_LINES:
        return f"it has more than {MOST_LINES:,} lines"
    for number, line in enumerate(lines, 1):
        why = explain_pattern(line, folder)
        if why:
            return f"its line {number}, {quoted(line)}, {why}"
    return ""


def explain_pattern(pattern: str, folder: str) -> str:
    """Return why a pattern can name no file of a folder, and what to write, as a predicate; "" if it may name one.

    `folder` is a full path without links on the way. Of a pattern with `!`, the rest is explained. An empty pattern and
    a comment are explained with "", although they name nothing: they are no mistake.
    """
    if is_comment(pattern):
        return ""
    path = pattern.removeprefix("!").rstrip()
    if len(path) > LONGEST:  # the searches below take long for a long one
        return _explain_invalid(pattern)
    names = _anchor(path).split("/")
    if path[:1].isspace():
        return "begins with a space: leave it out"
    misread = next((why for fault, why in _MISREAD if fault.search(path)), None)
    if misread is not None:
        return misread
    if path.startswith(f"{folder}/") and folder.count("/") > 1:  # "/data/raw" in /data may mean /data/data/raw
        return f"is a full path: write {quoted(path[len(folder) :])}"
    if leads_out(path):
        return "leads out of the folder: write a path from this folder on"
    if "." in names or "" in names[1:-1]:
        return "has a name that no file has: write a path from this folder on, such as data/raw"
    return _explain_invalid(pattern)


def leads_out(pattern: str) -> bool:
    """Return whether a pattern without `!` begins in a home or goes up a folder.

    "~$*.docx" names files of the folder itself.
    """
    names = pattern.split("/")
    return ".." in names or pattern == "~" or (pattern.startswith("~") and len(names) > 1)


def matches_name(name: str, pattern: str) -> bool:
    """Return whether a name matches a pattern as `glob` compares them: hidden names only with a dot in the pattern."""
    return fnmatchcase(name, pattern) and (not name.startswith(".") or pattern.startswith("."))
