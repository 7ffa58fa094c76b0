"""The agent of the soak: the product's shares of pods above the shares of the service, in a process that is killed.

The soak's wishes reach it as the orders of a service. An attempt that has failed is ordered anew at once.
"""

import os
from pathlib import Path
from typing import Any

from jupyter_gq.agent.processes import Processes, find_pod_by_cgroup
from jupyter_gq.agent.shares import PodShares
from jupyter_gq.client.agents import AgentOrders, ShareOrder
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.suspension.share_state import SharePhase

from .machine import Machine
from .service import Files, Service


class Pods(Processes):
    """The processes of the shares that the soak's orders name, as those of pods."""

    def __init__(self, files: Files) -> None:
        super().__init__(Path("/proc"), find_pod_by_cgroup)
        self._files = files

    def list_by_pod(self, uids: Any) -> dict[str, tuple[int, ...]]:
        shares = self._files.read(self._files.orders)["shares"]
        named = {uid: shares[uid]["processes"] for uid in uids if uid in shares}
        alive = {
            uid: tuple(pid for pid, ticks in each if self.identify(pid) == ProcessId(pid, ticks))
            for uid, each in named.items()
        }
        return {uid: pids for uid, pids in alive.items() if pids}

    def is_in_pod(self, pid: int, uid: str) -> bool:
        return pid in self.list_pod(uid)

    def find_main_processes(self, uid: str) -> frozenset[int]:
        return frozenset()


class Agent(Service):
    """One life of the agent."""

    role, run = "agent", 0

    def __init__(self, machine: Machine, files: Files, most: int) -> None:
        super().__init__(machine, files, most)
        self._pods = PodShares(shares=self._shares, processes=Pods(files), explain_missing=lambda devices: "")
        self._attempts: dict[str, int] = {}

    def obey(self) -> None:
        self._pods.recover()
        self._pods.follow(AgentOrders(shares=[*map(self._order, self._orders["shares"])]), 0.0)

    def know_shares(self) -> None:
        """Do nothing but remember the names: an order makes its share known."""
        self._known = set(self._orders["shares"])

    def _order(self, name: str) -> ShareOrder:
        state = self._shares.state(name, self.run)
        if state is None or state.phase is SharePhase.IN_USE:
            self._attempts[name] = self._attempts.get(name, 0) + 1
        return ShareOrder(
            pod_uid=name,
            device=self._devices_of(name)[0],
            known=self._record.get(name, {}).get("phase", SharePhase.IN_USE.value),
            want="suspended" if self._orders["shares"][name]["away"] else "in_use",
            attempt=f"{os.getpid()}-{self._attempts.get(name, 0)}",
            valid_for=1.0,
        )
