"""Routes that take nodes and devices out of service, and put them back."""

from jupyter_gq.api.call import Call, Reply
from jupyter_gq.client.models import DrainRequest


def list_drains(call: Call) -> Reply:
    """Answer with all drains of nodes and devices, the oldest first; for admins."""
    return Reply(body=call.services.drains.list_drains())


async def begin(call: Call) -> Reply:
    """Drain the node or device that the body names, and answer with the drain (201); for admins.

    Raises `NotFound` for an unknown name, `UserError` for a single device of a cluster, and `Conflict` if it is drained
    already.
    """
    drain = await call.services.drains.begin(call.caller, call.model(DrainRequest).name)
    return Reply(body=drain, status=201)


async def end(call: Call) -> Reply:
    """Put the node or device in the path back into service, and answer with its ended drain; for admins.

    Raises `NotFound` for an unknown name, and `Conflict` if it is not drained or the node may not be uncordoned.
    """
    return Reply(body=await call.services.drains.end(call.caller, call.path["drain"]))
