"""Routes of a job's runner, which shows the job's own token, or in a pod first that of its pod."""

from jupyter_gq.api.call import NO_CONTENT, Call, Reply
from jupyter_gq.api.errors import refusal
from jupyter_gq.client.models import OutputAck


def report_outputs(call: Call) -> Reply:
    """Store pieces of output; say up to which number all are stored."""
    _speaks_for_the_job(call)
    return Reply(body=OutputAck(last_seq=call.controller.append_outputs(call.path["job"], call.body.events)))


def heartbeat(call: Call) -> Reply:
    """The run is alive."""
    _speaks_for_the_job(call)
    call.controller.heartbeat(call.path["job"], call.body)
    return NO_CONTENT


def exchange_token(call: Call) -> Reply:
    """From now on this pod is known by the token of its task."""
    return Reply(body=call.controller.exchange_token(call.path["job"], call.pod))


def bundle(call: Call) -> Reply:
    """What a pod needs to run."""
    return Reply(body=call.controller.bundle(call.path["job"], call.task))


async def devices_seen(call: Call) -> Reply:
    """What is known of the devices of its task."""
    wait = float(call.query["wait"])
    return Reply(body=await call.controller.devices_seen(call.path["job"], call.task, wait))


def put_log(call: Call) -> Reply:
    """Keep the end of a task's log."""
    call.controller.put_log(call.path["job"], call.task, call.body)
    return NO_CONTENT


def _speaks_for_the_job(call: Call) -> None:
    if call.task != 0:
        message = f"Task 0 speaks for the job; this is the token of task {call.task}, whose output goes into its log."
        raise refusal(403, "not_the_first_task", message)
