"""The versions of the packages whose classes and functions stand in a pickle by name.

A value that one version of a package has pickled may be loaded by another one, and be wrong or crash later. So the job
has the same versions, or none of its cells runs. The versions are read here from the kernel's folders, so that the
kernel is free meanwhile.

See docs/decisions/0176-read-versions-of-packages-in-the-server.md.
"""

import re
from collections.abc import Collection, Sequence
from importlib.metadata import Distribution, distributions


def find_versions(modules: Collection[str], path: Sequence[str]) -> dict[str, str]:
    """Return the versions of the installed packages that have these top-level modules, by the packages' names.

    `path` has the folders in which a Python finds its modules, as `sys.path` lists them. If two of them have a package,
    the first one counts.
    """
    if not modules:
        return {}
    places = list(path)
    named = "|".join(map(re.escape, sorted(modules)))
    # In a line of RECORD, a module is the first folder of a path, or a file without a folder.
    recorded = re.compile(rf'\n"?(?:{named})(?:/|\.[^/,\n]*,)')
    wanted = frozenset(modules)
    found = [_read_version(each) for each in distributions(path=places) if _has_any(each, wanted, recorded)]
    packages = {name for name, _ in filter(None, found)}
    first = (_read_version(each) for name in sorted(packages) for each in distributions(path=places, name=name))
    versions: dict[str, str] = {}
    for name, version in filter(None, first):
        versions.setdefault(name, version)
    return versions


def _read_version(package: Distribution) -> tuple[str, str] | None:
    """Return the name and the version of an installed package; None if its metadata is missing or damaged."""
    try:
        name, version = package.metadata["Name"], package.metadata["Version"]
    except (KeyError, ValueError):  # also text that is not UTF-8
        return None
    return (name, version) if name and version else None


def _has_any(package: Distribution, modules: frozenset[str], recorded: re.Pattern[str]) -> bool:
    """Return whether a package has one of these modules: by its own list of them, else by the list of its files.

    A package whose lists are damaged has none.
    """
    try:
        declared = (package.read_text("top_level.txt") or "").split()
        if declared:
            return not modules.isdisjoint(declared)
        record = package.read_text("RECORD")
        if record is not None:
            # All packages of an environment have tens of thousands of files, so their paths are not taken apart.
            return recorded.search("\n" + record) is not None
        return any(each.parts[0].partition(".")[0] in modules for each in package.files or ())
    except ValueError:  # no text in UTF-8
        return False
