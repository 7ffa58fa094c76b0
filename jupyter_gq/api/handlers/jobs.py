"""Routes of jobs, as their owner sees them."""

from jupyter_gq.api.access import ADMIN_SCOPE
from jupyter_gq.api.call import Call, Reply
from jupyter_gq.api.errors import missing_scope, refusal
from jupyter_gq.client.models import JobRequest, JobSubmission

#: Characters of an idempotency key.
MAX_KEY = 200


def list_jobs(call: Call) -> Reply:
    """Answer with a page of jobs, newest first."""
    jobs = call.services.jobs.list(
        call.caller, limit=call.integer("limit"), before=call.optional_text("before"), owner=requested_owner(call)
    )
    return Reply(body=jobs)


def requested_owner(call: Call) -> str | None:
    """Return whose objects a list shows: None = the caller's own; for admins also a user's name, or "*" = all.

    Raises a `ApiRefusal` if the caller asks for the objects of others and is no admin.
    """
    owner = call.optional_text("owner")
    if owner is None or owner == call.caller.user:
        return None
    if not call.caller.admin:
        raise missing_scope(ADMIN_SCOPE)
    return owner


def preview(call: Call) -> Reply:
    """Answer with what would happen if this job were submitted now."""
    return Reply(body=call.services.jobs.preview(call.caller, call.model(JobRequest)))


def submit(call: Call) -> Reply:
    """Submit a job: 201 for a new job, 200 for the job that this key has already made."""
    key = call.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        message = f"The header Idempotency-Key must have 1 to {MAX_KEY} printable ASCII characters."
        raise refusal(422, "invalid_request", message, field="Idempotency-Key")
    job, created = call.services.jobs.submit(call.caller, call.model(JobSubmission), key)
    return Reply(body=job, status=201 if created else 200, headers={"Location": f"jobs/{job.id}"})


def show(call: Call) -> Reply:
    """Answer with one job."""
    return Reply(body=call.services.jobs.show(call.caller, call.path["job"]))


def cancel(call: Call) -> Reply:
    """Ask for the end of a job; its phase tells when it has ended."""
    return Reply(body=call.services.jobs.cancel(call.caller, call.path["job"]), status=202)


def read_outputs(call: Call) -> Reply:
    """Answer with the pieces of output after a number."""
    return Reply(body=call.services.jobs.read_outputs(call.caller, call.path["job"], call.integer("after")))


def read_notebook(call: Call) -> Reply:
    """Answer with the executed notebook so far."""
    return Reply(body=call.services.jobs.read_notebook(call.caller, call.path["job"]))


def read_log(call: Call) -> Reply:
    """Answer with the end of the log of the last run."""
    return Reply(text=call.services.jobs.read_log(call.caller, call.path["job"]), media="text/plain; charset=utf-8")
