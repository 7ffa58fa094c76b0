"""Routes about the service itself, its queues and its devices."""

from jupyter_gq.api.call import Call, Reply
from jupyter_gq.api.errors import not_ready
from jupyter_gq.api.metrics import exposition
from jupyter_gq.client.models import Readiness


def health(call: Call) -> Reply:
    """Answer whoever asks, also a load balancer."""
    return Reply(body=call.controller.health())


def ready(call: Call) -> Reply:
    """Tell a load balancer whether requests may come here."""
    why = call.controller.unready()
    if why:
        raise not_ready(why)
    return Reply(body=Readiness())


def metrics(call: Call) -> Reply:
    """Figures for Prometheus."""
    return Reply(text=exposition(call.controller), media="text/plain; version=0.0.4; charset=utf-8")


def me(call: Call) -> Reply:
    """Quota, choices and queues of the caller."""
    return Reply(body=call.controller.me(call.caller))


def queues(call: Call) -> Reply:
    """The queues that the caller may see."""
    return Reply(body=call.controller.queues(call.caller))


def devices(call: Call) -> Reply:
    """All devices."""
    return Reply(body=call.controller.devices(call.caller))


def state(call: Call) -> Reply:
    """The scheduler's input and its decision."""
    return Reply(body=call.controller.state())
