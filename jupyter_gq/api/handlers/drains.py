"""Routes that take nodes and devices out of service, and put them back."""

from jupyter_gq.api.call import Call, Reply
from jupyter_gq.client.models import DrainRequest


def list_drains(call: Call) -> Reply:
    """Answer with all drains."""
    return Reply(body=call.services.drains.list_drains())


async def begin(call: Call) -> Reply:
    """Drain a node or a device."""
    drain = await call.services.drains.begin(call.caller, call.model(DrainRequest).name)
    return Reply(body=drain, status=201)


async def end(call: Call) -> Reply:
    """Put a node or a device back into service."""
    return Reply(body=await call.services.drains.end(call.caller, call.path["drain"]))
