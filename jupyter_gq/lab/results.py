"""Brings the executed notebook of a job into the user's folder, where JupyterLab can open it.

It goes through the contents manager, so it works wherever the user's files are. The folder is not hidden: with
`ContentsManager.allow_hidden = False`, the default, JupyterLab answers 404 to anything below a name with a dot.

A copy that the user edited is his: the next one gets another name. One that is as we wrote it is written again.
"""

import hashlib
import json
import re
from collections.abc import Mapping

from jupyter_core.utils import ensure_async
from tornado.web import HTTPError

from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue

from .jupyter_parts import Contents

FOLDER = "gq-results"
_NOT_IN_NAME = re.compile(r"[^A-Za-z0-9._-]+")
MAX_STEM = 60


def result_name(job_id: str, name: str) -> str:
    """File name without ending: what the user called it, and the job, which makes it unique."""
    stem = _NOT_IN_NAME.sub("-", name).strip("-._")[:MAX_STEM].rstrip("-._")
    tail = job_id.removeprefix("job-")
    return f"{stem}-{tail}" if stem else f"job-{tail}"


async def bring(contents: Contents, job_id: str, name: str, notebook: JsonMapping) -> str:
    """Write this notebook; return its path, relative to the root. `contents` is jupyter_server's contents manager."""
    document = {**notebook, "metadata": {**notebook.get("metadata", {})}}
    fingerprint = _fingerprint(document)
    document["metadata"]["jupyter_gq"] = {"result_of": job_id, "fingerprint": fingerprint}
    if not await ensure_async(contents.dir_exists(FOLDER)):
        await ensure_async(contents.save({"type": "directory"}, FOLDER))
    stem = result_name(job_id, name)
    number = 1
    while True:
        path = f"{FOLDER}/{stem}.ipynb" if number == 1 else f"{FOLDER}/{stem}-{number}.ipynb"
        before = await _read(contents, path)
        if before is not None and _fingerprint(before) == fingerprint:
            return path
        if before is None or _is_ours(before):
            await ensure_async(contents.save({"type": "notebook", "format": "json", "content": document}, path))
            return path
        number += 1


async def _read(contents: Contents, path: str) -> JsonMapping | None:
    """The notebook at this path; None when there is none, or what is there cannot be read as one."""
    if not await ensure_async(contents.file_exists(path)):
        return None
    try:
        model = await ensure_async(contents.get(path, content=True, type="notebook"))
    except HTTPError:
        return {}  # somebody's file all the same
    content: JsonMapping = model["content"]
    return content


def _is_ours(document: JsonMapping) -> bool:
    """It says what its cells were when we wrote it, and they still are that."""
    mark = document.get("metadata", {}).get("jupyter_gq", {})
    return isinstance(mark, Mapping) and mark.get("fingerprint") == _fingerprint(document)


def _fingerprint(document: JsonMapping) -> str:
    """Of what the user sees, not of what Lab adds when it opens and saves a notebook."""
    seen = [
        [cell.get("cell_type"), _text(cell.get("source")), [_visible(output) for output in cell.get("outputs", [])]]
        for cell in document.get("cells", [])
    ]
    return hashlib.sha256(json.dumps(seen, sort_keys=True).encode()).hexdigest()


def _visible(output: JsonMapping) -> JsonObject:
    kept = {key: output[key] for key in ("output_type", "name", "ename", "evalue") if key in output}
    if "text" in output:
        kept["text"] = _text(output["text"])
    if "data" in output:
        kept["data"] = {key: _text(value) for key, value in output["data"].items()}
    return kept


def _text(value: JsonValue) -> JsonValue:
    """nbformat writes long text as a list of lines on disk, and as one string in memory."""
    return "".join(value) if isinstance(value, list) and all(isinstance(line, str) for line in value) else value
