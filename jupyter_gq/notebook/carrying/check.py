"""The check of pickled variables: a new process of the job's Python loads them, as the job will.

The process runs in an empty folder, so that modules which only the notebook's folder has are found missing.
"""

from __future__ import annotations

import json
import os

from .loading import Loading, Unloadable, require_environment


def main(text: str) -> None:
    """Load the pickles of a JSON request; append a line to its report before each, and one with the reason after it.

    A pickle that ends this process is the one whose first line has no second. Files in `skipped` are not loaded. If
    Python or a package has another version than that which made the pickles, one line without a file says so.
    """
    import __main__

    request = json.loads(text)
    pickles, report = request["pickles"], request["report"]
    files = {name: each["file"] for each in pickles for name in each["names"] if each["file"] not in request["skipped"]}
    try:
        require_environment(request["python"], request["packages"])
    except Unloadable as error:
        _append(report, {"file": "", "state": "done", "reason": str(error)})
        return
    loading = Loading(request["folder"], files, vars(__main__))
    for each in pickles:
        if each["file"] in request["skipped"]:
            continue
        _append(report, {"file": each["file"], "state": "begun"})
        reason = ""
        try:
            loading.find(each["names"][0])
        except Unloadable as error:
            reason = str(error)
        _append(report, {"file": each["file"], "state": "done", "reason": reason})


def _append(path: str, line: object) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with open(handle, "a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")
