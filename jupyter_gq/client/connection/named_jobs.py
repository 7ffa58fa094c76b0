"""The job that a user names by its id, by the beginning of that, or as the last one: the same wherever they name it."""

from jupyter_gq.client.models import JobView
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.domain.job_names import LAST
from jupyter_gq.domain.plain_text import quoted

from .http import ServiceClient, ServiceError
from .pages import read_all_jobs

_PREFIX = "job-"
_PAGE = 200
#: Most jobs that a sentence names.
_MOST_NAMED = 5


async def find_job(client: ServiceClient, text: str, *, listed_by: str) -> JobView:
    """Return the job whose id is `text`, begins with it (with or without "job-"), or the newest one for "last".

    Raises `NotFound` if that is no job or several; its sentence says that `listed_by` lists the jobs.
    """
    if text == LAST:
        newest = await client.newest_job()
        if newest is None:
            raise NotFound("You have no jobs.")
        return await client.job(newest.id)
    if not text:
        raise NotFound(f"An empty text is no id of a job. {listed_by} lists your jobs.")
    try:
        return await client.job(text)
    except ServiceError as error:
        if error.status not in {404, 405}:  # 405: the text is another route, such as "preview"
            raise
    if _PREFIX.startswith(text):  # a job that nobody named must not be deleted
        raise NotFound(f"The ids of all jobs begin with {quoted(_PREFIX)}. Give some of what follows.")
    listed = await read_all_jobs(lambda before: client.jobs(limit=_PAGE, before=before))
    ids = [job.id for job in listed.jobs if job.id.startswith((text, _PREFIX + text))]
    if not ids:
        raise NotFound(f"No job of yours has an id that begins with {quoted(text)}. {listed_by} lists them.")
    if len(ids) > 1:
        rest = f" and {len(ids) - _MOST_NAMED} more" if len(ids) > _MOST_NAMED else ""
        named = ", ".join(sorted(ids)[:_MOST_NAMED])
        raise NotFound(f"{len(ids)} jobs have an id that begins with {quoted(text)}: {named}{rest}.")
    return await client.job(ids[0])
