"""The files of the notebook's folder that the cells of a job need, and the data that stays where it is.

Rules
-----
- Reasons: a file goes along because the code imports it, because the code names its path, or by the user's pattern.
  Imported modules are read in turn; of a package, every module goes along.
- Never: links out of the folder, and what is no regular file. Files that may hold secrets (see `secret_files`) go
  along only if a line with `!` in `.jupyter-gq-ignore` lets them.
- Ignored: of caches, environments and what `.jupyter-gq-ignore` names, a file goes along only if the code names its
  path. A pattern of the user also finds ignored files, but does not look into ignored folders.
- Caps: a file above the cap of a file stays, and so does what would exceed the cap of a job. A folder counts as one.
- Bounded: the search ends after `_SECONDS` or `_MOST_ENTRIES` entries of folders, and says so.
"""

import ast
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Literal

from jupyter_gq.client.files.frozen_files import MOST_FILES, explain_unsafe_path
from jupyter_gq.domain.errors import MachineError
from jupyter_gq.lab.clock import monotonic

from .ignored import Ignored
from .modules import ReadModules
from .patterns import Chosen, matches_name
from .references import UNKNOWN, Import, References, Variables, find_references
from .written import find_written

Why = Literal["imported", "opened", "pattern"]
#: Most seconds of a search: a network file system takes that long for thousands of files. The dialog is open meanwhile.
_SECONDS = 5.0
_MOST_ENTRIES = 50_000
#: Most files that stay and are named.
_MOST_STAYING = 100
_LINK_OUT = "it is a link out of the notebook's folder"
#: Folders with programs and devices, which also a job's machine has.
OF_THE_MACHINE = frozenset(
    ("/", name) for name in ("bin", "dev", "etc", "lib", "opt", "proc", "run", "sbin", "sys", "usr")
)


@dataclass(frozen=True, kw_only=True, slots=True)
class NeededFile:
    """A file that goes along."""

    #: Relative to the notebook's folder, with slashes.
    path: str
    bytes: int
    why: Why
    executable: bool
    #: When its content last changed, in seconds since the epoch.
    modified_at: float = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
class StayingFile:
    """A file or folder that the code names, and that does not go along."""

    #: As the code writes it.
    path: str
    #: None for a folder.
    bytes: int | None
    #: Why it stays, as a clause.
    why: str
    #: Where it is.
    place: Path


@dataclass(kw_only=True, slots=True)
class Needed:
    """The files that the code needs: those that go along, and those that stay."""

    going: dict[str, NeededFile] = field(default_factory=dict)
    staying: dict[str, StayingFile] = field(default_factory=dict)
    #: Top-level modules that the code imports and that are not in the folder: most of them are installed.
    elsewhere: set[str] = field(default_factory=set)
    #: Paths that the cells write and do not read, and that do not go along.
    written: list[str] = field(default_factory=list)
    #: Folders that are there, and into which the code writes.
    folders: list[str] = field(default_factory=list)
    #: Whether the code is known to write files, also at paths that it computes.
    writes: bool = False
    #: Patterns of the user that name no file; unknown, and so empty, if the search ended early.
    unmatched: list[str] = field(default_factory=list)
    #: Patterns of the user that cannot be used.
    unusable: list[str] = field(default_factory=list)
    #: Hidden files and folders that patterns without a dot would name; a folder ends with a slash.
    hidden: list[str] = field(default_factory=list)
    #: Files and folders that stay since they may hold secrets.
    secrets: list[str] = field(default_factory=list)
    #: Whether the search ended early.
    cut_short: bool = False
    #: Why `.jupyter-gq-ignore` is not followed, as a clause; "" if it is, or if there is none.
    ignore_problem: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Caps:
    """The most bytes of one file, and of all files of a job."""

    file: int
    job: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Code:
    """The code of a job."""

    #: Syntax trees of its cells.
    trees: Sequence[ast.Module] = ()
    #: Paths that the cells write through functions and statements of SQL, beside those that the trees show.
    written: Sequence[str] = ()


def find_needed(folder: Path, code: Code, patterns: Sequence[str], caps: Caps) -> Needed:
    """Return the files of `folder` that the code imports, or that the code or a pattern of the user names.

    They are those that go along, those that stay with the reason, and those that the code only writes.
    """
    search = _Search(folder, caps)
    try:
        variables, written = Variables(), find_written(code.trees)
        for tree in code.trees:
            search.add_references(find_references(tree, variables, written), package=())
        search.follow_modules()
        search.add_matching()
        search.add_patterns(patterns)  # after what the code names: a pattern may look at more files than there is time
        search.follow_modules()
    except _Enough:
        search.found.cut_short = True
    search.note_written(code.written)
    search.found.writes = bool(code.written)
    return search.found


_READ = ReadModules()


class _Enough(MachineError):
    """The early end of a search that has taken too long or has looked at too many entries."""


class _Search:
    """A search in one folder."""

    def __init__(self, folder: Path, caps: Caps) -> None:
        self._folder, self._caps = folder, caps
        #: The folder with a slash at its end, before which a path in it is put as a text, thousands of times.
        self._before = os.path.join(folder, "")
        #: The folder without links, with a slash at its end: thousands of paths are compared with it as texts.
        self._root = os.path.join(os.path.realpath(folder), "")
        self._ignored = Ignored.read(folder)
        self._left = caps.job
        self._entries = 0
        self._until = monotonic() + _SECONDS
        self._modules: list[str] = []
        #: Patterns of paths in the code.
        self._patterns: set[str] = set()
        #: What was looked at: modules and texts of the code of a package, packages, and folders of data. Many modules
        #: name the same ones.
        self._imports: set[tuple[Import, tuple[str, ...]]] = set()
        self._texts: set[tuple[str, bool, str]] = set()
        self._packages: set[str] = set()
        self._folders: set[str] = set()
        #: What was found at a path, and where the folder of a path is without links; asked for many times.
        self._stats: dict[str, os.stat_result | None] = {}
        self._real_folders: dict[str, str] = {}
        #: What the code names otherwise than to write or remove it, and what else it names.
        self._named: set[str] = set()
        self._others = References()
        self.found = Needed(ignore_problem=self._ignored.problem)

    def add_references(self, references: References, package: tuple[str, ...]) -> None:
        """Add the modules and files that code of this package of the folder names; () is no package."""
        self._others.add_places(references)
        for imported in sorted(each for each in references.imports if (each, package) not in self._imports):
            self._imports.add((imported, package))
            self._add_module(imported, package)
        beside = "/".join(package)
        for text in references.texts:
            named = (text, text in references.arguments, beside)
            if named not in self._texts:
                self._texts.add(named)
                self._add_text(*named)
        self._patterns |= references.patterns
        self._named.update(references.texts)

    def note_written(self, others: Sequence[str]) -> None:
        """Note the paths that are only written, `others` among them, and the folders that the job needs for that.

        What is removed must be there first: a link to a file, or a folder of the job's own. A folder into which the
        code writes keeps what is in it, also if it is among `others`.
        """
        removed = self._others.removed
        kept = set(map(os.path.normpath, filter(None, self._others.folders)))
        whole = [each for each in others if os.path.normpath(each) not in kept]
        written = self._others.written.union(whole, self._list_computed())
        written.update(self._list_with_endings(written))
        self.found.written = sorted(written - self._named - removed)[:MOST_FILES]
        made = set(map(os.path.normpath, self.found.written))
        folders = (kept - made).union(map(os.path.normpath, removed))
        self.found.folders = sorted(each for each in folders if os.path.isdir(os.path.join(self._folder, each)))

    def _list_computed(self) -> Iterator[str]:
        """Yield the files that the code may write by a computed path, and that nothing else names.

        They lie in a folder that the path names. What code reads by a computed path is named by a pattern or a folder.
        """
        for sketch in self._others.computed:
            folder = os.path.normpath(sketch.partition(UNKNOWN)[0].rpartition("/")[0] or ".")
            if folder == "." or os.path.isabs(folder) or folder.startswith("..") or folder in self._folders:
                continue
            pattern = re.compile(".*".join(map(re.escape, os.path.normpath(sketch).split(UNKNOWN))))
            with suppress(OSError), os.scandir(self._folder / folder) as entries:
                for entry in islice(entries, MOST_FILES):
                    path = f"{folder}/{entry.name}"
                    if pattern.fullmatch(path) and not self._is_needed(path):
                        yield path

    def _list_with_endings(self, written: Iterable[str]) -> Iterator[str]:
        """Yield the files that may be meant by written names without an ending, and that nothing else names.

        `numpy.save("best", x)` writes best.npy, and `plt.savefig("loss")` loss.png.
        """
        bare: dict[str, set[str]] = {}
        for path in map(os.path.normpath, written):
            folder, name = os.path.split(path)
            if name and "." not in name and not os.path.isabs(path) and not path.startswith(".."):
                bare.setdefault(folder, set()).add(name)
        for folder, names in bare.items():
            with suppress(OSError, ValueError), os.scandir(self._folder / folder) as entries:
                for entry in islice(entries, MOST_FILES):
                    path = os.path.join(folder, entry.name)
                    if entry.name.rpartition(".")[0] in names and entry.is_file() and not self._is_needed(path):
                        yield path

    def _is_needed(self, path: str) -> bool:
        return path in self.found.going or path in self.found.staying

    def follow_modules(self) -> None:
        """Add what the modules that go along need in turn."""
        read: set[str] = set()
        while self._modules:
            path = self._modules.pop()
            if path not in read:
                read.add(path)
                references = self._read(path)
                if references is not None:
                    self.add_references(references, tuple(path.split("/")[:-1]))

    def add_matching(self) -> None:
        """Add the files that match patterns of the code, as `glob` finds them: no hidden and no ignored ones.

        Patterns that lead out of the notebook's folder are skipped.
        """
        for pattern in sorted(self._patterns):
            path = os.path.normpath(os.path.expanduser(pattern))
            if not os.path.isabs(path) and not path.startswith(".."):
                names = path.split("/")
                doubled = [names[at : at + 2] == ["**", "**"] for at in range(len(names))]  # as of rglob("**/*.csv")
                self._expand("", [name for name, again in zip(names, doubled, strict=True) if not again])

    def _expand(self, here: str, names: Sequence[str]) -> None:
        """Add the files below a folder that match these names, of which each is a name or a pattern."""
        if names[0] == "**" and len(names) > 1:
            self._expand(here, names[1:])
        for path, is_folder in self._list(here):
            name = path.rpartition("/")[2]
            is_noted = not is_folder and self._ignored.is_secret(path)
            if self._ignored.covers(f"{path}/" if is_folder else path) and not is_noted:
                continue
            if names[0] == "**" and is_folder and not name.startswith("."):
                self._expand(path, names)
            elif not matches_name(name, names[0]):
                continue
            elif is_folder and len(names) > 1:
                self._expand(path, names[1:])
            elif not is_folder and len(names) == 1:
                self._add_file(path, "opened", path)

    def add_patterns(self, patterns: Sequence[str]) -> None:
        """Add the files that the user's patterns name, also ignored ones, but no secrets.

        Folders that are ignored are not searched. Patterns that name no file or cannot be used are noted.
        """
        chosen = Chosen(patterns)
        self.found.unusable, self.found.hidden = chosen.unusable, chosen.hidden
        if patterns:
            for path in self._walk("", chosen):
                if chosen.names(path):
                    self._add_file(path, "pattern", path)
        self.found.unmatched = chosen.unmatched

    def _add_module(self, imported: Import, package: tuple[str, ...]) -> None:
        """Add the files of a module if it lies in the folder: of a package all modules, else its one file."""
        if imported.level > len(package) + 1:
            return
        above = package[: len(package) - imported.level + 1] if imported.level else ()
        names = [name for name in imported.name.split(".") if name]
        # Below a folder that is no package, a module of code in it is found beside that code.
        bases = [above] if imported.level or not package else [above, package]
        is_here = [self._add_module_in(base, names) for base in bases]  # in each of them
        if not any(is_here) and names and not imported.level:
            self.found.elsewhere.add(names[0])
            for folder in sorted(self._others.module_folders):
                self._add_module_in(tuple(folder.split("/")), names)

    def _add_module_in(self, base: tuple[str, ...], names: Sequence[str]) -> bool:
        """Add the files of a module with this dotted name if it lies in a folder; return whether it does."""
        place = "/".join(base)
        for name in names:
            place = f"{place}/{name}" if place else name
            if self._is_file(f"{place}/__init__.py"):
                self._add_package(place)
                return True
            if self._is_file(f"{place}.py"):
                self._add_file(f"{place}.py", "imported", f"{place}.py")
                return True
        return False

    def _add_package(self, place: str) -> None:
        """Add all modules of the package in a folder, unless that was done before."""
        if place in self._packages:
            return
        self._packages.add(place)
        for path in self._walk(place):
            if path.endswith(".py"):
                self._add_file(path, "imported", path)

    def _add_text(self, text: str, is_argument: bool, beside: str) -> None:
        """Add the file or folder at a path that the code names, in the folder or beside the module of the code."""
        path = os.path.expanduser(text)
        if os.path.isabs(path) or ".." in path.split("/"):
            self._add_outside(text, path)
            return
        for base in dict.fromkeys(("", beside)):
            inside = os.path.normpath(os.path.join(base, path))
            if inside == ".":
                continue
            found = self._stat(inside)
            if found is not None and stat.S_ISDIR(found.st_mode) and (is_argument or "/" in text):
                self._add_folder(inside, text)
            elif found is not None and not stat.S_ISDIR(found.st_mode):
                self._add_file(inside, "opened", text)

    def _add_outside(self, text: str, path: str) -> None:
        """Note a file or folder outside of the folder; programs and devices of the machine are no data."""
        place = Path(os.path.normpath(self._folder / path))
        if place.parts[:2] in OF_THE_MACHINE or place in self._folder.parents or len(place.parts) < 3:
            return
        try:
            found = place.stat()
        except (OSError, ValueError):
            return
        is_relative = not os.path.isabs(path)
        why = "it is outside of the notebook's folder" if is_relative else "it is named by its full path"
        self._stay(text, found.st_size if stat.S_ISREG(found.st_mode) else None, why, place)

    def _add_folder(self, path: str, shown: str) -> None:
        """Add the files of a folder that the code names, if all of them together are within the cap of a file."""
        if path in self._folders:
            return
        self._folders.add(path)
        if not f"{self._real_path(path)}/".startswith(self._root):
            self._stay(shown, None, _LINK_OUT, path)
            return
        files = []
        for each in self._walk(path):  # which ends the search if judging these files takes too long
            if self._ignored.is_secret(each):
                self.found.secrets.append(each)
            elif not self._ignored.covers(each):
                files.append(each)
        sizes = [found.st_size for each in files if (found := self._stat(each)) is not None]
        if sum(sizes) > self._caps.file:
            self._stay(shown, None, f"its files have more than {_show(self._caps.file)}", path)
            return
        for each in files:
            self._add_file(each, "opened", each)

    def _add_file(self, path: str, why: Why, shown: str) -> None:
        """Add a file, or note why it stays."""
        if path in self.found.going:
            return
        found = self._stat(path)
        if found is None or (why == "imported" and self._ignored.covers(path) and not self._ignored.is_secret(path)):
            return
        reason = self._explain_stay(path, found)
        if reason:
            self._stay(shown, found.st_size, reason, path)
            return
        self._left -= found.st_size
        self.found.going[path] = NeededFile(
            path=path,
            bytes=found.st_size,
            why=why,
            executable=bool(found.st_mode & stat.S_IXUSR),
            modified_at=found.st_mtime,
        )
        if path.endswith(".py"):
            self._modules.append(path)

    def _explain_stay(self, path: str, found: os.stat_result) -> str:
        """Return why a file stays, as a clause; "" if it can go along."""
        if not stat.S_ISREG(found.st_mode):
            return "it is no regular file"
        real = self._real_path(path)
        if not real.startswith(self._root):
            return _LINK_OUT
        secret = next(filter(self._ignored.is_secret, (path, real.removeprefix(self._root))), None)
        if secret is not None:
            self.found.secrets.append(secret)
            return self._ignored.why_secret
        if self._root == "/" and Path(real).parts[:2] in OF_THE_MACHINE:
            return "it belongs to the machine"
        if unsafe := explain_unsafe_path(path):
            return unsafe
        if found.st_size > self._caps.file:
            return f"it has more than {_show(self._caps.file)}"
        if found.st_size > self._left or len(self.found.going) >= MOST_FILES:
            return f"a job takes at most {_show(self._caps.job)} and {MOST_FILES} files along"
        return ""

    def _stay(self, shown: str, size: int | None, why: str, place: Path | str) -> None:
        if len(self.found.staying) < _MOST_STAYING:
            staying = StayingFile(path=shown, bytes=size, why=why, place=self._folder / place)
            self.found.staying.setdefault(shown, staying)

    def _walk(self, path: str, chosen: Chosen | None = None) -> Iterator[str]:
        """Yield the files below a folder; raise `_Enough` if that takes too long. Links to folders are not followed.

        Nor are ignored folders, and those that may hold secrets, which are noted. With `chosen`, hidden folders are
        searched only if a pattern may name what is in them.
        """
        waiting = [path]
        while waiting:
            for inside, is_folder in self._list(waiting.pop()):
                if not is_folder:
                    yield inside
                elif (self._root, inside) in OF_THE_MACHINE:
                    continue
                elif self._ignored.is_secret(f"{inside}/"):
                    if chosen is None or chosen.names(f"{inside}/"):
                        self.found.secrets.append(f"{inside}/")
                elif not self._ignored.covers(f"{inside}/") and (chosen is None or chosen.may_search(f"{inside}/")):
                    waiting.append(inside)

    def _list(self, here: str) -> Iterator[tuple[str, bool]]:
        """Yield what is in a folder by name, and whether it is a folder and no link; nothing if it cannot be read."""
        try:
            entries = sorted(os.scandir(self._before + here), key=lambda entry: entry.name)
        except OSError:
            return
        for entry in entries:
            self._count()
            yield f"{here}/{entry.name}" if here else entry.name, entry.is_dir(follow_symlinks=False)

    def _count(self) -> None:
        self._entries += 1
        if self._entries > _MOST_ENTRIES or monotonic() > self._until:
            raise _Enough

    def _stat(self, path: str) -> os.stat_result | None:
        """Return what is at a path, as it was when this search first asked."""
        if path not in self._stats:
            self._count()
            try:
                self._stats[path] = os.stat(self._before + path)
            except (OSError, ValueError):
                self._stats[path] = None
        return self._stats[path]

    def _real_path(self, path: str) -> str:
        """Return where a file is, without links on the way."""
        folder, _, name = f"{self._before}{path}".rpartition("/")
        if folder not in self._real_folders:
            self._real_folders[folder] = os.path.realpath(folder or "/")
        place = os.path.join(self._real_folders[folder], name)
        return os.path.realpath(place) if os.path.islink(place) else place

    def _is_file(self, path: str) -> bool:
        found = self._stat(path)
        return found is not None and stat.S_ISREG(found.st_mode)

    def _read(self, path: str) -> References | None:
        """Return the references of a module; None if it is no Python."""
        found = self._stat(path)
        self._count()
        return None if found is None else _READ.read(self._before + path, found)


def _show(size: int) -> str:
    return f"{size / 2**20:.0f} MiB" if size >= 2**20 else f"{size / 1024:.0f} KiB"
