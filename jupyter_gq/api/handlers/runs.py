"""Routes of a job's runner, which shows the job's own token; a runner in a pod first shows the token of its pod."""

from jupyter_gq.api.call import NO_CONTENT, Call, Reply
from jupyter_gq.api.errors import refusal
from jupyter_gq.api.route import Media
from jupyter_gq.client.models import FileParts, Heartbeat, OutputAck, OutputReport, ResultsReport


def append_outputs(call: Call) -> Reply:
    """Store pieces of output of a job; answer with the number of the last stored piece. Only for task 0 of the job."""
    _require_first_task(call)
    events = call.model(OutputReport).events
    return Reply(body=OutputAck(last_seq=call.services.jobs.append_outputs(call.path["job"], events)))


def record_heartbeat(call: Call) -> Reply:
    """Record that the runner of a job is alive, and answer without content (204). Only for task 0 of the job."""
    _require_first_task(call)
    call.services.jobs.record_heartbeat(call.path["job"], call.model(Heartbeat))
    return NO_CONTENT


def exchange_token(call: Call) -> Reply:
    """Answer with a new token for the task that the asking pod runs; only for a pod of the job's present run."""
    return Reply(body=call.services.pods.exchange_token(call.path["job"], call.pod))


async def read_bundle(call: Call) -> Reply:
    """Answer with the bundle of a job, and for task 0 with the executed notebook so far; only for the job's tasks."""
    return Reply(body=await call.services.pods.read_bundle(call.path["job"], call.task))


async def read_files(call: Call) -> Reply:
    """Answer with the next parts of the files that a job takes along; only for the job's tasks."""
    content = await call.services.files.read_next(call.path["job"], call.integer("start"))
    return Reply(content=content, media=Media.BYTES)


async def check_devices(call: Call) -> Reply:
    """Answer with the device check of the asking task, to which the job's token belongs.

    An open check is awaited for the seconds in the query `wait`.
    """
    wait = float(call.integer("wait"))
    return Reply(body=await call.services.pods.check_devices(call.path["job"], call.task, wait))


def read_size(call: Call) -> Reply:
    """Answer with the tasks that a job has now; only for the job's tasks."""
    return Reply(body=call.services.pods.read_size(call.path["job"]))


def store_log(call: Call) -> Reply:
    """Store the next part of the log of the asking task, to which the job's token belongs, or without `start` its end.

    Answers without content (204).
    """
    call.services.pods.store_log(call.path["job"], call.task, call.plain_text, call.optional_integer("start"))
    return NO_CONTENT


async def add_result_parts(call: Call) -> Reply:
    """Store parts of what a job brings back; answer without content (204). Only for task 0 of the job."""
    _require_first_task(call)
    await call.services.pods.add_result_parts(call.path["job"], call.model(FileParts).contents)
    return NO_CONTENT


def store_results(call: Call) -> Reply:
    """Store what a job brings back, whose parts were sent before; answer without content (204). Only for task 0."""
    _require_first_task(call)
    call.services.pods.store_results(call.path["job"], call.model(ResultsReport))
    return NO_CONTENT


def _require_first_task(call: Call) -> None:
    """Raise a refusal of 403 unless the job's token is that of task 0, whose runner reports for the whole job."""
    if call.task != 0:
        message = f"Task 0 speaks for the job; this is the token of task {call.task}, whose output goes into its log."
        raise refusal(403, "not_the_first_task", message)
