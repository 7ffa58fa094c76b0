"""Routes of jobs, as their owner sees them."""

from jupyter_gq.api.access import ADMIN_SCOPE
from jupyter_gq.api.call import Call, Reply
from jupyter_gq.api.errors import missing_scope, refusal

MAX_KEY = 200


def listing(call: Call) -> Reply:
    """A page of jobs, newest first."""
    jobs = call.controller.jobs(
        call.caller, limit=call.query["limit"], before=call.query["before"], owner=asked_owner(call)
    )
    return Reply(body=jobs)


def asked_owner(call: Call) -> str | None:
    """Whose things a list shows: the caller's own (None), or for admins somebody's ("*" = everybody's)."""
    owner: str | None = call.query["owner"]
    if owner is None or owner == call.caller.user:
        return None
    if not call.caller.admin:
        raise missing_scope(ADMIN_SCOPE)
    return owner


def preview(call: Call) -> Reply:
    """What would happen if this were sent now."""
    return Reply(body=call.controller.preview(call.caller, call.body))


def submit(call: Call) -> Reply:
    """A new job: 201. The job that this key has already made: 200."""
    key = call.headers.get("idempotency-key")
    if key is not None and not (0 < len(key) <= MAX_KEY and key.isascii() and key.isprintable()):
        message = f"The header Idempotency-Key must have 1 to {MAX_KEY} printable ASCII characters."
        raise refusal(422, "invalid_request", message, field="Idempotency-Key")
    job, created = call.controller.submit(call.caller, call.body, key)
    return Reply(body=job, status=201 if created else 200, headers={"Location": f"jobs/{job.id}"})


def show(call: Call) -> Reply:
    """One job."""
    return Reply(body=call.controller.job(call.caller, call.path["job"]))


def cancel(call: Call) -> Reply:
    """The end is asked for; the job's phase tells when it has come."""
    return Reply(body=call.controller.cancel(call.caller, call.path["job"]), status=202)


def outputs(call: Call) -> Reply:
    """Pieces of output after a number."""
    return Reply(body=call.controller.outputs(call.caller, call.path["job"], call.query["after"]))


def notebook(call: Call) -> Reply:
    """The executed notebook so far."""
    return Reply(body=call.controller.executed_notebook(call.caller, call.path["job"]))


def log(call: Call) -> Reply:
    """The end of the log of the last run."""
    return Reply(text=call.controller.log(call.caller, call.path["job"]), media="text/plain; charset=utf-8")
