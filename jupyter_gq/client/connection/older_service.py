"""Jobs for a service of another release: what the service does not know of a job is left out, or refused by name.

Rules
-----
- Known: the service tells the fields of a job that it takes. A release that does not tell them lacks the hints.
- Unused: a field with its default value says nothing, and is left out.
- Hints: without a hint the job runs as with the older release, so the hint is left out.
- Needed: any other field is refused here, since the service would only call it misspelt.

See docs/decisions/0212-tell-clients-which-fields-of-a-job-are-known.md.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from pydantic.main import IncEx

from jupyter_gq.client.models import FrozenFile, JobFields, JobRequest, JobSubmission
from jupyter_gq.client.models.bundles import Manifest
from jupyter_gq.client.problems import PlainProblem, ServiceError

#: Fields that only bring the job closer to the notebook.
HINTS = frozenset(
    {
        "Manifest.own_folder",
        "Manifest.written",
        "Manifest.folders",
        "Manifest.left_out_cells",
        "FrozenFile.modified_at",
    }
)
#: Hints about which no service is asked only for their sake: one that has told nothing gets none of them.
_ONLY_IF_TOLD = frozenset({"Manifest.left_out_cells"})
#: The field by which a job continues from another one, which services of older releases do not know.
CONTINUES = "JobFields.continue_from"


def list_known_fields() -> list[str]:
    """Return the fields of jobs that this release knows, by model, such as "Manifest.written"."""
    known = [f"{model.__name__}.{name}" for model in (Manifest, FrozenFile) for name in model.model_fields]
    return [*known, CONTINUES]


def write_submission(submission: JobSubmission, known: Collection[str] | None) -> bytes:
    """Return the body of a request for a job, without what the service does not know.

    `known` are the fields that the service has told; empty for a service that tells none, None if it was not asked.
    Raises `ServiceError` of status 422 if the job needs a field that the service does not know.
    """
    manifest = submission.bundle.manifest
    left_out = set(_list_unknown(manifest, known))
    of_files = {name for name in FrozenFile.model_fields if _is_unknown(f"FrozenFile.{name}", known)}
    for name in left_out:
        if getattr(manifest, name) and f"Manifest.{name}" not in HINTS:
            raise _refuse(name)
    exclude: dict[str, IncEx | bool] = dict.fromkeys(left_out, True)
    if of_files and "files" not in left_out:
        exclude["files"] = {"__all__": of_files}
    if submission.continue_from and known is not None and CONTINUES not in known:
        raise _refuse("continue_from")
    outer: dict[str, IncEx | bool] = {"bundle": {"manifest": exclude}, **_list_unused(submission)}
    return submission.model_dump_json(exclude=outer).encode()


def write_preview(request: JobRequest) -> bytes:
    """Return the body of a request for a preview, without unused fields that an older service does not know."""
    return request.model_dump_json(exclude=_list_unused(request)).encode()


def _list_unused(fields: JobFields) -> dict[str, IncEx | bool]:
    """Return the fields with their default value that an older service does not know."""
    return {} if fields.continue_from else {"continue_from": True}


def _list_unknown(manifest: Manifest, known: Collection[str] | None) -> Iterator[str]:
    """Yield the fields of a manifest that the service does not know; if that is not known, the unused hints."""
    for name in type(manifest).model_fields:
        label = f"Manifest.{name}"
        unused_hint = label in HINTS and not getattr(manifest, name)
        if _is_unknown(label, known) or (known is None and unused_hint):
            yield name


def _is_unknown(label: str, known: Collection[str] | None) -> bool:
    if known is None:
        return label in _ONLY_IF_TOLD
    return label not in known if known else label in HINTS


def _refuse(name: str) -> ServiceError:
    return ServiceError(
        422,
        PlainProblem(
            code="older_service",
            message=f"The scheduler service is of an older release, and does not know {name!r} of this job. Ask your "
            "administrator to update the service, or send the job without it.",
        ),
    )
