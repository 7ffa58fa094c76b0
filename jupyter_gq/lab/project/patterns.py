"""The patterns of files in the manner of `.gitignore`: which ones can be used, and which files they name. Pure.

Rules
-----
- `./data` means `/data`: a file or folder of that name in the folder itself.
- Hidden files: for `Chosen`, a pattern with `*`, `?` or `[` names one only if a name in it begins with a dot.
- Costly patterns name nothing, since nothing can interrupt their matching; lines that ignore files are widened. Nor do
  the patterns after which all together would be costly.
- Not as in a shell: `{csv,txt}` and `[:alpha:]` stand for no choice, which is told.

See docs/decisions/0457-name-hidden-files-with-their-dot.md and
docs/decisions/0472-look-for-a-text-of-a-pattern-first.md.
"""

import re
from collections.abc import Iterable, Sequence
from itertools import accumulate

from pathspec import GitIgnoreSpec

from jupyter_gq.domain.plain_text import quoted

#: Most lines of a file of patterns, and most characters of a pattern.
MOST_LINES, _LONGEST = 2000, 1000
#: Most parts of a pattern with several places.
_MOST_LOOSE = 3
#: How many times as long a pattern takes on a long name for each such part, and the most that a list may take: as long
#: as with one part in each line of a file. A name of 250 letters then takes about a second.
_TIMES, _MOST_COST = 30, 30 * MOST_LINES
#: Most folders above a file that is matched.
MOST_FOLDERS = 50
#: Why a pattern names nothing, as a predicate.
_UNUSABLE = "is no valid pattern, or has too many * or letters"
#: Sets of letters of which Python warns, since a later version may read them otherwise.
_WARNED = re.compile(r"\[\[|\[[^\]]*(?:--|&&|~~|\|\|)")
#: What means something else here than its user probably thinks, and what to write, as a predicate.
_MISREAD = (
    (re.compile(r"[^/\\]\\\w"), "has a \\ where a / is meant"),  # in "\raw", the letter itself is meant
    (
        re.compile(r"(?<!\\)\{[^}]*,"),
        "has a { }, which names no choice here: write a pattern for each, such as *.csv and *.txt",
    ),
    (re.compile(r"\[\[:"), "has a class such as [:alpha:]: write its letters, such as [a-z]"),
)
#: What stands for any letters in a pattern.
_WILD = re.compile(r"[*?\[]")


class Chosen:
    """The files that the patterns of a user name."""

    def __init__(self, patterns: Sequence[str]) -> None:
        used = take_affordable(list(filter(is_usable, patterns)))
        #: Patterns that cannot be used.
        self.unusable = [pattern for pattern in patterns if pattern not in used]
        self._of_visible = Patterns(used)
        of_hidden = [pattern for pattern in used if pattern.startswith("!") or names_hidden(pattern)]
        self._of_hidden = Patterns(of_hidden)
        self._may_be_hidden = any(not pattern.startswith("!") for pattern in of_hidden)
        self._unmatched = {each: Patterns([each]) for each in used if not each.startswith("!")}
        #: Hidden files and folders that patterns without a dot would name.
        self.hidden: list[str] = []

    @property
    def unmatched(self) -> list[str]:
        """The patterns that have named no file so far."""
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
    """Patterns that name paths, as `.gitignore` reads them; an unusable one names none."""

    def __init__(self, patterns: Iterable[str]) -> None:
        used = [line for line in map(_anchor, patterns) if line.strip() and line[0] != "#" and is_usable(line)]
        self._spec = GitIgnoreSpec.from_lines(used)
        #: Finds a text that stands in each path which a pattern names. Most paths have none, and this is a quick look.
        self._literals = re.compile("|".join(re.escape(literal) for literal in sorted(set(map(_find_literal, used)))))

    def choose(self, path: str) -> bool | None:
        """Return whether the patterns name a path; None if no pattern is about it, not even one with `!`.

        `path` is relative, with slashes, and ends with one for a folder.
        """
        return self._spec.check_file(path).include if self._literals.search(path) else None

    def choose_by_name(self, path: str) -> bool | None:
        """Return what `choose` returns; None also if what decides is about all of the folder in which the path lies."""
        if not self._literals.search(path):
            return None
        folder, own = path.rstrip("/").rpartition("/")[0], self._spec.check_file(path)
        is_of_folder = folder != "" and self._spec.check_file(f"{folder}/").index == own.index
        return None if is_of_folder else own.include

    def names(self, path: str) -> bool:
        """Return whether the patterns name a path, which is relative, with slashes, and ends with one for a folder."""
        return self.choose(path) is True


def _find_literal(line: str) -> str:
    """Return the longest text of a pattern that stands in all paths which it names; "" if none is certain."""
    certain = [] if "[" in line or "\\" in line else re.findall(r"[\w.~-]+", line)
    return max(certain, key=len, default="")


def is_usable(pattern: str) -> bool:
    """Tell whether a pattern is a valid one, not too long, and not too costly to match."""
    if len(pattern) > _LONGEST or _is_costly(pattern.split("/")) or _WARNED.search(pattern):
        return False
    try:
        GitIgnoreSpec.from_lines([pattern])
    except (ValueError, re.error):
        return False
    return True


def take_affordable(patterns: Sequence[str]) -> list[str]:
    """Return the patterns before the one with which all together are too costly to match.

    A pattern that is too costly alone is never matched: it costs nothing and stays.
    """
    costs = accumulate(map(_estimate_cost, patterns))
    return [pattern for pattern, cost in zip(patterns, costs, strict=True) if cost <= _MOST_COST]


def _estimate_cost(pattern: str) -> int:
    """Return how many times as long as for a name alone the matching of a pattern takes; 0 if it is not matched.

    A `**` at the beginning or end costs nothing: "**/data/**" is found as "data" is.
    """
    names = pattern.split("/")
    free = (names[0] == "**") + (names[1:][-1:] == ["**"])
    return 0 if pattern.startswith("#") or _is_costly(names) else _TIMES ** (_count_loose(names) - free)


def _anchor(line: str) -> str:
    """Return a pattern in the way of `.gitignore`, which writes "/data" for "./data"."""
    return re.sub(r"\A(!?)\./", r"\1/", line)


def explain_lines(lines: Sequence[str], folder: str) -> str:
    """Return why lines of a file of patterns cannot be followed, as a clause about the first one; "" if all can.

    `folder` is the full path of the folder of the file, without links on the way.
    """
    if len(lines) > MOST_LINES:
        return f"it has more than {MOST_LINES:,} lines"
    widened = list(map(widen, lines))
    if len(take_affordable(widened)) < len(widened):
        return "its lines together have too many *"
    for number, line in enumerate(lines, 1):
        if line.strip() and not line.lstrip().startswith("#"):
            why = explain_pattern(line, folder) or ("" if is_usable(widen(line)) else _UNUSABLE)
            if why:
                return f"its line {number}, {quoted(line)}, {why}"
    return ""


def explain_pattern(pattern: str, folder: str) -> str:
    """Return why a pattern can name no file of a folder, and what to write, as a predicate; "" if it may name one."""
    path = pattern.removeprefix("!")
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
    return ""


def leads_out(pattern: str) -> bool:
    """Return whether a pattern without `!` begins in a home or goes up a folder.

    "~$*.docx" names files of the folder itself.
    """
    names = pattern.split("/")
    return ".." in names or pattern == "~" or (pattern.startswith("~") and len(names) > 1)


def _is_costly(names: Sequence[str]) -> bool:
    """Tell whether a pattern of these names, which slashes separate, takes too long to match."""
    return _count_loose(names) > _MOST_LOOSE


def _count_loose(names: Sequence[str]) -> int:
    """Return how many parts of a pattern may have several places.

    Several places have a `**`, and each `*` of a name but one: where the name ends, the last one ends too.
    """
    further = sum(max(0, name.count("*") - 1) for name in names if name != "**")
    return names.count("**") + further


def widen(line: str) -> str:
    """Return a line that ignores at least what the given one does, and does not take too long to match.

    If the given line is too costly, its last names are replaced by everything in the folders that the first ones name.
    A line with `!`, or one that is only too long, is returned as it is, even if it cannot be used.
    """
    names = line[:_LONGEST].split("/")
    if line.startswith(("!", "#")) or not _is_costly(names):
        return line
    while names and _is_costly([*names, "**"]):
        names.pop()
    return "/".join([*names, "**"])
