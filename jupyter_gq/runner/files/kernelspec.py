"""The variables of a kernelspec, read on the machine of the job. Standard library only.

A kernelspec may hold secrets in its `env`, so only the names travel with a job. The runner has the user's rights and
reads the values where the kernel itself would get them.
"""

import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from jupyter_gq.client.files.user_files import SMALL_FILE, read_json
from jupyter_gq.domain.errors import UnusableFile

_SYSTEM = ("/usr/local/share/jupyter", "/usr/share/jupyter")


def read_spec_variables(
    name: str, folder: str, wanted: Sequence[str], environ: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """Return the values of the `wanted` variables of a kernelspec, and the names that it does not have.

    The kernelspec is read from `folder`, or from the first of Jupyter's folders that has one of this name.
    """
    if not wanted:
        return {}, []
    for place in _list_places(name, folder, environ):
        found = _read_env(place)
        if found is not None:
            return {key: found[key] for key in wanted if key in found}, [key for key in wanted if key not in found]
    return {}, list(wanted)


def _list_places(name: str, folder: str, environ: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folders in which the kernelspec may be: its own, then those that Jupyter searches, in its order."""
    if folder:
        yield Path(folder)
    if name and Path(name).name == name:
        for base in _list_data_folders(environ):
            yield Path(base, "kernels", name)


def _list_data_folders(environ: Mapping[str, str]) -> Iterable[str]:
    home = environ.get("JUPYTER_DATA_DIR") or os.path.join(environ.get("HOME") or "/", ".local/share/jupyter")
    listed = [*environ.get("JUPYTER_PATH", "").split(os.pathsep), home, os.path.join(sys.prefix, "share/jupyter")]
    return [base for base in (*listed, *_SYSTEM) if base]


def _read_env(place: Path) -> dict[str, str] | None:
    """Return the variables of the kernelspec in a folder; None if there is none that can be read."""
    try:
        document = read_json(Path(os.path.realpath(place / "kernel.json")), limit=SMALL_FILE)
    except (UnusableFile, OSError, ValueError):
        return None
    if document is None:
        return None
    env = document.get("env", {})
    return {str(key): str(value) for key, value in env.items()} if isinstance(env, dict) else {}
