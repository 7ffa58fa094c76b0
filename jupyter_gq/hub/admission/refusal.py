"""The refusal of a spawn, without counting it as a failure of the Hub.

Rules
-----
- Refusals do not count: the Hub exits after `Spawner.consecutive_failure_limit` failed spawns in a row. A refusal is an
  answer, not a failure, so it must never change that counter. Hub 6 has `SpawnException` and does not count it. Hub 5
  counts every failed spawn, so the counter is decreased before (the Hub's docs/howto/upgrading-v6.md).
- Fixed labels: `reason` becomes a label of a metric, so it is one of `REASONS` and never text of a user.
- The sentence reaches the user on every path: JSON of the REST API, options page, page of the failed start.
"""

from html import escape

from tornado.web import HTTPError

from jupyter_gq.hub.hub_parts import AnySpawner

try:
    from jupyterhub.spawner import SpawnException
except ImportError:  # Hub 5
    SpawnException = None

#: The reasons for which a start can be refused, as label values.
REASONS = (
    "gpu_quota",
    "gpu_queue_timeout",
    "gpu_line_full",  # too many servers wait already
    "gpu_bad_request",
    "gpu_no_service",
    "gpu_no_place",  # admitted, but the cluster had no place for the pod
    "cluster_away",  # the cluster's API does not answer
    "cluster_refused",  # the cluster's API refused the pod
    "gpu_unseen",  # a setting, a profile or a hook would hide a GPU of the pod from the service
)


def make_refusal(spawner: AnySpawner, message: str, reason: str, status: int = 403) -> HTTPError:
    """Return the exception that refuses this start; `message` is one plain sentence for the user.

    On Hub 5, if a request started the server, also decrease the Hub's count of failures: the Hub will count this start
    as one. Raises `ValueError` if `reason` is not one of `REASONS`.
    """
    if reason not in REASONS:
        raise ValueError(f"{reason!r} is not one of the reasons {', '.join(REASONS)}")
    error = _hub_5(spawner, message, status) if SpawnException is None else _hub_6(message, reason, status)
    vars(error).update(jupyterhub_message=message, jupyterhub_html_message=escape(message))
    return error


def _hub_6(message: str, reason: str, status: int) -> HTTPError:
    error: HTTPError = SpawnException(message, reason=reason, message_html=escape(message), status_code=status)
    return error


def _hub_5(spawner: AnySpawner, message: str, status: int) -> HTTPError:
    if spawner.handler is not None:
        settings = spawner.handler.settings
        settings["failure_count"] = settings.get("failure_count", 0) - 1
    return HTTPError(status, message)
