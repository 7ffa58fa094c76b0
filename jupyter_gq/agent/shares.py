"""The suspension of the shares of pods on this node, as the orders of the service say.

Rules
-----
- By level: each answer of the service says what is wanted of each share. The same orders again change nothing.
- Once: a suspension is begun once for each attempt that the service orders, and only while its answer is new. A
  resume is repeated until the share is back, because a cell waits for it.
- Leave alone: a share that no order names stays as it is, since a service that has just started names none yet. The
  share is forgotten once the node shows no process of its pod any more.
- Facts: after a restart of the agent, the journal and the driver say what is suspended. What leaves no trace there, a
  share without GPU state, is taken as the service knows it.
- Alone: while another agent acts by the same journal, nothing is suspended, brought back or forgotten.

See docs/decisions/0200-order-suspensions-of-agents-by-level.md.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Final

from jupyter_gq.client.agents import AgentOrders, AgentReport, AgentSuspension, ShareOrder
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.suspension.run_shares import UNFINISHED, RunShares
from jupyter_gq.devices.suspension.share_state import SharePhase
from jupyter_gq.devices.suspension.suspender import SuspensionError, SuspensionProblem, SuspensionTarget
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.states import State

from .processes import Processes

log = logging.getLogger(__name__)

OFF: Final = (
    "This agent may not suspend the GPU state of programs. To change that, set agent.suspend: true in the chart, or "
    "c.NodeAgent.suspend = True."
)
#: Key of `AgentReport.missing`: the end of what an earlier agent was about.
RECOVERY: Final = "recovery"
_UNFINISHED: Final = (
    "The GPU driver has not brought the GPU memory of {count} pods to rest that an earlier agent was moving, so their "
    "programs may stand still. Another attempt follows within a minute; the agent's log has what the driver says."
)
_NO_PROCESS: Final = "The agent sees no process of the pod, so it is not known what uses the GPU."
#: Run number of each share: a pod has one run.
_RUN: Final = 0
#: The state of a workload whose share is in this phase.
_STATES: Final = {SharePhase.SUSPENDED: State.SUSPENDED, SharePhase.RESUMING: State.RESUMING}


@dataclass(kw_only=True)
class PodShares:
    """The shares of the pods that the service has named since the start of the agent."""

    shares: RunShares
    processes: Processes
    #: Returns why the agent can suspend nothing, by the ids of the node's devices; "" = it can. May block.
    explain_missing: Callable[[Sequence[str]], str]
    #: Returns a sentence while another agent acts by the same journal, or may do so, so that this one must not; "" =
    #: none does. Never blocks.
    find_other_agent: Callable[[], str] = lambda: ""
    #: GPU memory in MiB that all suspended shares of the node may have; None = what fits.
    most_suspended: MiB | None = field(init=False, default=None)
    #: The last order for each pod.
    _orders: dict[str, ShareOrder] = field(init=False, default_factory=dict)
    #: The last attempt that was begun for each pod.
    _attempts: dict[str, str] = field(init=False, default_factory=dict)

    def recover(self) -> None:
        """Begin to finish or undo what an earlier agent left, and begin again when an attempt has failed and is due.

        No share has a phase before that is done. Does nothing while another agent acts by the same journal.
        """
        if not self.find_other_agent():
            self.shares.recover()

    def follow(self, orders: AgentOrders, age: float) -> None:
        """Begin what the orders want of each share; the answer that has them is `age` seconds old at most.

        Does nothing while another agent acts by the same journal: the next answer has the orders again.
        """
        if self.find_other_agent():
            return
        self.most_suspended = None if orders.suspended_memory_mib is None else MiB(orders.suspended_memory_mib)
        for order in orders.shares:
            if order.pod_uid not in self._orders:
                self._add(order)
            self._orders[order.pod_uid] = order
            if order.want == "in_use":
                self.shares.resume(order.pod_uid, _RUN)
            elif order.want == "suspended" and age <= order.valid_for:
                self._suspend(order)
        self._forget_ended({order.pod_uid for order in orders.shares})

    @property
    def trouble(self) -> str:
        """The trouble with the journal of suspensions, as a sentence for administrators; "" if there is none."""
        return self.shares.trouble

    @property
    def are_moving(self) -> bool:
        """Whether a share is on its way, or waits for room to come back, so that somebody waits for the next report."""
        return any(self._is_moving(order) for order in self._orders.values())

    def add_suspensions(self, report: AgentReport) -> AgentReport:
        """Return a copy of the report in which each share has its suspension, None for one that no order has named.

        What is left to recover is told of each share, and counted among the missing abilities.
        """
        left = self.shares.unfinished
        shares = [
            share.model_copy(
                update={
                    "suspension": self._describe(share.pod_uid),
                    "trouble": UNFINISHED if share.pod_uid in left else "",
                }
            )
            for share in report.shares
        ]
        missing = {**report.missing, RECOVERY: _UNFINISHED.format(count=len(left))} if left else report.missing
        return report.model_copy(update={"shares": shares, "missing": missing})

    def _add(self, order: ShareOrder) -> None:
        uid = order.pod_uid
        target = SuspensionTarget(name=uid, devices=(order.device,), find_processes=lambda: self._find_processes(uid))
        state = _STATES.get(SharePhase(order.known), State.RUNNING)
        self.shares.add_target((uid, _RUN), target, state, lambda: self._find_programs(uid))

    def _suspend(self, order: ShareOrder) -> None:
        """Begin an attempt, unless it was begun before or the share is on its way."""
        state = self.shares.state(order.pod_uid, _RUN)
        if state is None or self._attempts.get(order.pod_uid) == order.attempt or state.phase is SharePhase.RESUMING:
            return
        self._attempts[order.pod_uid] = order.attempt
        self.shares.suspend(order.pod_uid, _RUN)

    def _forget_ended(self, ordered: set[str]) -> None:
        """Forget the shares that no order names and whose pods have no process any more."""
        left = [uid for uid in self._orders if uid not in ordered]
        try:
            running = self.processes.list_by_pod(left)
        except OSError as error:
            log.warning("no share is forgotten now, since the processes of the node cannot be listed: %s", error)
            return
        for uid in left:
            if uid not in running and not self.shares.has_suspended_programs(uid, _RUN):
                self.shares.remove(uid, _RUN)
                del self._orders[uid]
                self._attempts.pop(uid, None)

    def _is_moving(self, order: ShareOrder) -> bool:
        state = self.shares.state(order.pod_uid, _RUN)
        if state is None or state.phase is SharePhase.IN_USE:
            return False
        return state.phase is not SharePhase.SUSPENDED or order.want == "in_use"

    def _describe(self, uid: str) -> AgentSuspension | None:
        state = self.shares.state(uid, _RUN)
        if state is None:
            return None
        return AgentSuspension(
            phase=state.phase.value,
            attempt=self._attempts.get(uid, ""),
            failure=state.failure,
            memory_mib=state.memory,
            seconds=state.seconds,
            ended=state.ended,
            refusal=self.shares.describe_refusal(uid, _RUN),
            trouble=self.shares.describe_trouble(uid, _RUN),
        )

    def _find_processes(self, uid: str) -> tuple[ProcessId, ...]:
        """Return the processes of a pod; raise `SuspensionError` if none is visible, since what they use is unknown."""
        found = self._identify(uid, self.processes.list_pod(uid))
        if not found:
            raise SuspensionError(SuspensionProblem.UNKNOWN, _NO_PROCESS)
        return found

    def _find_programs(self, uid: str) -> tuple[ProcessId, ...]:
        """Return the processes of a pod without its main processes, such as the notebook server."""
        main = self.processes.find_main_processes(uid)
        return self._identify(uid, [pid for pid in self.processes.list_pod(uid) if pid not in main])

    def _identify(self, uid: str, pids: Sequence[int]) -> tuple[ProcessId, ...]:
        """Return the identities of those processes that are in the pod.

        That is asked last, because an id may be used again after the processes were listed.
        """
        found = (self.processes.identify(pid) for pid in pids)
        return tuple(each for each in found if each is not None and self.processes.is_in_pod(each.pid, uid))
