"""The list of results of a job, which user code can forge, as a model."""

from pydantic import ValidationError

from jupyter_gq.client.models import JobResults
from jupyter_gq.client.models.results import FILES
from jupyter_gq.domain.errors import UnusableFile
from jupyter_gq.domain.json_types import JsonObject

#: Most bytes of a result in one answer.
RESULT_PART = 4 * 1024 * 1024


def find_size(document: JsonObject | None, path: str) -> int | None:
    """Return the bytes of the result at `path` by the list of a job's results; None if the list does not have it.

    Raises `UnusableFile` if `document` is no such list.
    """
    results = JobResults() if document is None else parse_results(document)
    sizes = {variable.path: variable.bytes for variable in results.variables}
    return (sizes | {FILES + file.path: file.bytes for file in results.files}).get(path)


def parse_results(document: JsonObject) -> JobResults:
    """Return the list of results in this document; raise `UnusableFile` if it is another document."""
    try:
        return JobResults.model_validate(document)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(str(part) for part in first["loc"])
        raise UnusableFile("results.json", f"{where}: {first['msg']}") from error
