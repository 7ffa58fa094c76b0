"""The results of a job: the variables that it returns and the files in its result folder. Standard library only.

    results.json  results/vars/<n>.pickle  results/files/...

`results.json` lists what is there; it is written once, when the cells have ended. Values are never unpickled here.
"""

import errno
import heapq
import json
import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from jupyter_gq.client.files.frozen_files import explain_unsafe_path
from jupyter_gq.client.files.user_files import SMALL_FILE, read_json
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.json_types import JsonMapping, JsonObject

from .bundle import ProjectFile
from .folder import write_whole
from .project import CACHES, is_unchanged

#: Most files that are listed, the newest; all others are counted.
MOST_FILES = 1000
#: Most bytes of the report of a kernel on its variables: 100 names with long reasons.
_LONGEST_REPORT = 8 * SMALL_FILE
#: Characters of the path of a file that cannot be brought back.
_LONGEST_SHOWN = 200
_RENAME, _MAKE_READABLE = "Rename it in the job.", "Make it readable in the job."
_KEEP_FOLDER = "Keep that folder in the job, and copy files into it."
#: What helps against an error of the file system other than missing rights.
_REMEDIES = {errno.ENAMETOOLONG: "Use shorter paths in the job.", errno.ENOTDIR: _KEEP_FOLDER}


def read_report(path: Path, names: Sequence[str], reason: str) -> JsonObject:
    """Return the kernel's report on its variables, with an entry for each of `names`.

    A name that is not in the report gets `reason`.
    """
    try:
        report = read_json(path, limit=_LONGEST_REPORT) or {}
    except UnusableFile:
        report = {}
    told = report.get("variables")
    entries = [entry for entry in told if isinstance(entry, dict)] if isinstance(told, list) else []
    known = {entry.get("name") for entry in entries}
    entries += [describe_missing(name, reason) for name in names if name not in known]
    return {"python": str(report.get("python", "")), "variables": entries}


def describe_missing(name: str, reason: str) -> JsonObject:
    """Return the entry of a variable that was not saved."""
    return {"name": name, "type": "", "bytes": None, "sha256": "", "path": "", "reason": reason}


def write_results(
    record: Path,
    folder: Path,
    report: JsonMapping,
    frozen: Sequence[ProjectFile] = (),
    hide: Callable[[str], str] = str,
) -> None:
    """Write the record of a job's results: the report on its variables, and the files of the result folder.

    Files that the job took along and did not change, the `frozen` ones, are no results. `hide` replaces the values of
    secrets in a text.

    A job with neither leaves no record. Raises `OSError` if the disk refuses.
    """
    files, omitted = list_files(folder / "files", {file.path: file for file in frozen}, hide)
    if report["variables"] or files:
        document = {**report, "files": files, "omitted_files": omitted}
        write_whole(record, json.dumps(document).encode())


def list_files(
    folder: Path, frozen: Mapping[str, ProjectFile], hide: Callable[[str], str] = str
) -> tuple[list[JsonObject], int]:
    """Return path and size of the regular files below `folder`, and how many more there are.

    The files of a folder come by name, and then those of its folders. At most `MOST_FILES` are returned, those that
    were written last; what cannot be read counts as the newest. Pipes, caches, `frozen` files that have not changed,
    and links to other places are left out. A link to one of the files has a reason, which names that file. A file or
    folder whose name or rights keep it from being read by others has a reason, and so has one whose name has the value
    of a secret in it, which `hide` replaces.

    If the folder, or the one that holds it, was replaced by a link, that is the only entry.
    """
    if folder.is_symlink() or folder.parent.is_symlink():
        why = "the folder of results was replaced by a link to another place"
        return [_describe_lost(".", 0, why, _KEEP_FOLDER)], 0
    found: list[tuple[float, JsonObject]] = []  # with the time of the last change

    def note_unreadable(error: OSError) -> None:
        if isinstance(error, FileNotFoundError):
            return
        shown = Path(os.fsdecode(error.filename)).relative_to(folder).as_posix()
        why = f"the folder cannot be read ({error.strerror})"
        found.append((math.inf, _describe_lost(hide(shown), 0, why, _find_remedy(error))))

    for parent, folders, names in os.walk(folder, onerror=note_unreadable):
        folders[:] = sorted(name for name in folders if name not in CACHES)
        for name in sorted(names):
            path = Path(parent, name)
            shown = path.relative_to(folder).as_posix()
            changed = math.inf
            try:
                changed = path.lstat().st_mtime
                if path.is_symlink():
                    found += [(changed, entry) for entry in _describe_link(path, folder, hide)]
                    continue
                if not path.is_file() or (shown in frozen and is_unchanged(path, frozen[shown])):
                    continue
                size, unsafe, remedy = path.stat().st_size, explain_unsafe_path(shown), _RENAME
            except FileNotFoundError:
                continue  # a program that the cells started still works there
            except OSError as error:
                size, unsafe, remedy = 0, f"it cannot be read ({error.strerror})", _find_remedy(error)
            unsafe = unsafe or ("its name has a secret in it" if hide(shown) != shown else "")
            lost = _describe_lost(hide(shown), size, unsafe, remedy) if unsafe else {"path": shown, "bytes": size}
            found.append((changed, lost))
    newest = sorted(heapq.nlargest(MOST_FILES, range(len(found)), key=lambda place: found[place][0]))
    return [found[place][1] for place in newest], len(found) - len(newest)


def _find_remedy(error: OSError) -> str:
    """Return the sentence on what helps against an error of the file system."""
    return _REMEDIES.get(error.errno or 0, _MAKE_READABLE)


def _describe_link(link: Path, folder: Path, hide: Callable[[str], str]) -> list[JsonObject]:
    """Return the entry of a link to a file below `folder`; none for a link to another place, or to nothing."""
    target = Path(os.path.realpath(link))  # unlike `resolve`, it takes a link to itself
    if not target.is_file() or not target.is_relative_to(folder.resolve()):
        return []
    named = ascii(target.relative_to(folder.resolve()).as_posix())[1:-1][:_LONGEST_SHOWN]
    why = f"it is a link to {hide(named)}"
    return [_describe_lost(hide(link.relative_to(folder).as_posix()), 0, why, "Copy that file in the job instead.")]


def _describe_lost(shown: str, size: int, why: str, remedy: str) -> JsonObject:
    """Return the entry of a file that stays where it is, because of `why`, a clause about its path."""
    readable = ascii(shown)[1:-1]
    if len(readable) > _LONGEST_SHOWN:
        readable = f"{readable[: _LONGEST_SHOWN // 2]}…{readable[-_LONGEST_SHOWN // 2 :]}"
    return {
        "path": readable,
        "bytes": size,
        "reason": f"It cannot be brought back, because {why}. {remedy}",
    }
