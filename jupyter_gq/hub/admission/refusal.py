"""Refusing a spawn without counting it as a failure of the Hub.

Rules
-----
1. The Hub exits after `Spawner.consecutive_failure_limit` failed spawns in a row. A refusal is an answer, not a
   failure, so it must never move that counter.
2. Hub 6 knows `SpawnException` and does not count it. Hub 5 counts every failed spawn, so one is taken off the
   counter before (the Hub's docs/howto/upgrading-v6.md).
3. `reason` becomes a label of a metric: one of `REASONS`, never text of a user.
4. The sentence reaches the user on every path: JSON of the REST API, options page, page of the failed start.
"""

from html import escape
from typing import Any

from tornado.web import HTTPError

try:
    from jupyterhub.spawner import SpawnException
except ImportError:  # Hub 5
    SpawnException = None

#: Why a start can be refused, as label values.
REASONS = (
    "gpu_quota",
    "gpu_queue_timeout",
    "gpu_line_full",  # too many servers wait already
    "gpu_bad_request",
    "gpu_no_service",
    "gpu_no_place",  # admitted, but the cluster had no place for the pod
    "cluster_away",  # the cluster's API does not answer
    "cluster_refused",  # it answered, and said no to the pod
)


def refuse(spawner: Any, message: str, reason: str, status: int = 403) -> HTTPError:
    """Return the exception to raise; `message` is one plain sentence for the user."""
    if reason not in REASONS:
        raise ValueError(f"{reason!r} is not one of the reasons {', '.join(REASONS)}")
    error = _hub_5(spawner, message, status) if SpawnException is None else _hub_6(message, reason, status)
    vars(error).update(jupyterhub_message=message, jupyterhub_html_message=escape(message))
    return error


def _hub_6(message: str, reason: str, status: int) -> HTTPError:
    error: HTTPError = SpawnException(message, reason=reason, message_html=escape(message), status_code=status)
    return error


def _hub_5(spawner: Any, message: str, status: int) -> HTTPError:
    if spawner.handler is not None:
        settings = spawner.handler.settings
        settings["failure_count"] = settings.get("failure_count", 0) - 1
    return HTTPError(status, message)
