"""The list of results of a job, which user code can forge, as a model."""

from pydantic import ValidationError

from jupyter_gq.client.models import JobResults
from jupyter_gq.client.models.results import FILES
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.json_types import JsonObject

#: Most bytes of a result in one answer.
RESULT_PART = 4 * 1024 * 1024


def is_missing(document: JsonObject | None, path: str, start: int) -> bool:
    """Return whether a result of which nothing was found from byte `start` on is missing, rather than at its end.

    `document` is the list of the job's results, and None if the job has no list. A listed result is missing if its
    listed size is more than `start`. A result at a `path` that is not listed is missing only if `start` is 0. Raises
    `UnusableFile` if `document` is another document.
    """
    results = JobResults() if document is None else parse_results(document)
    sizes = {variable.path: variable.bytes for variable in results.variables}
    size = (sizes | {FILES + file.path: file.bytes for file in results.files}).get(path)
    return start == 0 if size is None else start < size


def parse_results(document: JsonObject) -> JobResults:
    """Return the list of results in this document; raise `UnusableFile` if it is another document."""
    try:
        return JobResults.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnusableFile("results.json", f"{where}: {first['msg']}") from error
