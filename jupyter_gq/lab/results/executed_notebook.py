"""The copy of a job's executed notebook in the user's folder, where JupyterLab can open it.

The copy is written through the contents manager, so it works wherever the user's files are. The folder is not hidden:
with `ContentsManager.allow_hidden = False`, the default, JupyterLab answers 404 to everything below a name with a dot.

A copy that the user has edited is kept: the next copy gets another name. An unedited copy is overwritten.
"""

import hashlib
import json
import re
from collections.abc import Mapping

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue
from jupyter_gq.lab.jupyter_parts import Contents

FOLDER = "gq-results"
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")
MAX_STEM = 60


def make_result_name(job_id: str, name: str) -> str:
    """Return the file name of a result without ending: the job's name, shortened, and its id."""
    stem = _NOT_IN_NAME.sub("-", name).strip("-._")[:MAX_STEM].rstrip("-._")
    tail = job_id.removeprefix("job-")
    return f"{stem}-{tail}" if stem else f"job-{tail}"


async def save_result(contents: Contents, job_id: str, name: str, notebook: JsonMapping) -> str:
    """Write this notebook into the folder of results; return its path relative to the root.

    A copy that the user has edited is kept, and the new copy gets a number. An equal copy is not written again.
    """
    document = {**notebook, "metadata": {**notebook.get("metadata", {})}}
    fingerprint = _fingerprint(document)
    document["metadata"]["jupyter_gq"] = {"result_of": job_id, "fingerprint": fingerprint}
    if not await ensure_async(contents.dir_exists(FOLDER)):
        await ensure_async(contents.save({"type": "directory"}, FOLDER))
    stem = make_result_name(job_id, name)
    number = 1
    while True:
        path = f"{FOLDER}/{stem}.ipynb" if number == 1 else f"{FOLDER}/{stem}-{number}.ipynb"
        before = await _read(contents, path)
        if before is not None and _fingerprint(before) == fingerprint:
            return path
        if before is None or _is_unedited_copy(before):
            await ensure_async(contents.save({"type": "notebook", "format": "json", "content": document}, path))
            return path
        number += 1


async def _read(contents: Contents, path: str) -> JsonMapping | None:
    """Return the notebook at this path, None if there is no file, and {} for a file that is no notebook."""
    if not await ensure_async(contents.file_exists(path)):
        return None
    try:
        model = await ensure_async(contents.get(path, content=True, type="notebook"))
    except HTTPError:
        return {}  # a file of the user, which must be kept
    content: JsonMapping = model["content"]
    return content


def _is_unedited_copy(document: JsonMapping) -> bool:
    """Return whether this module wrote the notebook and its visible content is still the same."""
    mark = document.get("metadata", {}).get("jupyter_gq", {})
    return isinstance(mark, Mapping) and mark.get("fingerprint") == _fingerprint(document)


def _fingerprint(document: JsonMapping) -> str:
    """Return a hash of the sources and outputs in a notebook, without metadata that JupyterLab adds when it saves."""
    seen = [
        [
            cell.get("cell_type"),
            _join_lines(cell.get("source")),
            [_select_visible(output) for output in cell.get("outputs", [])],
        ]
        for cell in document.get("cells", [])
    ]
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def _select_visible(output: JsonMapping) -> JsonObject:
    """Return the parts of an output that the user sees."""
    kept = {key: output[key] for key in ("output_type", "name", "ename", "evalue") if key in output}
    if "text" in output:
        kept["text"] = _join_lines(output["text"])
    if "data" in output:
        kept["data"] = {key: _join_lines(value) for key, value in output["data"].items()}
    return kept


def _join_lines(value: JsonValue) -> JsonValue:
    """Return a list of lines joined to one text, and any other value as it is.

    A notebook has lists of lines on disk and one text in memory.
    """
    return "".join(value) if isinstance(value, list) and all(isinstance(line, str) for line in value) else value
