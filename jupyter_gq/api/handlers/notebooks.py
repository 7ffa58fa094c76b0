"""Routes of notebook servers: the ticket for a share, what the kernels do, and the answer to an idle warning."""

from jupyter_gq.api.call import NO_CONTENT, Call, Reply

from .jobs import asked_owner

#: How the default server, whose name is empty, is written in a path.
DEFAULT_SERVER = "-"


def open_ticket(call: Call) -> Reply:
    """A new ticket: 201. The one that this server already has: 200."""
    ticket, created = call.controller.open_ticket(call.caller, call.body)
    return Reply(body=ticket, status=201 if created else 200, headers={"Location": f"tickets/{ticket.id}"})


def ticket(call: Call) -> Reply:
    """A ticket as it is now."""
    return Reply(body=call.controller.ticket(call.caller, call.path["ticket"]))


def close_ticket(call: Call) -> Reply:
    """Give it back."""
    call.controller.close_ticket(call.caller, call.path["ticket"])
    return NO_CONTENT


def attach(call: Call) -> Reply:
    """Which process holds the share."""
    call.controller.attach(call.caller, call.path["ticket"], call.body)
    return NO_CONTENT


async def devices_seen(call: Call) -> Reply:
    """What is known of the devices of the server that holds it."""
    wait = float(call.query["wait"])
    return Reply(body=await call.controller.server_devices(call.caller, call.path["ticket"], wait))


def listing(call: Call) -> Reply:
    """Notebooks that are alive or wait."""
    return Reply(body=call.controller.notebooks(call.caller, asked_owner(call)))


def report_activity(call: Call) -> Reply:
    """What the kernels of a server do."""
    call.controller.report_activity(call.caller, _server(call), call.body)
    return NO_CONTENT


def keep(call: Call) -> Reply:
    """The owner still needs it."""
    return Reply(body=call.controller.keep(call.caller, _server(call)))


def _server(call: Call) -> str:
    name = call.path["server"]
    return "" if name == DEFAULT_SERVER else name
