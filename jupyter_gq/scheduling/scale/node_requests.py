"""Sentences about requests for new nodes, for the owners of the workloads that wait for them."""

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.cluster import NodeRequest

#: A node that was asked for longer ago is described as one that may never come.
OVERDUE = Seconds(600)


def describe_request(pool: str, request: NodeRequest | None, now: Instant) -> str:
    """Return one sentence about the new nodes of that pool, such as "A new node of train was asked for 2 min ago.".

    `request` is what became of the request for a node; None = nothing was asked for yet.
    """
    if request is None:
        return f"The cluster is asked for a new node of {pool}."
    if request.arriving:
        return f"A new node of {pool}, {request.arriving}, has come and is being made ready."
    if request.since is None:
        return f"A new node of {pool} cannot be asked for: {_with_full_stop(request.sentence)}"
    waited = max(0.0, now - request.since)
    if waited < OVERDUE:
        return f"A new node of {pool} was asked for {_ago(waited)}."
    reason = f" The cluster says: {_with_full_stop(request.sentence)}" if request.sentence else ""
    return (
        f"A new node of {pool} was asked for {_ago(waited)} and has not come: the cluster's autoscaler may be at its "
        f"maximum, or there is no such machine to be had.{reason}"
    )


def _ago(seconds: float) -> str:
    """Return "a moment ago" below a minute, and else a phrase such as "5 min ago", in hours from two hours on.

    Amounts are rounded down. Finer steps would change the sentence often, and each change is sent to every listener.
    """
    if seconds < 60:
        return "a moment ago"
    minutes = int(seconds // 60)
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"


def _with_full_stop(text: str) -> str:
    return f"{text.rstrip('.')}."
