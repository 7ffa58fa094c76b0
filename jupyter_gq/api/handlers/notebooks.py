"""Routes of notebook servers: the ticket for a share, the activity of kernels, and the answer to an idle warning."""

from jupyter_gq.api.call import NO_CONTENT, Call, Reply
from jupyter_gq.client.models import ActivityReport, ProcessReport, TicketRequest

from .jobs import requested_owner

#: The default server in a path; its real name is empty.
DEFAULT_SERVER = "-"


def open_ticket(call: Call) -> Reply:
    """Open a ticket for the caller's server: 201 for a new one, 200 for the one that the server already has."""
    ticket, created = call.services.tickets.open(call.caller, call.model(TicketRequest))
    return Reply(body=ticket, status=201 if created else 200, headers={"Location": f"tickets/{ticket.id}"})


def show_ticket(call: Call) -> Reply:
    """Answer with the present state of a ticket, to its owner or an admin; this poll keeps the ticket from lapsing."""
    return Reply(body=call.services.tickets.show(call.caller, call.path["ticket"]))


def close_ticket(call: Call) -> Reply:
    """End a ticket, as its owner or an admin; answer without content (204), also if the ticket has ended already.

    The share is free once the server's process is gone; a server that does not end within the grace is stopped.
    """
    call.services.tickets.close(call.caller, call.path["ticket"])
    return NO_CONTENT


def attach(call: Call) -> Reply:
    """Record the process that holds the share of a ticket, as its owner or an admin; answer without content (204)."""
    call.services.tickets.attach(call.caller, call.path["ticket"], call.model(ProcessReport))
    return NO_CONTENT


async def check_devices(call: Call) -> Reply:
    """Answer with the device check of the server that holds a ticket, to its owner or an admin.

    An open check is awaited for the seconds in the query `wait`.
    """
    wait = float(call.integer("wait"))
    return Reply(body=await call.services.tickets.check_devices(call.caller, call.path["ticket"], wait))


def list_notebooks(call: Call) -> Reply:
    """Answer with a page of the caller's notebooks that run or wait; admins may ask for those of others or of all."""
    notebooks = call.services.tickets.list_notebooks(
        call.caller, requested_owner(call), limit=call.integer("limit"), before=call.optional_text("before")
    )
    return Reply(body=notebooks)


def record_activity(call: Call) -> Reply:
    """Record the activity of the kernels of the caller's own server; answer without content (204)."""
    call.services.tickets.record_activity(call.caller, _server(call), call.model(ActivityReport))
    return NO_CONTENT


def keep(call: Call) -> Reply:
    """Postpone the eviction of the caller's own idle server by one step of "Keep it", and answer with the notebook.

    Raises `Conflict` if the server has no idle warning, or if "Keep it" has reached its bound.
    """
    return Reply(body=call.services.tickets.keep(call.caller, _server(call)))


def _server(call: Call) -> str:
    """Return the name of the server in the path; "" for "-", which stands for the default server."""
    name = call.path["server"]
    return "" if name == DEFAULT_SERVER else name
