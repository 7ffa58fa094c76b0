"""Routes of jobs, as their owner sees them.

Files of a job are read in threads of their own, a few for each user: see `controller.requests.file_threads`.
"""

from collections.abc import Callable
from typing import Concatenate, ParamSpec, TypeVar

from jupyter_gq.api.access import ADMIN_SCOPE
from jupyter_gq.api.call import NO_CONTENT, Call, Reply
from jupyter_gq.api.errors import missing_scope, refusal
from jupyter_gq.api.route import Media
from jupyter_gq.client.models import FileParts, JobChange, JobRequest, JobSelection, JobSubmission, PartsQuestion
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.requests.file_threads import run_in_file_thread

P = ParamSpec("P")
T = TypeVar("T")

#: Characters of an idempotency key.
MAX_KEY = 200


def list_jobs(call: Call) -> Reply:
    """Answer with a page of the caller's jobs, newest first; admins may ask for the jobs of another user or of all."""
    jobs = call.services.job_lists.list_jobs(
        call.caller,
        limit=call.integer("limit"),
        before=call.optional_text("before"),
        owner=requested_owner(call),
        group=call.optional_text("group"),
    )
    return Reply(body=jobs)


def list_queue(call: Call) -> Reply:
    """Answer with a page of the unfinished jobs of a queue, newest first, to those who may change them."""
    return Reply(
        body=call.services.job_lists.list_queue(
            call.caller, call.path["queue"], limit=call.integer("limit"), before=call.optional_text("before")
        )
    )


def requested_owner(call: Call) -> str | None:
    """Return whose objects a list shows, by the query `owner`: a user's name, "*" = all, or None = the caller's own.

    Raises an `ApiRefusal` of 403 if the caller asks for the objects of others and is no admin.
    """
    owner = call.optional_text("owner")
    if owner is None or owner == call.caller.user:
        return None
    if not call.caller.admin:
        raise missing_scope(ADMIN_SCOPE)
    return owner


async def preview(call: Call) -> Reply:
    """Answer with what would happen if the job in the body were submitted now; nothing is stored. For readers."""
    asked = call.model(JobRequest)
    previews, secrets = call.services.previews, asked.secrets
    body = await previews.preview(call.caller, asked, secrets=secrets, home=asked.home, kernel=asked.kernel)
    return Reply(body=body)


async def submit(call: Call) -> Reply:
    """Submit the caller's job: 201 for a new job, 200 for the job that this idempotency key has made before.

    Raises a refusal of 422 for a key that is empty, too long or not printable ASCII. Needs the submit scope.
    """
    key = call.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        message = f"The header Idempotency-Key must have 1 to {MAX_KEY} printable ASCII characters."
        raise refusal(422, "invalid_request", message, field="Idempotency-Key")
    submission = call.model(JobSubmission)
    await call.services.jobs.check_files(call.caller, submission, key)
    async with call.services.jobs.staged(call.caller, submission, key):
        job, created = call.services.jobs.submit(call.caller, submission, key)
    return Reply(body=job, status=201 if created else 200, headers={"Location": f"jobs/{job.id}"})


def describe_files(call: Call) -> Reply:
    """Answer with the parts of the caller's files that must be sent, and with the limits. Needs the submit scope."""
    return Reply(body=call.services.files.describe(call.caller, call.model(PartsQuestion).parts))


async def add_files(call: Call) -> Reply:
    """Store parts of the caller's files, and answer without content (204). Needs the submit scope."""
    await call.services.files.add(call.caller.user, call.model(FileParts).contents)
    return NO_CONTENT


def show(call: Call) -> Reply:
    """Answer with one job, to those who may change it."""
    return Reply(body=call.services.jobs.show(call.caller, call.path["job"]))


def cancel(call: Call) -> Reply:
    """Ask for the end of a job, for those who may change it, and answer with the job (202), which may still run."""
    return Reply(body=call.services.jobs.cancel(call.caller, call.path["job"]), status=202)


def cancel_many(call: Call) -> Reply:
    """Ask for the end of several jobs, and answer with those that end (202) and those that could not be cancelled."""
    return Reply(body=call.services.jobs.cancel_many(call.caller, call.model(JobSelection).jobs), status=202)


def delete(call: Call) -> Reply:
    """Hide an ended job and have it deleted, for its owner or an admin; answer with the job as it was (202)."""
    return Reply(body=call.services.job_deletions.delete(call.caller, call.path["job"]), status=202)


def change(call: Call) -> Reply:
    """Change a job that has not ended, for those who may change it, and answer with its present state."""
    return Reply(body=call.services.job_changes.change(call.caller, call.path["job"], call.model(JobChange)))


def read_outputs(call: Call) -> Reply:
    """Answer with the next pieces of output of a job after the number in the query, to its owner or an admin."""
    return Reply(body=call.services.jobs.read_outputs(call.caller, call.path["job"], call.integer("after")))


def read_usage(call: Call) -> Reply:
    """Answer with the GPU use of a job over time, to those who may change it."""
    return Reply(body=call.services.jobs.read_usage(call.caller, call.path["job"]))


async def read_notebook(call: Call) -> Reply:
    """Answer with a job's executed notebook so far, to its owner or an admin."""
    return Reply(body=await call.services.jobs.read_notebook(call.caller, call.path["job"]))


async def _read(call: Call, read: Callable[Concatenate[Caller, str, P], T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Return what `read` finds in the files of the job of the request, for its caller."""
    return await run_in_file_thread(call.caller.user, read, call.caller, call.path["job"], *args, **kwargs)


async def read_results(call: Call) -> Reply:
    """Answer with the list of what a job brings back, to its owner or an admin."""
    return Reply(body=await _read(call, call.services.jobs.read_results))


async def read_result_part(call: Call) -> Reply:
    """Answer with the next bytes of one result of a job, to its owner only."""
    path, start = call.optional_text("path") or "", call.integer("start")
    content = await call.services.jobs.read_result_part(call.caller, call.path["job"], path, start)
    return Reply(content=content, media=Media.BYTES)


async def read_log(call: Call) -> Reply:
    """Answer with the end of the log of a job's last run, or of one of its tasks, as text, to its owner or an admin."""
    task = call.optional_integer("task")
    text = await _read(call, call.services.jobs.read_log, task)
    return Reply(text=text, media="text/plain; charset=utf-8")


async def describe_log(call: Call) -> Reply:
    """Answer with the bytes of the log of a job's last run that are kept, to its owner or an admin."""
    return Reply(body=await _read(call, call.services.logs.describe))


async def read_log_part(call: Call) -> Reply:
    """Answer with the next bytes of the log of a task, to the job's owner or an admin."""
    task, start = call.integer("task"), call.integer("start")
    content = await _read(call, call.services.logs.read_part, task, start)
    return Reply(content=content, media=Media.BYTES)


async def find_log_lines(call: Call) -> Reply:
    """Answer with the next lines of the log of a task that have a text in them, to the job's owner or an admin."""
    text, position = call.optional_text("contains") or "", (call.integer("start"), call.integer("line"))
    find = call.services.logs.find_lines
    return Reply(body=await _read(call, find, text, call.integer("task"), position))
