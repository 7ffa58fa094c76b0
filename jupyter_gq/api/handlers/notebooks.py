"""Routes of notebook servers: the ticket for a share, the activity of kernels, and the answer to an idle warning."""

from jupyter_gq.api.call import NO_CONTENT, Call, Reply
from jupyter_gq.client.models import ActivityReport, ProcessReport, TicketRequest

from .jobs import requested_owner

#: The default server in a path; its real name is empty.
DEFAULT_SERVER = "-"


def open_ticket(call: Call) -> Reply:
    """Open a ticket: 201 for a new one, 200 for the one that this server already has."""
    ticket, created = call.services.tickets.open(call.caller, call.model(TicketRequest))
    return Reply(body=ticket, status=201 if created else 200, headers={"Location": f"tickets/{ticket.id}"})


def show_ticket(call: Call) -> Reply:
    """Answer with a ticket as it is now."""
    return Reply(body=call.services.tickets.show(call.caller, call.path["ticket"]))


def close_ticket(call: Call) -> Reply:
    """Give a ticket back."""
    call.services.tickets.close(call.caller, call.path["ticket"])
    return NO_CONTENT


def attach(call: Call) -> Reply:
    """Record the process that holds the share."""
    call.services.tickets.attach(call.caller, call.path["ticket"], call.model(ProcessReport))
    return NO_CONTENT


async def check_devices(call: Call) -> Reply:
    """Answer with the device visibility check of the server that holds a ticket."""
    wait = float(call.integer("wait"))
    return Reply(body=await call.services.tickets.check_devices(call.caller, call.path["ticket"], wait))


def list_notebooks(call: Call) -> Reply:
    """Answer with the notebooks that are alive or wait."""
    return Reply(body=call.services.tickets.list_notebooks(call.caller, requested_owner(call)))


def record_activity(call: Call) -> Reply:
    """Record the activity of a server's kernels."""
    call.services.tickets.record_activity(call.caller, _server(call), call.model(ActivityReport))
    return NO_CONTENT


def keep(call: Call) -> Reply:
    """Keep the share of an idle server for a while, as its owner asks."""
    return Reply(body=call.services.tickets.keep(call.caller, _server(call)))


def _server(call: Call) -> str:
    name = call.path["server"]
    return "" if name == DEFAULT_SERVER else name
