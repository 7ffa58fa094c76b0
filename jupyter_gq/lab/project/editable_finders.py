"""The places of modules in the files that `pip install -e` writes, read as texts. Nothing is run.

Rules
-----
- setuptools writes a dict named `MAPPING`, with a path for each module; that of a single file lacks its ending.
- scikit-build-core ends its file with `install({...}, ...)`, where the first argument has the file of each module.
- meson-python names the modules and the folder of its build, in which `meson-info/intro-install_plan.json` has the file
  of each module. A finder that builds the modules first is not asked to do so.
- A file of another form has no places.

See docs/decisions/0483-read-the-finders-of-meson-python-and-scikit-build-core.md.
"""

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path, PurePosixPath

#: Names of such files in a folder with packages.
FINDER = re.compile(r"__editable__\w*_finder\.py|_editable_skbc_\w+\.py|_\w+_editable_loader\.py")
_MAPPING = re.compile(r"^MAPPING\b[^={\n]*= (\{.*\})$", re.MULTILINE)
#: How the call begins that has the places, and the end of the line with which it ends.
_CALLS = ("\ninstall(", "\n    install(", "MesonpyMetaFinder(\n")
_END = re.compile(r"\)[ \t]*$", re.MULTILINE)
_FOLDERS = frozenset({"{py_platlib}", "{py_purelib}"})
#: Largest plan of an installation that is read, in bytes.
_LARGEST_PLAN = 4 * 1024 * 1024
#: What a file of another form, and a path with a zero byte, raise where they are read.
_OF_OTHER_FORM = (ValueError, TypeError, AttributeError, KeyError, IndexError, SyntaxError, RecursionError, MemoryError)


def read_places(text: str) -> dict[str, Path]:
    """Return the folder or file of each top-level module, by its name, that a finder with this source finds.

    Only what is there is returned; {} for a source of another form. If setuptools lists only a module inside of a
    folder without `__init__.py`, the place is that of the inner module.
    """
    with suppress(OSError, *_OF_OTHER_FORM):
        found = _MAPPING.search(text)
        if found is not None:
            # A module that is one file has a path without its ending.
            mapping = dict(ast.literal_eval(found[1]))
            named = [(str(name), str(place) + ending) for name, place in mapping.items() for ending in (".py", "")]
            return _keep_present((name.partition(".")[0], Path(place)) for name, place in named)
        match _read_arguments(text):
            case (dict(files), *_):
                return _keep_present(_list_of_files(files))
            case (_, set(names), str(build), *_):
                return _keep_present(_list_of_plan(Path(build, "meson-info", "intro-install_plan.json"), names))
    return {}


def _keep_present(places: Iterator[tuple[str, Path]]) -> dict[str, Path]:
    return {name: place for name, place in places if place.is_absolute() and os.path.exists(place)}


def _read_arguments(text: str) -> tuple[object, ...]:
    """Return the arguments of the last call that has places; () if there is none.

    Raises an error of `_OF_OTHER_FORM` if the arguments are no literals.
    """
    start, length = max((text.rfind(call), len(call)) for call in _CALLS)
    end = _END.search(text, start + length) if start >= 0 else None
    return tuple(ast.literal_eval(f"({text[start + length : end.start()].strip().rstrip(',')},)")) if end else ()


def _list_of_files(files: Mapping[str, str]) -> Iterator[tuple[str, Path]]:
    """Yield the name and place of top-level modules, by the files of these and of the modules in them."""
    for name, file in files.items():
        place = Path(file)
        if place.stem == "__init__":
            place = place.parent
        parts = name.split(".")
        yield parts[0], place.parents[len(parts) - 2] if len(parts) > 1 else place


def _list_of_plan(file: Path, names: set[str]) -> Iterator[tuple[str, Path]]:
    """Yield the name and place of these modules, by a plan of Meson for what is installed; `__init__.py` comes last."""
    if not file.is_file():  # a pipe would hold up the reader for ever
        return
    with file.open("rb") as opened:
        content = opened.read(_LARGEST_PLAN)
    found: list[tuple[bool, str, Path]] = []
    for kind in json.loads(content).values():
        for source, target in kind.items():
            folder, *parts = PurePosixPath(target["destination"]).parts
            name = parts[0].partition(".")[0] if parts else ""
            if folder in _FOLDERS and name in names and Path(source).parts[-len(parts) :] == tuple(parts):
                place = Path(source)
                found.append((place.stem == "__init__", name, place.parents[len(parts) - 2] if parts[1:] else place))
    yield from ((name, place) for _, name, place in sorted(found))
