"""Reports of the agents on the nodes: the devices, the pods that the kubelet gave them to, and the use of shares.

Rules
-----
1. Latest report. A report is what one agent saw at one moment. Of an older report only that is kept which the newer one
   cannot say.
2. Silence. A node whose agent is silent takes no new shares; running work is left alone.
3. Unknown is None: a share that no agent reports has no use of 0.
4. Short memory. What each process holds counts for a few seconds only, and only if the agent can signal processes:
   somebody may act on it.
5. Names of devices. Only NVIDIA's UUIDs name a device for good. Another id, such as a number, may mean a device that
   somebody else uses, so a node that was seen to have such ids takes no shares.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from jupyter_gq.backends.capabilities import AttestationResult
from jupyter_gq.client.agents import AgentAllocation, AgentReport, AgentShare, AgentSuspension
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.meter import DeviceUse, ProcessUse, ShareUse
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import Device

#: Device ids of a plugin that shares devices contain it: GPU-…::2.
_SHARING = "::"
#: Prefix of ids of whole GPUs; ids of slices (MIG) have another. An agent sees whole GPUs only.
_WHOLE = "GPU-"
#: Prefixes of NVIDIA's UUIDs, of whole GPUs and of slices.
_UUIDS = (_WHOLE, "MIG-")
#: Key of `AgentReport.missing`: which devices a container can open.
_VISIBLE = "visible"
#: Key of `AgentReport.missing`: devices that the driver counts and cannot describe.
_DEVICES = "devices"
#: Key of `AgentReport.missing`: the kubelet, which says which pod has which device.
_KUBELET = "kubelet"
#: Key of `AgentReport.missing`: the right and the ability to signal processes.
_SIGNAL = "signal"
#: Key of `AgentReport.missing`: the journal of suspensions.
_JOURNAL = "journal"
#: Key of `AgentReport.missing`: the right and the ability to suspend shares.
_SUSPEND = "suspend"
#: Seconds for which the memory of single processes counts.
_DETAILS_FOR = 15.0
#: Number of equal checks in a row after which a wrong result counts: a container that starts may show half its devices.
_SETTLED = 2
#: Seconds after which a check is unclear if the processes of the container cannot be inspected.
_UNCLEAR_AFTER = 5.0


@dataclass(frozen=True, kw_only=True, slots=True)
class _DeviceCheck:
    """The device check of one pod, over consecutive reports with the same result."""

    #: Whether the pod sees its own devices and no others; None if that could not be determined.
    right: bool | None
    #: Time of the first of these reports, and their number.
    since: float
    times: int = 1
    #: Why the check can never be made; "" if it can.
    why: str = ""


@dataclass(kw_only=True, slots=True)
class _NodeReport:
    """The last report of a node, and what was kept of older ones."""

    report: AgentReport
    at: float
    #: Allocations of the last report that had any; None = the kubelet never answered.
    allocations: list[AgentAllocation] | None = None
    #: When the allocations were reported.
    allocations_at: float = 0.0
    #: By resource, an id of a device that is no UUID; kept while nothing of the resource is given to anybody.
    odd_ids: dict[str, str] = field(default_factory=dict)
    #: Device checks of pods, by uid.
    checks: dict[str, _DeviceCheck] = field(default_factory=dict)


class Agents:
    """The last report of each node."""

    def __init__(self, *, silent_after: float, now: Callable[[], float]) -> None:
        self._silent_after, self._now = silent_after, now
        self._reports: dict[str, _NodeReport] = {}
        #: Node and use of each share, by uid of its pod.
        self._uses: dict[str, tuple[str, ShareUse]] = {}

    def store_report(
        self, node: str, report: AgentReport, given: Callable[[str], frozenset[str] | None]
    ) -> frozenset[str]:
        """Store a report; return the uids of pods that did not see just their own devices in two reports in a row.

        `given` maps the uid of a pod to its devices; None = not known.
        """
        before, now = self._reports.get(node), self._now()
        last = _NodeReport(report=report, at=now)
        if report.allocations is not None:
            last.allocations, last.allocations_at = report.allocations, now
        elif before is not None:
            last.allocations, last.allocations_at = before.allocations, before.allocations_at
        last.odd_ids = _find_odd_ids(last.allocations or (), before.odd_ids if before is not None else {})
        known = before.checks if before is not None else {}
        for share in report.shares:
            last.checks[share.pod_uid] = _update_check(
                share.visible, given(share.pod_uid), known.get(share.pod_uid), now
            )
        self._reports[node] = last
        self._uses = {uid: use for uid, use in self._uses.items() if use[0] != node}
        for share in report.shares:
            self._uses[share.pod_uid] = (node, _use(share))
        return frozenset(uid for uid, check in last.checks.items() if check.right is False and check.times >= _SETTLED)

    def attestation(self, node: str, uid: str) -> AttestationResult:
        """Return the result of the device check of a pod, by the latest reports of its node.

        The result is UNWATCHED while the agent is silent, RIGHT after one check, and WRONG after two wrong ones in a
        row. If the check cannot be made, the result is UNCLEAR, otherwise UNCHECKED.
        """
        if not self.is_reporting(node):
            return AttestationResult.UNWATCHED
        last = self._reports[node]
        check = last.checks.get(uid)
        if check is not None and check.right is not None:
            if check.right:
                return AttestationResult.RIGHT
            return AttestationResult.WRONG if check.times >= _SETTLED else AttestationResult.UNCHECKED
        unclear = check is not None and (bool(check.why) or self._now() - check.since >= _UNCLEAR_AFTER)
        return AttestationResult.UNCLEAR if unclear or _VISIBLE in last.report.missing else AttestationResult.UNCHECKED

    def explain_unclear_check(self, node: str, uid: str) -> str:
        """Return a sentence that says why it cannot be told which devices a pod sees."""
        last = self._reports.get(node)
        check = last.checks.get(uid) if last is not None else None
        why = check.why if check is not None else ""
        if not why and last is not None:
            why = last.report.missing.get(_VISIBLE) or last.report.missing.get(_DEVICES, "")
        return why or f"The agent of the node {node} cannot tell which devices the container sees."

    def is_news(self, node: str, report: AgentReport) -> bool:
        """Return True if a report may change a decision.

        A report does if it is the first of its node, comes after a silence, or differs from the last one in more than
        the use of shares and the abilities of the node.
        """
        last = self._reports.get(node)
        if last is None or self._now() - last.at > self._silent_after:
            return True
        seen = {share.pod_uid: _facts(share) for share in last.report.shares}
        if any(_facts(share) != seen.get(share.pod_uid, _NO_FACTS) for share in report.shares):
            return True
        # What a node can do is shown to people, and decides nothing.
        shown = {"shares": report.shares, "abilities": report.abilities}
        return report != last.report.model_copy(update=shown)

    def unfit(self, node: str) -> str:
        """Return why no new share may go to the node, as a sentence; "" = it may.

        Reasons are a silent agent, a driver that does not work, a kubelet that the agent cannot ask, and a device
        plugin that shares devices.
        """
        last = self._reports.get(node)
        if last is None:
            return f"The agent of the node {node} has not reported yet."
        if self._now() - last.at > self._silent_after:
            return f"The agent of the node {node} has been silent for {self._now() - last.at:.0f} s."
        if last.report.probe != "OK":
            return f"The driver of the node {node} does not work: {last.report.detail or last.report.probe}"
        # A kubelet that restarts is away for a moment, and what it said before still holds.
        if last.allocations is None and (why := last.report.missing.get(_KUBELET)):
            return f"{node}: {why}"
        return self.refused(node)

    def refused(self, node: str) -> str:
        """Return why no device of the node can be used, because its device plugin shares devices; "" = all can."""
        last = self._reports.get(node)
        if last is not None and (why := last.report.missing.get("shares")):
            return f"{node}: {why}"
        shared = [
            device
            for allocation in (last.allocations if last else None) or ()
            for device in allocation.device_ids
            if _SHARING in device
        ]
        if not shared:
            return ""
        return (
            f"The device plugin of the node {node} shares devices ({shared[0]}), so what is given there is no whole "
            "device. Switch its sharing off."
        )

    def names_no_uuid(self, node: str, resource: str) -> str:
        """Return a sentence if the device plugin was seen to give devices of this resource other ids than UUIDs.

        Such a device cannot be named to a share. "" = nothing like that is known.
        """
        last = self._reports.get(node)
        odd = last.odd_ids.get(resource, "") if last is not None else ""
        if not odd:
            return ""
        return (
            f"The device plugin of the node {node} calls a device of {resource} {odd}, which is no UUID of NVIDIA, so "
            "no share can be given a device there. Set its device ID strategy to uuid."
        )

    def devices(self, node: str) -> tuple[Device, ...]:
        """Return the devices of a node in the driver's order; empty until an agent has reported them."""
        last = self._reports.get(node)
        if last is None:
            return ()
        found = sorted(last.report.devices, key=lambda device: (device.index, device.uuid))
        return tuple(
            Device(
                id=each.uuid,
                index=each.index,
                model=each.model,
                memory=MiB(each.memory_mib),
                pool="",
                healthy=each.healthy,
            )
            for each in found
        )

    def lists_all_devices(self, node: str) -> bool:
        """Return False if the agent said last that the driver counts devices that it cannot describe."""
        last = self._reports.get(node)
        return last is None or _DEVICES not in last.report.missing

    def device(self, node: str, uuid: str) -> Device | None:
        """Return one device of a node; None if the node has none of that id."""
        return next((device for device in self.devices(node) if device.id == uuid), None)

    def given(self, node: str, namespace: str, pod: str, resource: str) -> tuple[str, ...] | None:
        """Return the ids of the devices of this resource that the kubelet gave to a pod; None if it never answered."""
        last = self._reports.get(node)
        if last is None or last.allocations is None:
            return None
        found = [a for a in last.allocations if (a.namespace, a.pod, a.resource) == (namespace, pod, resource)]
        return tuple(device for allocation in found for device in allocation.device_ids)

    def holders(self, node: str, resource: str) -> dict[str, set[tuple[str, str]]]:
        """Return, by device, namespace and name of the pods that the kubelet gave it to, as far as is known.

        A device plugin gives a device to one pod, but kubelets before 1.34 also list pods that have ended.
        """
        last = self._reports.get(node)
        found: dict[str, set[tuple[str, str]]] = {}
        for allocation in (last.allocations if last is not None else None) or ():
            if allocation.resource == resource:
                for device in allocation.device_ids:
                    found.setdefault(device, set()).add((allocation.namespace, allocation.pod))
        return found

    def allocations_reported_at(self, node: str) -> float | None:
        """Return when the node last reported the kubelet's allocations, by the clock of this object; None = never."""
        last = self._reports.get(node)
        return last.allocations_at if last is not None and last.allocations is not None else None

    def is_reporting(self, node: str) -> bool:
        """Return True if the agent of the node has reported in the last `silent_after` seconds."""
        last = self._reports.get(node)
        return last is not None and self._now() - last.at <= self._silent_after

    def foreign(self, node: str, resource: str, ours: Callable[[str, str], bool]) -> int:
        """Return the number of devices that foreign pods hold on the node, as far as is known.

        A device that is given to a pod of ours as well does not count: the kubelet still lists a pod that has ended.
        """
        holders = self.holders(node, resource).values()
        return sum(1 for pods in holders if not any(ours(*pod) for pod in pods))

    def foreign_parts(self, node: str, resource: str, ours: Callable[[str, str], bool]) -> int:
        """Return a lower bound of the devices that foreign pods hold, if the device plugin offers parts of devices.

        The bound is the number of devices of which only foreign pods have parts, or the most parts of one foreign pod
        if that is more. The ids GPU-<uuid>-<n> do not say surely which device a pod has, but each id of a pod stands
        for another device.
        """
        known = [device.uuid for device in self._reports[node].report.devices] if node in self._reports else []
        devices: set[str] = set()
        own: set[str] = set()
        by_pod: Counter[tuple[str, str]] = Counter()
        for part, pods in self.holders(node, resource).items():
            device = next((uuid for uuid in known if part == uuid or part.startswith(f"{uuid}-")), part)
            if any(ours(*pod) for pod in pods):
                own.add(device)
            else:
                devices.add(device)
                by_pod.update(pods)
        return max(len(devices - own), *by_pod.values(), 0)

    def use(self, uid: str) -> ShareUse | None:
        """Return the use of a pod's share; None if no agent that reports at present knows the pod.

        The use by device and process is left out unless `can_signal` is true.
        """
        node, use = self._uses.get(uid, ("", None))
        if use is None or not self.is_reporting(node):
            return None
        return use if self.can_signal(node) else replace(use, devices=())

    def can_signal(self, node: str) -> bool:
        """Return whether the agent of the node has reported in the last seconds that it can signal processes."""
        last = self._reports.get(node)
        if last is None or self._now() - last.at > _DETAILS_FOR:
            return False
        return last.report.probe == "OK" and _SIGNAL not in last.report.missing

    def explain_no_suspension(self, node: str) -> str:
        """Return why the agent of the node suspends no shares and brings none back, as a sentence; "" if it does."""
        if why := self.unfit(node):
            return why
        why = self._reports[node].report.missing.get(_SUSPEND, "")
        return f"{node}: {why}" if why else ""

    def trouble(self, node: str, uid: str) -> str:
        """Return what the agent of the node says is wrong with the share of a pod whose phase it does not know.

        "" if it says nothing of this pod, or is silent now.
        """
        shares = self._reports[node].report.shares if self.is_reporting(node) else ()
        return next((share.trouble for share in shares if share.pod_uid == uid), "")

    def list_journal_troubles(self) -> list[str]:
        """Return what agents said last of their journals of suspensions, a sentence for each node in trouble."""
        said = {node: last.report.missing.get(_JOURNAL, "") for node, last in sorted(self._reports.items())}
        return [f"{node}: {sentence}" for node, sentence in said.items() if sentence]

    def takes_share_orders(self, node: str) -> bool:
        """Return whether the agent of the node said last that it can suspend shares.

        Agents of older releases always say that they cannot, and refuse an answer that has such orders.
        """
        last = self._reports.get(node)
        return last is not None and _SUSPEND not in last.report.missing

    def seconds_since_report(self, node: str) -> float | None:
        """Return the age of the last report of a node in seconds; None if there was none."""
        last = self._reports.get(node)
        return None if last is None else max(0.0, self._now() - last.at)

    def report(self, node: str) -> AgentReport | None:
        """Return the last report of a node; None if there was none."""
        last = self._reports.get(node)
        return None if last is None else last.report

    def forget(self, nodes: Iterable[str]) -> None:
        """Drop the reports of these nodes and the use of their shares."""
        gone = set(nodes)
        for node in gone:
            self._reports.pop(node, None)
        self._uses = {uid: use for uid, use in self._uses.items() if use[0] not in gone}


#: What decides of a share, or is told to its owner.
_Facts = tuple[list[str] | None, AgentSuspension | None, str]
_NO_FACTS: _Facts = (None, None, "")


def _facts(share: AgentShare) -> _Facts:
    return share.visible, share.suspension, share.trouble


def _update_check(
    visible: list[str] | None, own: frozenset[str] | None, before: _DeviceCheck | None, now: float
) -> _DeviceCheck:
    """Return the device check after a report: `visible` devices are compared with the pod's `own` ones.

    The number of equal results in a row is counted. The check is undecided if either devices are not known, or if the
    pod has a slice of a GPU.
    """
    part = next((device for device in sorted(own or ()) if not device.startswith(_WHOLE)), None)
    if part is not None:
        why = f"The pod was given {part}, a slice of a GPU. Which slices a container sees cannot be told."
        return _DeviceCheck(right=None, since=now, why=why)
    right = None if visible is None or own is None else frozenset(visible) == own
    if before is None or before.right is not right:
        return _DeviceCheck(right=right, since=now)
    return replace(before, times=before.times + 1)


def _find_odd_ids(allocations: Iterable[AgentAllocation], before: Mapping[str, str]) -> dict[str, str]:
    """Return by resource an id that is no UUID, "" if all are UUIDs.

    A resource of which nothing is given to anybody keeps its entry of `before`.
    """
    given: dict[str, list[str]] = {}
    for allocation in allocations:
        given.setdefault(allocation.resource, []).extend(allocation.device_ids)
    found = {resource: next((each for each in ids if not is_uuid(each)), "") for resource, ids in given.items() if ids}
    return {**before, **found}


def is_whole(device: str) -> bool:
    """Return True if the id of a device is NVIDIA's UUID of a whole GPU."""
    return device.startswith(_WHOLE)


def is_uuid(device: str) -> bool:
    """Return True if the id of a device names it for good: NVIDIA's UUID of a GPU or of a slice."""
    return device.startswith(_UUIDS)


def _use(share: AgentShare) -> ShareUse:
    return ShareUse(
        memory=_mib(share.memory_mib),
        utilisation=share.utilisation,
        devices=tuple(
            DeviceUse(
                device=each.device,
                processes=None
                if each.processes is None
                else tuple(
                    ProcessUse(process=ProcessId(use.process.pid, use.process.ticks), memory=_mib(use.memory_mib))
                    for use in each.processes
                ),
                free=_mib(each.free_mib),
            )
            for each in share.devices
        ),
    )


def _mib(amount: int | None) -> MiB | None:
    return None if amount is None else MiB(amount)
