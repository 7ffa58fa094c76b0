"""Lines of `.gitignore`, and which paths each of them names. Pure.

Rules
-----
- No going back: of all places where the text between two `*`, or the names between two `**`, may stand, only the first
  one is tried, since each later one leaves less of the path for the rest. So the time for a path is at most
  proportional to its length, times that of the line.
- As in Git: `*`, `?` and `[...]` stand for no slash, and a line that names a folder names what is in it, too.

See docs/decisions/0459-match-patterns-without-going-back.md.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby

from jupyter_gq.domain.errors import UserError

#: Most characters of a line.
LONGEST = 1000
#: The parts of a name in a line: stars, a set of letters, a letter after a backslash, or any other letter.
_PART = re.compile(r"\*+|\[[!^]?+(?:\\.|[^\\])(?:\\.|[^\\\]])*+\]|\\.|.", re.DOTALL)
#: How a part begins that stands for any letters, or for one of several.
_WILD = ("*", "?", "[")
#: The members of a set: a range, or a letter. After a backslash, a letter is meant itself.
_MEMBER = re.compile(r"(\\.|[^\\])-(\\.|[^\\])|(\\.|[^\\])", re.DOTALL)
#: Folders from the beginning of a path on: as many as possible, or as few.
_FOLDERS, _FEW_FOLDERS = "(?:[^/]++/)*", "(?:[^/]++/)*?"
#: What follows a folder in which the path lies.
_IN_FOLDER = "(?P<folder>/)"
_OF_ANY = rf"(?:{_IN_FOLDER}|\Z)"


class InvalidLine(UserError, ValueError):
    """A line that can name no path; the message says why, as a predicate."""


@dataclass(frozen=True, slots=True)
class Glob:
    """The meaning of a line of `.gitignore`."""

    #: False if the line begins with `!`.
    include: bool
    #: Fits the paths that the line names. A group `folder` fits if the line names a folder in which the path lies.
    regex: re.Pattern[str]
    #: A text that stands in each of these paths; "" if none is certain.
    literal: str

    def rank(self, path: str) -> int:
        """Return 2 if the line names the path itself, 1 if it names a folder in which the path lies, and 0 if neither.

        `path` is relative, with slashes. A folder ends with a slash, and gets 1 from its own name, as what is in it
        does. A line that ends with `/**` names all that is in the folder, at any depth, but not the folder itself.
        """
        found = self.regex.match(path)
        return 0 if found is None else 1 if found.groupdict().get("folder") else 2


def glob_of_names(regex: str, literal: str, *, is_file: bool = False) -> Glob:
    """Return what names each file and folder whose name fits a regular expression; no folders if `is_file`.

    `literal` is a text that stands in each such name, as in `Glob`. The expression must not fit slashes.
    """
    end = r"\Z" if is_file else _OF_ANY
    return Glob(include=True, regex=re.compile(f"{_FOLDERS}(?:{regex}){end}"), literal=literal)


@lru_cache(maxsize=4096)
def read_line(line: str) -> Glob | None:
    """Return what a line means; None if it is empty or a comment.

    Raises `InvalidLine` if the line can name nothing, such as "/" or "[a", or is too long.
    """
    line = _strip_end(line)
    if not line or line.startswith("#"):
        return None
    if len(line) > LONGEST:
        raise InvalidLine(f"has more than {LONGEST:,} letters")
    path = line.removeprefix("!")
    names = _list_names(path)
    parts = {name: _PART.findall(name) for name in names if name != "**"}
    if names in (["**"], ["**", "*"]) and not path.endswith("/"):
        regex = ""
    else:
        regex = _translate(names, {name: _translate_name(split) for name, split in parts.items()}, path.endswith("/"))
    return Glob(include=path == line, regex=re.compile(regex), literal=_find_literal(parts.values()))


def ends_wild(line: str) -> bool:
    """Return whether the last name of a line has `*`, `?` or a set of letters."""
    last = _strip_end(line).rstrip("/").rpartition("/")[2]
    return any(part[0] in _WILD for part in _PART.findall(last))


def _strip_end(line: str) -> str:
    """Return a line without spaces at its end, but for one after a backslash."""
    stripped = line.rstrip()
    backslashes = len(stripped) - len(stripped.rstrip("\\"))
    return line[: len(stripped) + 1] if backslashes % 2 else stripped


def _list_names(path: str) -> list[str]:
    """Return the names of a line without `!`, from the folder of the file on; `**` stands for any folders."""
    if not path.strip("/"):
        raise InvalidLine("names nothing: write the name of a file or folder, such as data")
    names = path.split("/")
    if len(names) == 1 or (len(names) == 2 and names[1] == ""):
        names.insert(0, "**")
    elif names[0] == "":
        names.pop(0)
    if names[-1] == "":
        names[-1] = "**"
    if "" in names:
        raise InvalidLine("has two slashes in a row: leave one out")
    stars = [re.sub(r"\A\*{2,}\Z", "**", name) for name in names]
    if path.endswith("/") and stars[-2] == "**":  # "data/**/" names the folders in data
        stars.insert(-1, "*")
    return [name for name, same in groupby(stars) for name in ([name] if name == "**" else same)]


def _translate(names: Sequence[str], regexes: dict[str, str], is_folder: bool) -> str:
    """Return the regular expression of a line with these names, of which each has one of its own."""
    end = _OF_ANY
    if names[-1] == "**":
        end = _IN_FOLDER if is_folder else "/."
        names = names[:-1]
    groups: list[list[str]] = [[]]
    for name in names:
        if name == "**":
            groups.append([])
        else:
            groups[-1].append(regexes[name])
    first, *others = map("/".join, groups)
    if not others:
        return first + end
    *between, last = others
    begin = f"(?>{first}/)" if first else ""
    return begin + "".join(f"(?>{_FEW_FOLDERS}{each}/)" for each in between) + _FOLDERS + last + end


def _translate_name(parts: Sequence[str]) -> str:
    """Return the regular expression of a name; raise `InvalidLine` if it fits none."""
    texts = [""]
    for part in parts:
        if part.startswith("*"):
            texts.append("")
        else:
            texts[-1] += _translate_part(part)
    first, *others = texts
    if not others:
        return first
    *between, last = others
    if not any(texts):
        return "[^/]++"
    return first + "".join(f"(?>[^/]*?{each})" for each in between) + f"[^/]*{last}"


def _translate_part(part: str) -> str:
    """Return the regular expression of a part that stands for one letter."""
    if part == "?":
        return "[^/]"
    if part == "[":
        raise InvalidLine(r"has a [ without a letter and a ] after it: write \[ for the letter itself")
    if part == "\\":
        raise InvalidLine(r"ends with a \ : write \\ for the letter itself, or leave it out")
    if not part.startswith("["):
        return re.escape(part[-1])
    negated = part[1] in "!^" and len(part) > 3
    members = [[each[-1:] for each in found] for found in _MEMBER.findall(part[1 + negated : -1])]
    if any(begin > end for begin, end, _ in members):
        raise InvalidLine("has a range of letters that ends before it begins: write it as [a-z]")
    written = "".join(
        f"{re.escape(begin)}-{re.escape(end)}" if begin else re.escape(one) for begin, end, one in members
    )
    if negated:
        return f"[^/{written}]"
    return f"(?!/)[{written}]" if any(begin <= "/" <= end for begin, end, _ in members) else f"[{written}]"


def _find_literal(names: Iterable[Sequence[str]]) -> str:
    """Return the longest text that stands in each path of a line with these names; "" if none is certain."""
    texts = [
        "".join(part[-1] for part in same)
        for parts in names
        for is_wild, same in groupby(parts, key=lambda part: part[0] in _WILD)
        if not is_wild
    ]
    return max(texts, key=len, default="")
