"""The orders to signal single processes of pods. See `backends.capabilities.OrderedSignals`."""

import signal
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jupyter_gq.backends.capabilities import SignalResult
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.domain.workload import RunKey

from .api.views import PodView
from .nodes.agents import Agents
from .nodes.signal_orders import SignalOrders, find_holder
from .objects import names


@dataclass(frozen=True, kw_only=True, slots=True)
class PodSignals:
    """The signals that the nodes' agents are ordered to send to processes of pods."""

    agents: Agents
    orders: SignalOrders
    #: Returns the pods of a run.
    pods_of: Callable[[RunKey], Sequence[PodView]]

    def can_signal(self, device: str) -> bool:
        """Return whether the agent of the node of this slot can signal processes now."""
        return self.agents.can_signal(names.node_of(device))

    def order_signal(self, key: RunKey, device: str, process: ProcessId, number: signal.Signals) -> str:
        """Order the agent of a slot's node to signal a process of the run that holds memory of that slot's device.

        Returns the id of the order; "" if no pod of the run has such a process, or if the agent cannot signal it.
        """
        for pod in self.pods_of(key):
            report = self.agents.report(pod.node) if self.agents.can_signal(pod.node) else None
            device_of = dict(zip(pod.slots, pod.devices, strict=False))
            if report is not None and device in device_of:
                holder = find_holder(pod.node, pod.uid, device_of[device], process, report)
                if holder is not None:
                    return self.orders.add(holder, number)
        return ""

    def signal_result(self, order: str) -> SignalResult:
        """Return what became of an order; an unknown one has lapsed."""
        return self.orders.result(order)
