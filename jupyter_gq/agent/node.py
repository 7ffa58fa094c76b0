"""Puts together what the driver, the kubelet and /proc say of this node.

Rules
-----
1. Unknown is never idle: what cannot be read is None, and why is said in `missing`.
2. Nothing here raises: a driver that is lost is a state that is reported.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from jupyter_gq.client.agents import AgentDevice, AgentReport, AgentShare, WatchedPod
from jupyter_gq.devices.limits import SIMULATED_PREFIX
from jupyter_gq.devices.meter import UNKNOWN, Share, ShareMeter, ShareUse
from jupyter_gq.devices.probe import DeviceInfo, DeviceProbe, ProbeState

from .kubelet import COPY, KubeletError, KubeletSocket, KubeletView
from .processes import Processes
from .visible import uuids_by_minor, visible_devices

#: Keys of `AgentReport.missing`.
SUSPEND, KUBELET, SHARES, PROCESSES, VISIBLE = "suspend", "kubelet", "shares", "processes", "visible"
NO_SUSPEND = "This version of the agent cannot suspend the GPU state of a process."


@dataclass(frozen=True, kw_only=True, slots=True)
class Node:
    """The node as the agent on it sees it. `look` may block for as long as the driver does."""

    probe: DeviceProbe
    meter: ShareMeter
    kubelet: KubeletSocket
    processes: Processes
    #: The node's /proc, through which the files of its containers are seen.
    proc: Path

    def look(self, watch: Sequence[WatchedPod]) -> AgentReport:
        """Report all that can be seen now, and the use of these pods."""
        missing = {SUSPEND: NO_SUSPEND}
        kubelet = self._ask_kubelet(missing)
        status = self.probe.status()
        devices = self.probe.devices() if status.state is ProbeState.OK else ()
        return AgentReport(
            probe=status.state.value,
            detail=status.detail,
            devices=[_described(device) for device in devices],
            allocations=None if kubelet is None else list(kubelet.allocations),
            shares=self._shares(watch, devices, kubelet, missing),
            missing=missing,
        )

    def _ask_kubelet(self, missing: dict[str, str]) -> KubeletView | None:
        try:
            view = self.kubelet.look()
        except KubeletError as error:
            missing[KUBELET] = str(error)
            return None
        copies = view.copies()
        if copies:
            missing[SHARES] = (
                f"The device plugin of this node hands out copies of a device, such as {copies[0]}: two pods may hold "
                "the same device. Switch its time-slicing or MPS sharing off."
            )
        return view

    def _shares(
        self,
        watch: Sequence[WatchedPod],
        devices: Sequence[DeviceInfo],
        kubelet: KubeletView | None,
        missing: dict[str, str],
    ) -> list[AgentShare]:
        pids = self.processes.of_pods([pod.pod_uid for pod in watch])
        if watch and not pids:
            missing[PROCESSES] = (
                "No process of any watched pod can be seen: the agent's pod needs hostPID, and the node's /proc."
            )
        uuids = uuids_by_minor(devices)
        if devices and uuids is None:
            missing[VISIBLE] = (
                "The driver of this node does not tell the numbers of its devices, so nobody knows which of them a "
                "container sees."
            )
        shares = {
            pod.pod_uid: share
            for pod in watch
            if (share := self._share(pod, pids.get(pod.pod_uid), devices, kubelet)) is not None
        }
        uses = self.meter.measure(shares)
        return [
            _reported(pod, uses.get(pod.pod_uid, UNKNOWN), visible_devices(self.proc, pids.get(pod.pod_uid, ()), uuids))
            for pod in watch
        ]

    def _share(
        self,
        pod: WatchedPod,
        pids: Sequence[int] | None,
        devices: Sequence[DeviceInfo],
        kubelet: KubeletView | None,
    ) -> Share | None:
        """Return the share to measure; None if its processes or devices are not known."""
        held = tuple(pod.devices) or _given(pod, devices, kubelet)
        if not held or not pids:
            return None
        if any(device.startswith(SIMULATED_PREFIX) for device in held):
            pids = self.processes.without_entry(pids)
        return Share(devices=held, pids=tuple(pids))


def _given(pod: WatchedPod, devices: Sequence[DeviceInfo], kubelet: KubeletView | None) -> tuple[str, ...]:
    """Return the devices that the kubelet gave to it, out of those that exist."""
    if kubelet is None:
        return ()
    known = {device.uuid for device in devices}
    ids = {
        device.partition(COPY)[0]
        for allocation in kubelet.allocations
        if (allocation.namespace, allocation.pod) == (pod.namespace, pod.pod)
        for device in allocation.device_ids
    }
    return tuple(sorted(ids & known))


def _described(device: DeviceInfo) -> AgentDevice:
    return AgentDevice(uuid=device.uuid, index=device.index, model=device.model, memory_mib=device.memory)


def _reported(pod: WatchedPod, use: ShareUse, visible: list[str] | None) -> AgentShare:
    return AgentShare(pod_uid=pod.pod_uid, memory_mib=use.memory, utilisation=use.utilisation, visible=visible)
