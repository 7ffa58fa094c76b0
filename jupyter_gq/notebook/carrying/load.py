"""The variables that a job took along, defined in the job's kernel: before its first cell, and after replayed cells.

All or nothing: if one variable cannot be loaded, no further cell of the job runs.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from .loading import Loading, Unloadable, require_environment
from .originals import Originals

#: What was loaded before the cells that are replayed, until it is restored after them.
_originals: list[Originals] = []


def main(text: str) -> None:
    """Do the step `load` or `restore` of a JSON request; write "" or the reason of a failure to the file `report`."""
    request = json.loads(text)
    step, report = request.pop("step"), request.pop("report")
    try:
        if step == "restore":
            _originals.pop().restore()
        else:
            _load(**request)
        reason = ""
    except Unloadable as error:
        reason = str(error)
    _write_text(report, reason)


def _load(
    folder: str, python: str, packages: Mapping[str, str], pickles: Sequence[Mapping[str, object]], replays: bool
) -> None:
    """Load the variables into the user's namespace; remember them if cells are replayed and may change them."""
    import __main__

    require_environment(python, packages)
    files = {_names(each): str(each["file"]) for each in pickles}
    loading = Loading(folder, {name: file for names, file in files.items() for name in names}, vars(__main__))
    for names in files:
        loading.find(names[0])
    if replays:
        _originals.append(Originals(loading, list(files), vars(__main__)))


def _names(entry: Mapping[str, object]) -> tuple[str, ...]:
    names = entry["names"]
    assert isinstance(names, (list, tuple))
    return tuple(names)


def _write_text(path: str, text: str) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(handle, "w", encoding="utf-8") as file:
        file.write(text)
