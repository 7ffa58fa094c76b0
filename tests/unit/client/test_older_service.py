"""A job for an older service has no field that the service would refuse, or is refused with the reason."""

import json
from typing import Any

import pytest

from jupyter_gq.client.connection.older_service import list_known_fields, write_preview, write_submission
from jupyter_gq.client.models import Bundle, FrozenFile, JobRequest, JobSubmission, Manifest
from jupyter_gq.client.problems import ServiceError

HINTS = {"Manifest.written", "Manifest.folders", "Manifest.left_out_cells", "FrozenFile.modified_at"}


def a_submission(**fields: Any) -> JobSubmission:
    cell = {"cell_id": "a", "source_hash": "0" * 64}
    manifest = {
        "notebook_path": "a.ipynb",
        "cwd": "/home/ann",
        "kernel": {"name": "python3", "argv": ["python"]},
        "targets": [cell],
        **fields,
    }
    notebook = {"cells": [{"cell_type": "code", "id": "a", "metadata": {}, "source": "1"}], "metadata": {}}
    bundle = Bundle(manifest=Manifest.model_validate(manifest), notebook=notebook)
    return JobSubmission(name="a", queue="vision", bundle=bundle)


def written_manifest(known: set[str] | None, **fields: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(write_submission(a_submission(**fields), known))
    manifest: dict[str, Any] = document["bundle"]["manifest"]
    return manifest


FILE = {"path": "a.py", "bytes": 0, "parts": [], "modified_at": 7.0}


@pytest.mark.parametrize("known", [set(), set(list_known_fields()) - HINTS], ids=["tells nothing", "tells its fields"])
def test_hints_are_left_out_for_a_service_that_lacks_them(known: set[str]) -> None:
    manifest = written_manifest(known, written=["out.csv"], files=[FILE], returns=["model"], left_out_cells=["b"])
    assert not {"written", "left_out_cells"} & manifest.keys()
    assert manifest["files"] == [{"bytes": 0, "parts": [], "path": "a.py", "executable": False}]
    assert manifest["returns"] == ["model"]


def test_a_service_of_this_release_gets_everything() -> None:
    manifest = written_manifest(set(list_known_fields()), written=["out.csv"], files=[FILE])
    assert manifest["written"] == ["out.csv"]
    assert FrozenFile.model_validate(manifest["files"][0]).modified_at == 7.0


def test_a_service_that_was_not_asked_gets_no_unused_hint() -> None:
    assert "written" not in written_manifest(None)
    assert written_manifest(None, written=["out.csv"])["written"] == ["out.csv"]


def test_the_cells_that_the_user_left_out_go_only_to_a_service_that_has_told_that_it_knows_them() -> None:
    for left_out in ([], ["b"]):
        assert "left_out_cells" not in written_manifest(None, left_out_cells=left_out)
        assert written_manifest(set(list_known_fields()), left_out_cells=left_out)["left_out_cells"] == left_out


def test_a_job_continues_from_another_only_at_a_service_that_knows_that() -> None:
    fresh, known = a_submission(), set(list_known_fields())
    continued = fresh.model_copy(update={"continue_from": "job-1"})
    for told in (None, set(), known):
        assert "continue_from" not in json.loads(write_submission(fresh, told))
    for told in (None, known):
        assert json.loads(write_submission(continued, told))["continue_from"] == "job-1"
    for told in (set(), known - {"JobFields.continue_from"}):
        with pytest.raises(ServiceError, match="does not know 'continue_from' of this job"):
            write_submission(continued, told)
    request = JobRequest(queue="vision")
    assert "continue_from" not in json.loads(write_preview(request))
    assert json.loads(write_preview(request.model_copy(update={"continue_from": "job-1"})))["continue_from"] == "job-1"


def test_a_field_that_the_job_needs_is_refused_with_what_to_do() -> None:
    known = set(list_known_fields()) - {"Manifest.secrets"}
    assert "secrets" not in written_manifest(known)
    with pytest.raises(ServiceError) as refused:
        written_manifest(known, secrets=["HF_TOKEN"])
    assert (refused.value.status, refused.value.problem.code) == (422, "older_service")
    assert "does not know 'secrets' of this job. Ask your administrator to update" in refused.value.problem.message
