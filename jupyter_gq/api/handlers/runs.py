"""Routes of a job's runner, which shows the job's own token; a runner in a pod first shows the token of its pod."""

from jupyter_gq.api.call import NO_CONTENT, Call, Reply
from jupyter_gq.api.errors import refusal
from jupyter_gq.client.models import Heartbeat, OutputAck, OutputReport


def append_outputs(call: Call) -> Reply:
    """Store pieces of output; answer up to which number all pieces are stored."""
    _require_first_task(call)
    events = call.model(OutputReport).events
    return Reply(body=OutputAck(last_seq=call.services.jobs.append_outputs(call.path["job"], events)))


def record_heartbeat(call: Call) -> Reply:
    """Record that the runner of a job is alive, and answer without content; refuse every task but the first."""
    _require_first_task(call)
    call.services.jobs.record_heartbeat(call.path["job"], call.model(Heartbeat))
    return NO_CONTENT


def exchange_token(call: Call) -> Reply:
    """Answer with the token of the task that this pod runs."""
    return Reply(body=call.services.pods.exchange_token(call.path["job"], call.pod))


def read_bundle(call: Call) -> Reply:
    """Answer with what a pod needs to run the job."""
    return Reply(body=call.services.pods.read_bundle(call.path["job"], call.task))


async def check_devices(call: Call) -> Reply:
    """Answer with the device visibility check of the requester's task."""
    wait = float(call.integer("wait"))
    return Reply(body=await call.services.pods.check_devices(call.path["job"], call.task, wait))


def store_log(call: Call) -> Reply:
    """Store the end of a task's log."""
    call.services.pods.store_log(call.path["job"], call.task, call.plain_text)
    return NO_CONTENT


def _require_first_task(call: Call) -> None:
    if call.task != 0:
        message = f"Task 0 speaks for the job; this is the token of task {call.task}, whose output goes into its log."
        raise refusal(403, "not_the_first_task", message)
