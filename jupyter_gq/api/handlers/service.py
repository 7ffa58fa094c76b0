"""Routes about the service itself, its queues and its devices."""

from jupyter_gq.api.call import Call, Reply
from jupyter_gq.api.errors import not_ready
from jupyter_gq.api.metrics import exposition
from jupyter_gq.client.models import Readiness


def check_health(call: Call) -> Reply:
    """Answer admins with the health of the service, and everybody else with the codes of it."""
    health, caller = call.status.check_health(), call.requester.caller
    return Reply(body=health if caller is not None and caller.admin else health.without_reasons())


def check_readiness(call: Call) -> Reply:
    """Tell a load balancer whether requests may come to this service."""
    why = call.status.explain_unready()
    if why:
        raise not_ready(why)
    return Reply(body=Readiness())


def read_metrics(call: Call) -> Reply:
    """Answer with figures for Prometheus."""
    text = exposition(call.status, call.leading)
    return Reply(text=text, media="text/plain; version=0.0.4; charset=utf-8")


def describe_user(call: Call) -> Reply:
    """Answer with quota, choices and queues of the caller."""
    return Reply(body=call.services.overview.describe_user(call.caller))


def list_queues(call: Call) -> Reply:
    """Answer with the queues that the caller may see."""
    return Reply(body=call.services.overview.list_queues(call.caller))


def list_devices(call: Call) -> Reply:
    """Answer with all devices."""
    return Reply(body=call.services.overview.list_devices(call.caller))


def read_state(call: Call) -> Reply:
    """Answer with the scheduler's whole input and its decision."""
    return Reply(body=call.services.overview.read_state())
