"""The comparison of this environment with the versions of packages that made a pickle. Standard library only."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata


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
