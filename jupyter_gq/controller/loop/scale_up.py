"""A cluster that grows: what is wanted of it is passed on after each decision, and those who wait for it are told."""

from dataclasses import replace

from jupyter_gq.backends.capabilities import NodeRequest
from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.decision import Decision, Pending
from jupyter_gq.scheduling.scale.wanted_nodes import wanted_nodes

#: After that a node that was asked for is spoken of as one that may never come.
OVERDUE = Seconds(600)


class Growth:
    """Between decisions and the backends whose clusters grow."""

    def __init__(self, context: Context) -> None:
        self._context = context

    def follow(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """Ask for the nodes that this decision leaves wanted; the decision, with what became of that."""
        return self._told(snapshot, decision, ask=True)

    def explained(self, snapshot: Snapshot, decision: Decision) -> Decision:
        """The same, and nothing is asked for."""
        return self._told(snapshot, decision, ask=False)

    def _told(self, snapshot: Snapshot, decision: Decision, *, ask: bool) -> Decision:
        supplies = [backend.capabilities.node_supply for backend in self._context.backends]
        wanted = wanted_nodes(snapshot, decision)
        sentences: dict[str, str] = {}
        for supply in supplies:
            pools = [new.pool for new in supply.new_nodes()]
            if ask:
                supply.request_nodes({pool: count for pool, count in wanted.count.items() if pool in pools})
            for pool in pools:
                sentences[pool] = sentence(pool, supply.node_request(pool), self._context.clock.now())
        if not wanted.served:
            return decision
        pending = [_with(entry, sentences.get(wanted.served.get(entry.workload, ""), "")) for entry in decision.pending]
        return replace(decision, pending=tuple(pending))


def sentence(pool: str, asked: NodeRequest | None, now: Instant) -> str:
    """What became of asking for a new node of that pool, for those who wait for it."""
    if asked is None:
        return f"A new node of {pool} is asked for next."
    if asked.arriving:
        return f"A new node of {pool}, {asked.arriving}, has come and is being made ready."
    if asked.since is None:
        return f"A new node of {pool} cannot be asked for: {_end(asked.sentence)}"
    waited = max(0.0, now - asked.since)
    if waited < OVERDUE:
        return f"A new node of {pool} was asked for {_ago(waited)}."
    says = f" The cluster says: {_end(asked.sentence)}" if asked.sentence else ""
    return (
        f"A new node of {pool} was asked for {_ago(waited)} and has not come: the cluster's autoscaler may be at its "
        f"maximum, or there is no such machine to be had.{says}"
    )


def _with(entry: Pending, told: str) -> Pending:
    if not told:
        return entry
    return replace(entry, why=replace(entry.why, sentence=f"{entry.why.sentence} {told}"))


def _ago(seconds: float) -> str:
    """In whole minutes: every listener hears of a sentence that changes."""
    if seconds < 60:
        return "a moment ago"
    minutes = int(seconds // 60)
    return f"{minutes} min ago" if minutes < 120 else f"{minutes // 60} h ago"


def _end(text: str) -> str:
    return f"{text.rstrip('.')}."
