"""Routes about the service itself, its queues and its devices."""

from jupyter_gq.api.call import Call, Reply
from jupyter_gq.api.errors import not_ready
from jupyter_gq.api.metrics import exposition
from jupyter_gq.client.models import Readiness


def check_health(call: Call) -> Reply:
    """Answer with the fields `status` and `code` of the service's health, and for admins also with the reasons.

    The HTTP status does not depend on the health.
    """
    health, caller = call.status.check_health(), call.requester.caller
    return Reply(body=health if caller is not None and caller.admin else health.without_reasons())


def check_readiness(call: Call) -> Reply:
    """Answer everybody, such as a load balancer, that this service is ready; refuse with 503 and the reason if not."""
    why = call.status.explain_unready()
    if why:
        raise not_ready(why)
    return Reply(body=Readiness())


def read_metrics(call: Call) -> Reply:
    """Answer admins and services of the Hub with the metrics in the text format of Prometheus.

    A service that waits for its place answers everybody, and only with the metric that says so.
    """
    text = exposition(call.status, call.leading, call.count_connections())
    return Reply(text=text, media="text/plain; version=0.0.4; charset=utf-8")


def describe_user(call: Call) -> Reply:
    """Answer with the caller's quota, choices, queues and last eviction; for readers."""
    return Reply(body=call.services.overview.describe_user(call.caller))


def list_queues(call: Call) -> Reply:
    """Answer with the queues of which the caller is a member and the queues above them; admins get all queues."""
    return Reply(body=call.services.overview.list_queues(call.caller))


def list_devices(call: Call) -> Reply:
    """Answer with all devices; only admins see who holds them."""
    return Reply(body=call.services.overview.list_devices(call.caller))


def read_state(call: Call) -> Reply:
    """Answer with the scheduler's whole input and its decision as a state document; for admins."""
    return Reply(body=call.services.overview.read_state())
