"""Orders to the nodes' agents to suspend shares of pods and to bring them back, and what the agents tell of that.

Rules
-----
1. Leave alone. Without a wish of the controller, an order says that a share stays as it is. So a service that has just
   started changes nothing.
2. One attempt. A wish to suspend has an id, and ends when the agent reports that it has begun it. A step of the
   controller that does not repeat the wish withdraws it, because the notebook is used again. If no agent begins it
   within `LIFETIME` seconds, it has failed, and no later answer has it. Agents count those seconds from their own
   report, so they cannot tell that a wish was told late, as while the API server is away and no step is made.
3. Until it is back. A wish to resume ends when the agent reports that the share is in use.
4. Unknown is None. A share has no phase while its agent is silent.

See docs/decisions/0200-order-suspensions-of-agents-by-level.md.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal
from uuid import uuid4

from jupyter_gq.backends.kubernetes.clocks import Clocks
from jupyter_gq.client.agents import AgentReport, AgentSuspension, ShareOrder
from jupyter_gq.devices.suspension.share_state import SharePhase, ShareState
from jupyter_gq.domain.amount import Instant, MiB, Seconds

from .agents import Agents

#: Seconds within which an agent must begin a suspension.
LIFETIME = 15.0
_NOT_BEGUN = "The agent of the node {node} did not begin to suspend the share within {seconds:.0f} seconds."


@dataclass(kw_only=True, slots=True)
class _Share:
    """The share of one pod, with the wish of the controller and what its agent told last."""

    node: str
    device: str
    #: The last phase that is known, from a report or from the record of the notebook.
    known: SharePhase
    want: Literal["suspended", "in_use"] | None = None
    attempt: str = ""
    ordered_at: float = 0.0
    #: Whether the wish to suspend was told or repeated since the last step began.
    is_repeated: bool = False
    told: AgentSuspension | None = None
    #: Whether no agent began the last attempt in time, so that no report tells its failure.
    has_lapsed: bool = False
    #: The last failure, and when this service learnt of it.
    failure: str = ""
    failed_at: Instant | None = None


class ShareOrders:
    """The shares of pods that may be suspended, by the uid of the pod."""

    def __init__(self, *, agents: Agents, clocks: Clocks) -> None:
        self._agents, self._clocks = agents, clocks
        #: Returns the GPU memory in MiB that a node may have suspended; None = what fits.
        self.limit: Callable[[], MiB | None] = lambda: None
        self._shares: dict[str, _Share] = {}

    def add(self, uid: str, node: str, device: str, known: SharePhase) -> None:
        """Begin to manage the share of a pod; `known` is the phase by its record. Do nothing if it is managed."""
        if uid not in self._shares:
            self._shares[uid] = _Share(node=node, device=device, known=known)

    def begin_step(self, uids: frozenset[str]) -> None:
        """Begin a step of the controller: withdraw what the last step did not repeat, and forget all shares but these.

        The pods of the others have ended.
        """
        for uid in self._shares.keys() - uids:
            del self._shares[uid]
        for share in self._shares.values():
            if share.want == "suspended" and not share.is_repeated:
                share.want = None
            share.is_repeated = False

    def suspend(self, uid: str) -> None:
        """Order a new attempt to suspend a share that is in use; do nothing in another phase or during an attempt."""
        share = self._shares.get(uid)
        if share is None or share.told is None or share.told.phase != SharePhase.IN_USE:
            return
        share.is_repeated = True
        if share.want != "suspended":
            share.want, share.attempt, share.ordered_at = "suspended", uuid4().hex, self._clocks.elapsed()
            share.has_lapsed = False

    def resume(self, uid: str) -> None:
        """Order that a share comes back, or that a suspension is undone; do nothing for a share that is in use."""
        share = self._shares.get(uid)
        if share is None:
            return
        is_in_use = share.told is not None and share.told.phase == SharePhase.IN_USE
        share.want = None if is_in_use else "in_use"

    def orders(self, node: str) -> list[ShareOrder]:
        """Return the orders for the agent of this node, by uid, without those that are too old to be begun."""
        mine = [(uid, share) for uid, share in sorted(self._shares.items()) if share.node == node]
        for _, share in mine:
            self._withdraw_if_late(share)
        return [
            ShareOrder(
                pod_uid=uid,
                device=share.device,
                known=share.known.value,
                want=share.want,
                attempt=share.attempt,
                valid_for=LIFETIME,
            )
            for uid, share in mine
        ]

    def note_report(self, report: AgentReport) -> None:
        """Record what an agent tells of the shares of the pods on its own node."""
        for each in report.shares:
            share = self._shares.get(each.pod_uid)
            if share is not None:
                self._note(share, each.suspension)

    def state(self, uid: str) -> ShareState | None:
        """Return the present state of a share; None if it is unknown, or if its agent is silent."""
        share = self._shares.get(uid)
        if share is None or share.told is None or not self._agents.is_reporting(share.node):
            return None
        self._withdraw_if_late(share)
        told = share.told
        return ShareState(
            phase=SharePhase(told.phase),
            failure=share.failure,
            failed_at=share.failed_at,
            memory=None if told.memory_mib is None else MiB(told.memory_mib),
            seconds=None if told.seconds is None else Seconds(told.seconds),
            ended=told.ended,
        )

    def refusal(self, uid: str) -> str:
        """Return why the agent says that this share can never be suspended; "" if it does not say so."""
        told = self._told(uid)
        return "" if told is None else told.refusal

    def trouble(self, uid: str) -> str:
        """Return what the agent says is wrong with a share, for its owner; "" if nothing is."""
        told = self._told(uid)
        return "" if told is None else told.trouble

    def is_away(self, uid: str) -> bool:
        """Return whether the last phase that is known of a share is SUSPENDED or RESUMING."""
        share = self._shares.get(uid)
        return share is not None and share.known in {SharePhase.SUSPENDED, SharePhase.RESUMING}

    def _told(self, uid: str) -> AgentSuspension | None:
        share = self._shares.get(uid)
        return None if share is None else share.told

    def _note(self, share: _Share, told: AgentSuspension | None) -> None:
        before, share.told = share.told, told
        if told is None:
            return
        share.known = SharePhase(told.phase)
        share.has_lapsed = share.has_lapsed and told.attempt != share.attempt
        if not (told.failure or share.has_lapsed):
            share.failure, share.failed_at = "", None
        elif told.failure and (before is None or (before.failure, before.attempt) != (told.failure, told.attempt)):
            share.failure, share.failed_at = told.failure, Instant(self._clocks.now())
        is_begun = share.want == "suspended" and told.attempt == share.attempt
        is_back = share.want == "in_use" and share.known is SharePhase.IN_USE
        if is_begun or is_back:
            share.want = None

    def _withdraw_if_late(self, share: _Share) -> None:
        """Withdraw a wish to suspend that no agent has begun in time, which is a failure."""
        if share.want == "suspended" and self._clocks.elapsed() - share.ordered_at > LIFETIME:
            share.want, share.has_lapsed = None, True
            share.failure = _NOT_BEGUN.format(node=share.node, seconds=LIFETIME)
            share.failed_at = Instant(self._clocks.now())
