"""Routes of a job's runner, which shows the job's own token."""

from jupyter_gq.api.call import NO_CONTENT, Call, Reply
from jupyter_gq.client.models import OutputAck


def report_outputs(call: Call) -> Reply:
    """Store pieces of output; say up to which number all are stored."""
    return Reply(body=OutputAck(last_seq=call.controller.append_outputs(call.path["job"], call.body.events)))


def heartbeat(call: Call) -> Reply:
    """The run is alive."""
    call.controller.heartbeat(call.path["job"], call.body)
    return NO_CONTENT
