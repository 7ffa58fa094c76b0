"""The versions of the packages whose classes and functions stand in a pickle by name. Standard library only.

A value that one version of a package has pickled may be loaded by another one, and be wrong or crash later. So the job
has the same versions, or none of its cells runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from importlib import metadata


def find_versions(modules: Iterable[str]) -> dict[str, str]:
    """Return the versions of the installed packages that have these top-level modules."""
    known = metadata.packages_distributions()
    packages = {package for module in modules for package in known.get(module, ())}
    return {package: metadata.version(package) for package in sorted(packages)}


def explain_difference(versions: Mapping[str, str]) -> str:
    """Return in which package this environment differs from these versions; "" if in none."""
    for package, version in versions.items():
        try:
            here = metadata.version(package)
        except metadata.PackageNotFoundError:
            return f"they need the package {package} {version}, which is not installed here"
        if here != version:
            return f"they were made with {package} {version}, and the job has {package} {here}"
    return ""
