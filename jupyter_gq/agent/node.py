"""The state of a node, combined from its driver, its kubelet and its /proc.

Rules
-----
- Unknown is never idle: a value that cannot be read is None, and `missing` says why.
- No exceptions: a driver or a kubelet that fails is a state that is reported.
- Lost is not gone: a device that the driver has shown and shows no more beside others is reported as not healthy. If
  one was never shown, `missing` says so. The devices that a pod can open are then unknown only if it may open that one.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jupyter_gq.client.agents import (
    AgentDevice,
    AgentDeviceUse,
    AgentProcess,
    AgentProcessUse,
    AgentReport,
    AgentShare,
    WatchedPod,
)
from jupyter_gq.devices.limits import is_simulated
from jupyter_gq.devices.meter import UNKNOWN, DeviceUse, Share, ShareMeter, ShareUse
from jupyter_gq.devices.probe import DeviceInfo, DeviceProbe, ProbeState

from .abilities import NodeAbilities
from .kubelet import COPY_SEPARATOR, KubeletError, KubeletSocket, KubeletView
from .processes import Processes
from .signals import PodSignals
from .visible_devices import find_visible_devices, map_minors_to_uuids

#: Keys of `AgentReport.missing`.
SUSPEND, JOURNAL, SIGNAL, KUBELET, SHARES, PROCESSES, VISIBLE, DEVICES = (
    "suspend",
    "journal",
    "signal",
    "kubelet",
    "shares",
    "processes",
    "visible",
    "devices",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalNode:
    """The node that the agent runs on, with the sources of its state."""

    probe: DeviceProbe
    meter: ShareMeter
    kubelet: KubeletSocket
    processes: Processes
    signals: PodSignals
    abilities: NodeAbilities
    #: Returns why the agent can suspend nothing, by the ids of the node's devices; "" = it can.
    explain_no_suspension: Callable[[Sequence[str]], str]
    #: Returns what is wrong with the journal of suspensions, as a sentence; "" = nothing.
    find_journal_trouble: Callable[[], str]
    #: The node's /proc, through which the agent reads the /dev of containers.
    proc: Path
    #: The devices that the driver has shown so far, by id.
    known: dict[str, DeviceInfo] = field(default_factory=dict)

    def observe(self, watch: Sequence[WatchedPod]) -> AgentReport:
        """Return the present state of the node and the use of these pods; blocks for as long as the driver does."""
        missing: dict[str, str] = {}
        kubelet = self._ask_kubelet(missing)
        status = self.probe.status()
        devices = self.probe.devices() if status.state is ProbeState.OK else ()
        uuids = [device.uuid for device in devices]
        self.known.update({device.uuid: device for device in devices})
        lost = [device for device in self.known.values() if device.uuid not in uuids] if devices else []
        if (nameless := status.undescribed - len(lost)) > 0:
            missing[DEVICES] = f"The driver of this node counts devices that it cannot describe ({nameless} of them)."
        if no_signal := self.signals.explain_missing(uuids, ()):
            missing[SIGNAL] = no_signal
        if no_suspension := self.explain_no_suspension(uuids):
            missing[SUSPEND] = no_suspension
        if trouble := self.find_journal_trouble():
            missing[JOURNAL] = trouble
        shares = self._measure_shares(watch, [*devices, *lost], kubelet, missing)
        return AgentReport(
            probe=status.state.value,
            detail=status.detail,
            devices=[_to_agent_device(device, healthy=device not in lost) for device in (*devices, *lost)],
            allocations=None if kubelet is None else list(kubelet.allocations),
            shares=shares,
            missing=missing,
            abilities=self.abilities.find(status, devices, missing),
        )

    def _ask_kubelet(self, missing: dict[str, str]) -> KubeletView | None:
        """Return the devices that the kubelet gave to pods; None, with an entry in `missing`, if it does not answer.

        Another entry is added to `missing` if the device plugin hands out copies of a device.
        """
        try:
            view = self.kubelet.read()
        except KubeletError as error:
            missing[KUBELET] = str(error)
            return None
        copies = view.copied_ids()
        if copies:
            missing[SHARES] = (
                f"The device plugin of this node hands out copies of a device, such as {copies[0]}: two pods may hold "
                "the same device. Switch its time-slicing or MPS sharing off."
            )
        return view

    def _measure_shares(
        self,
        watch: Sequence[WatchedPod],
        devices: Sequence[DeviceInfo],
        kubelet: KubeletView | None,
        missing: dict[str, str],
    ) -> list[AgentShare]:
        """Return the use of each watched pod and the devices that it can open; None in them means unknown.

        Entries are added to `missing` if no process of any watched pod can be seen or one cannot be signalled, or if
        devices have no numbers. An entry on devices without a name is there already.
        """
        pids = self.processes.by_pod([pod.pod_uid for pod in watch])
        if watch and not pids:
            missing[PROCESSES] = (
                "No process of any watched pod can be seen: the agent's pod needs hostPID, and the node's /proc."
            )
        uuids = map_minors_to_uuids(devices)
        if devices and uuids is None:
            missing[VISIBLE] = (
                "The driver of this node does not tell the numbers of its devices, so nobody knows which of them a "
                "container can open."
            )
        shares = {
            pod.pod_uid: share
            for pod in watch
            if (share := self._find_share(pod, pids.get(pod.pod_uid), devices, kubelet)) is not None
        }
        uses = self.meter.measure(shares)
        for share in shares.values():
            if no_signal := self.signals.explain_missing(share.devices, share.pids):
                missing[SIGNAL] = no_signal
        return [
            self._to_agent_share(
                pod,
                uses.get(pod.pod_uid, UNKNOWN),
                find_visible_devices(self.proc, pids.get(pod.pod_uid, ()), uuids, are_all_named=DEVICES not in missing),
            )
            for pod in watch
        ]

    def _to_agent_share(self, pod: WatchedPod, use: ShareUse, visible: list[str] | None) -> AgentShare:
        """Return what is reported of a pod; its processes are left out if the driver knows them by other ids."""
        knows = self.signals.knows_processes([each.device for each in use.devices])
        return AgentShare(
            pod_uid=pod.pod_uid,
            memory_mib=use.memory,
            utilisation=use.utilisation,
            visible=visible,
            devices=[_to_agent_use(each) for each in use.devices] if knows else [],
        )

    def _find_share(
        self,
        pod: WatchedPod,
        pids: Sequence[int] | None,
        devices: Sequence[DeviceInfo],
        kubelet: KubeletView | None,
    ) -> Share | None:
        """Return the processes and devices of a pod, to be measured; None if either is unknown.

        On simulated devices, the pod's entry processes are left out.
        """
        held = tuple(pod.devices) or _find_assigned_devices(pod, devices, kubelet)
        if not held or not pids:
            return None
        if any(map(is_simulated, held)):
            pids = self.processes.without_entry_processes(pids)
        return Share(devices=held, pids=tuple(pids))


def _find_assigned_devices(
    pod: WatchedPod, devices: Sequence[DeviceInfo], kubelet: KubeletView | None
) -> tuple[str, ...]:
    """Return the ids of the existing devices that the kubelet gave to a pod, sorted; none if the kubelet is silent."""
    if kubelet is None:
        return ()
    known = {device.uuid for device in devices}
    ids = {
        device.partition(COPY_SEPARATOR)[0]
        for allocation in kubelet.allocations
        if (allocation.namespace, allocation.pod) == (pod.namespace, pod.pod)
        for device in allocation.device_ids
    }
    return tuple(sorted(ids & known))


def _to_agent_device(device: DeviceInfo, *, healthy: bool) -> AgentDevice:
    return AgentDevice(
        uuid=device.uuid, index=device.index, model=device.model, memory_mib=device.memory, healthy=healthy
    )


def _to_agent_use(use: DeviceUse) -> AgentDeviceUse:
    processes = use.processes
    return AgentDeviceUse(
        device=use.device,
        processes=None
        if processes is None
        else [
            AgentProcessUse(
                process=AgentProcess(pid=each.process.pid, ticks=each.process.ticks), memory_mib=each.memory
            )
            for each in processes
        ],
        free_mib=use.free,
    )
