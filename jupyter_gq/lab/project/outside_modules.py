"""The modules that code imports from folders in which nothing is installed, and that lie outside of its own folder.

Such modules are found by the variable PYTHONPATH, by files with the ending `.pth`, or since they were installed with
`pip install -e`. They do not go along: the job's Python looks for them at their full path.

Rules
-----
- Order: that of Python. The notebook's folder comes first, then PYTHONPATH, the standard library, what is installed,
  and last what `.pth` files and finders name. A folder without `__init__.py` counts if nothing else has its name.
- Not told: this package, which each job has; modules in the folders with the programs of the machine, which also a
  job's machine has; and those of another image, whose folders are not here. A folder that code adds to `sys.path` is
  told as a path that it names.

See docs/decisions/0476-tell-where-modules-outside-of-the-folder-are.md.
"""

import asyncio
import json
import os
import re
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from string import Template

from jupyter_gq.client.models import Kernel
from jupyter_gq.lab.bundle.bundle import Runtime, is_python, read_object

from .needed import OF_THE_MACHINE, Needed
from .site_folders import find_leads, ignores_variables, list_modules, list_site_folders, read_start

_VARIABLE = "PYTHONPATH"
_IN_EACH_JOB = frozenset({"jupyter_gq"})
#: A folder below the notebook's that code puts first into `sys.path`.
_ADDED = re.compile(r"\bsys\.path\.insert\(\s*0\s*,[^\n\"']{0,40}[\"']([^\n\"'/~][^\n\"']{0,200})[\"']")
#: Most folders of PYTHONPATH.
_MOST_FOLDERS = 50


@dataclass(frozen=True, kw_only=True, slots=True)
class OutsideModule:
    """A module outside of the notebook's folder, which Python finds at its full path."""

    name: str
    #: The folder or file of the module.
    place: Path
    #: The file that leads there, which the job's Python must have as well; None = the variable PYTHONPATH leads there.
    file: Path | None
    #: Whether the job has the variable that leads there; True if a file leads there.
    is_given: bool = True


async def find_outside_modules(
    needed: Needed, sources: Sequence[str], runtime: Runtime, environ: Mapping[str, str]
) -> list[OutsideModule]:
    """Return the top-level modules that the Python in `sources` imports by their full paths, sorted by name.

    None for another image, another language, or a kernel without a command.

    `needed` is what was found in the folder of the code. `environ` are the variables of this process, with which the
    notebook's kernel starts.
    """
    names = needed.elsewhere - _IN_EACH_JOB
    if not names or not is_python(runtime.kernel) or runtime.software.is_image or not runtime.kernel.argv:
        return []
    found = await asyncio.to_thread(_find, names, runtime, environ)
    added = _ADDED.findall("\n".join(sources))
    return [each for each in found if not _goes_along(each, needed, added)]


def _find(names: Collection[str], runtime: Runtime, environ: Mapping[str, str]) -> list[OutsideModule]:
    sites: list[Path] = []
    with suppress(OSError, ValueError):  # the path of a program that no system takes
        sites = list_site_folders(runtime.kernel.argv[0], environ.get("HOME", ""))
    named = [each for each in _find_named(runtime, environ) if each.name in names]
    led = [each for each in _find_led(sites) if each.name in names]
    if not named and not led:
        return []
    folders = [Path(runtime.cwd), *sites]
    installed = {name: place for each in reversed(folders) for name, place in list_modules(each).items()}
    whole = [each for each in named if _is_whole(each.place)]
    shown = [each for each in named + led if not _is_hidden(each, installed)]
    first: dict[str, OutsideModule] = {}
    for each in [*whole, *sorted(shown, key=lambda each: not _is_whole(each.place))]:
        first.setdefault(each.name, each)
    return [each for _, each in sorted(first.items()) if each.place.parts[:2] not in OF_THE_MACHINE]


def _find_named(runtime: Runtime, environ: Mapping[str, str]) -> Iterator[OutsideModule]:
    """Yield the modules in the folders of PYTHONPATH, as the kernelspec sets it, or else the environment.

    None for a kernel whose Python ignores the variable.
    """
    if ignores_variables(runtime.kernel.argv):
        return
    of_spec = _read_variable(runtime.kernel)
    file = None if of_spec is None else Path(runtime.kernel.resource_dir, "kernel.json")
    if of_spec is None:
        value, is_given = environ.get(_VARIABLE, ""), _VARIABLE in runtime.environment
    else:
        value, is_given = Template(of_spec).safe_substitute(environ), True  # as Jupyter fills in a kernelspec
    for folder in value.split(os.pathsep)[:_MOST_FOLDERS]:
        place = Path(os.path.normpath(os.path.join(runtime.cwd, folder)))
        if place != Path(runtime.cwd):  # where all modules go along
            for name, module in list_modules(place).items():
                yield OutsideModule(name=name, place=module, file=file, is_given=is_given)


def _read_variable(kernel: Kernel) -> str | None:
    """Return the value of PYTHONPATH in a kernelspec; None if that has none, or cannot be read."""
    if _VARIABLE not in kernel.env_names:
        return None
    with suppress(ValueError, RecursionError):
        found = json.loads(read_start(Path(kernel.resource_dir, "kernel.json")))
        value = read_object(found, "env").get(_VARIABLE) if isinstance(found, dict) else None
        return value if isinstance(value, str) else None
    return None


def _find_led(sites: Iterable[Path]) -> Iterator[OutsideModule]:
    """Yield the modules to which files in folders with packages lead."""
    for site in sites:
        for lead in find_leads(site):
            for name, place in lead.places.items():
                yield OutsideModule(name=name, place=place, file=lead.file)


def _is_hidden(module: OutsideModule, installed: Mapping[str, Path]) -> bool:
    """Return whether Python takes another module of this name: its own, or one in `installed`."""
    known = installed.get(module.name)
    return module.name in sys.stdlib_module_names or (
        known is not None and (_is_whole(known) or not _is_whole(module.place))
    )


def _is_whole(place: Path) -> bool:
    """Return whether a module is more than a folder, which Python takes only if nothing else has its name."""
    return place.suffix != "" or os.path.isfile(place / "__init__.py")


def _goes_along(module: OutsideModule, needed: Needed, added: Sequence[str]) -> bool:
    """Return whether the job finds a copy of the module first, in a folder below its own that a cell has added."""
    for folder in map(os.path.normpath, added):
        path = f"{folder}/{module.place.name}"
        if any(each == path or each.startswith(f"{path}/") for each in needed.going):
            return True
    return False
