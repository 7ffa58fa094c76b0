"""The folders with the packages of a Python, and what they say about code that is elsewhere.

Rules
-----
- Nothing is run: neither the Python nor the code in its folders. Folders are listed, and files are read as texts.
- Paths: each line of a file with the ending `.pth` that is no code names a folder with modules.
- Finders: `pip install -e` may write a module that has the places of modules in it; see `editable_finders`.
- Bounded: a folder is listed anew only if it has changed. The entries, files and lines that are read are limited.

See docs/decisions/0476-tell-where-modules-outside-of-the-folder-are.md.
"""

import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from .editable_finders import FINDER, read_places

#: Most entries of a folder, most files of a kind in it, most bytes of one, and most lines of one.
_MOST_ENTRIES = 50_000
_MOST_FILES = 200
_MOST_BYTES = 256 * 1024
_MOST_LINES = 200
#: Most folders whose listings are kept.
_MOST_KEPT = 200
_VERSION = re.compile(r"python(3\.\d+)")
_SHARED = re.compile(r"^include-system-site-packages[ \t]*=[ \t]*true[ \t]*$", re.MULTILINE | re.IGNORECASE)
_HOME = re.compile(r"^home[ \t]*=(.*)$", re.MULTILINE)
_CODE = (".py", ".so")
#: Options of Python in one word: those without a value, and then perhaps one with its value.
_OPTIONS = re.compile(r"-([bBdEhiIOPqsSuvVx]*)([cmWX]?)(.*)")


@dataclass(frozen=True, kw_only=True, slots=True)
class Lead:
    """Places of modules to which a file in a folder with packages leads."""

    #: The file.
    file: Path
    #: The folder or file of each top-level module, by its name.
    places: Mapping[str, Path]


@dataclass(frozen=True, slots=True)
class _Listing:
    """The entries of a folder that matter here."""

    #: When the folder last changed, in nanoseconds since the epoch.
    changed_at: int
    #: The entry of each top-level module, by the module's name.
    modules: Mapping[str, str]
    #: Names of files that lead elsewhere.
    leads: tuple[str, ...]


def list_site_folders(python: str, home: str) -> list[Path]:
    """Return the folders that may have the packages of a Python, of those that are there.

    `python` is the full path of its program, and `home` the folder of the user. No folder if `python` is no full path,
    or is not where a Python usually is. An environment that shares the packages of another Python has the folders of
    both.
    """
    if not os.path.isabs(python):
        return []
    version = _VERSION.fullmatch(os.path.basename(os.path.realpath(python)))
    named = f"python{version[1]}" if version else "python3*"
    prefix = Path(python).parent.parent
    settings = read_start(prefix / "pyvenv.cfg")
    prefixes = [prefix]
    if not settings:
        prefixes += [Path(home, ".local"), Path(os.path.realpath(python)).parent.parent]
    elif _SHARED.search(settings):
        prefixes.append(Path(home, ".local"))
        prefixes += [Path(base[1].strip()).parent for base in _HOME.finditer(settings)]
    if Path("/usr") in prefixes:
        prefixes.append(Path("/usr/local"))
    found = [
        folder
        for each in dict.fromkeys(prefixes)
        for name in dict.fromkeys((named, "python3"))
        for kind in ("site-packages", "dist-packages")
        for folder in sorted(each.glob(f"lib/{name}/{kind}"))
    ]
    return list(dict.fromkeys(found))


def ignores_variables(argv: Sequence[str]) -> bool:
    """Return whether a command starts Python with `-I` or `-E`, by which it ignores PYTHONPATH."""
    words = iter(argv[1:])
    for word in words:
        options = _OPTIONS.fullmatch(word)
        if options is None:
            return False
        if "I" in options[1] or "E" in options[1]:
            return True
        if options[2] in {"m", "c"}:
            return False
        if options[2] and not options[3]:  # the value of the option is the next word
            next(words, None)
    return False


def list_modules(folder: Path) -> dict[str, Path]:
    """Return the folder or file of each top-level module in a folder, by its name; {} if it cannot be listed."""
    return {name: folder / entry for name, entry in _LISTINGS.list(folder).modules.items()}


def find_leads(folder: Path) -> Iterator[Lead]:
    """Yield where the `.pth` files and finders of a folder with packages lead.

    Folders that are away are left out, and so are other folders with packages that a `.pth` file names.
    """
    for name in _LISTINGS.list(folder).leads:
        file = folder / name
        text = read_start(file)
        if name.endswith(".pth"):
            for line in text.splitlines()[:_MOST_LINES]:
                place = os.path.normpath(folder / line.strip())
                is_code = line.startswith(("#", "import ", "import\t")) or not line.strip() or "\0" in line
                if not is_code and "-packages" not in place and os.path.isdir(place):
                    yield Lead(file=file, places=list_modules(Path(place)))
        else:
            yield Lead(file=file, places=read_places(text))


def read_start(file: Path) -> str:
    """Return the first bytes of a file as a text; "" if it cannot be read or is no regular file."""
    with suppress(OSError, ValueError):
        if file.is_file():
            with file.open("rb") as opened:
                return opened.read(_MOST_BYTES).decode(errors="replace")
    return ""


class _Listings:
    """The listings of folders, kept as long as the folders are unchanged. Threads may share it."""

    def __init__(self) -> None:
        self._kept: dict[Path, _Listing] = {}
        self._lock = threading.Lock()

    def list(self, folder: Path) -> _Listing:
        """Return what is in a folder; nothing if it cannot be listed."""
        try:
            changed_at = os.stat(folder).st_mtime_ns
            with self._lock:
                known = self._kept.get(folder)
            if known is not None and known.changed_at == changed_at:
                return known
            listing = _list(folder, changed_at)
        except (OSError, ValueError):
            return _Listing(0, {}, ())
        with self._lock:
            while len(self._kept) >= _MOST_KEPT:
                self._kept.pop(next(iter(self._kept)))
            self._kept[folder] = listing
        return listing


_LISTINGS = _Listings()


def _list(folder: Path, changed_at: int) -> _Listing:
    modules: dict[str, str] = {}
    leads: list[str] = []
    with os.scandir(folder) as entries:
        for entry in islice(entries, _MOST_ENTRIES):
            name, dot, _ = entry.name.partition(".")
            is_code = entry.name.endswith(_CODE)
            if FINDER.fullmatch(entry.name) or entry.name.endswith(".pth"):
                leads.append(entry.name)
            elif name.isidentifier() and (is_code if dot else entry.is_dir()) and (is_code or name not in modules):
                modules[name] = entry.name
    return _Listing(changed_at, modules, tuple(sorted(leads)[:_MOST_FILES]))
