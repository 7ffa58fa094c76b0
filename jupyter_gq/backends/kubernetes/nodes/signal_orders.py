"""Orders to the nodes' agents to send a signal to one process, and what became of them.

Rules
-----
1. Short life. An order that no agent has carried out within `LIFETIME` seconds lapses. The agent drops an answer that
   took longer than that.
2. Still true. An order lapses if a report shows that its process holds less than before, or does not show it.
3. Own node. Only reports of the order's node say what became of the order.
4. Memory only. A new service gives no orders of an earlier one.

See docs/decisions/0161-let-agents-signal-one-process-by-order.md.
"""

import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal
from uuid import uuid4

from jupyter_gq.backends.capabilities import SignalResult
from jupyter_gq.client.agents import AgentCommand, AgentProcess, AgentReport
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.amount import MiB

#: Seconds for which an order counts.
LIFETIME = 15.0
#: The command for each signal.
_KINDS: Mapping[signal.Signals, Literal["interrupt", "terminate", "kill"]] = {
    signal.SIGINT: "interrupt",
    signal.SIGTERM: "terminate",
    signal.SIGKILL: "kill",
}
#: Seconds for which the result of an order is kept.
_KEPT_FOR = 600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Holder:
    """A process of a pod that holds memory of a device, as the agent of its node reported it."""

    node: str
    pod_uid: str
    #: The device's own id.
    device: str
    process: ProcessId
    memory: MiB


@dataclass(kw_only=True, slots=True)
class _Order:
    """An order, and what became of it."""

    holder: Holder
    command: AgentCommand
    at: float
    result: SignalResult = SignalResult.WAITING


class SignalOrders:
    """The orders that were given lately, by id."""

    def __init__(self, *, now: Callable[[], float]) -> None:
        self._now = now
        self._orders: dict[str, _Order] = {}

    def add(self, holder: Holder, number: signal.Signals) -> str:
        """Order the agent of a node to send this signal to a process; return the id of the order."""
        process = AgentProcess(pid=holder.process.pid, ticks=holder.process.ticks)
        command = AgentCommand(
            id=uuid4().hex, kind=_KINDS[number], pod_uid=holder.pod_uid, process=process, valid_for=LIFETIME
        )
        now = self._now()
        self._orders = {id: order for id, order in self._orders.items() if now - order.at < _KEPT_FOR}
        self._orders[command.id] = _Order(holder=holder, command=command, at=now)
        return command.id

    def commands(self, node: str) -> list[AgentCommand]:
        """Return the commands that wait for the agent of this node, the oldest one first."""
        waiting = (order for id, order in self._orders.items() if self.result(id) is SignalResult.WAITING)
        return [order.command for order in waiting if order.holder.node == node]

    def note_report(self, node: str, report: AgentReport) -> None:
        """Record what the agent of this node tells of its orders, and let those lapse that are no longer true."""
        for id, order in self._orders.items():
            if order.holder.node != node or order.result is not SignalResult.WAITING:
                continue
            if id in report.done:
                order.result = SignalResult.SENT
            elif id in report.failed:
                order.result = SignalResult.REFUSED
            elif _find_memory(report, order.holder) < order.holder.memory:
                order.result = SignalResult.LAPSED

    def result(self, id: str) -> SignalResult:
        """Return what became of an order; an unknown one has lapsed."""
        order = self._orders.get(id)
        if order is None:
            return SignalResult.LAPSED
        if order.result is SignalResult.WAITING and self._now() - order.at > LIFETIME:
            order.result = SignalResult.LAPSED
        return order.result


def find_holder(node: str, pod_uid: str, device: str, process: ProcessId, report: AgentReport) -> Holder | None:
    """Return a process with the memory that it holds of a device, as the node's report shows it; None if it does not.

    `device` is the device's own id.
    """
    holder = Holder(node=node, pod_uid=pod_uid, device=device, process=process, memory=MiB(0))
    memory = _find_memory(report, holder)
    return None if memory < 0 else replace(holder, memory=MiB(memory))


def _find_memory(report: AgentReport, holder: Holder) -> int:
    """Return the MiB that a process holds of its device by this report; -1 if that is unknown."""
    shares = (share for share in report.shares if share.pod_uid == holder.pod_uid)
    devices = (each for share in shares for each in share.devices if each.device == holder.device)
    wanted = AgentProcess(pid=holder.process.pid, ticks=holder.process.ticks)
    found = (use for device in devices for use in device.processes or () if use.process == wanted)
    return next((use.memory_mib for use in found if use.memory_mib is not None), -1)
