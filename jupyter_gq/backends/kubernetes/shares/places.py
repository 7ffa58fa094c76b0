"""From a placement of the core to what a pod must carry: whole devices by count, shares by the device that is held."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.pods.index import RunKey
from jupyter_gq.backends.kubernetes.providers import PROVIDERS
from jupyter_gq.backends.kubernetes.providers.allocation import Allocation, nothing
from jupyter_gq.client.pods import PodAdditions
from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.workload import TaskPlacement, Workload

from .reservations import Reservations


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Where a task goes, or why that is not known yet."""

    #: What its pod carries; None while its devices are being prepared.
    added: PodAdditions | None = None
    #: What is waited for, or why it was refused.
    sentence: str = ""
    #: It will not get its devices.
    refused: bool = False


class Places:
    """Prepares the devices of runs."""

    def __init__(self, *, nodes: Nodes, agents: Agents, reservations: Reservations) -> None:
        self._nodes, self._agents, self._reservations = nodes, agents, reservations

    def claim(self, workload: Workload, devices: Mapping[str, str]) -> None:
        """See that the devices of this run are held. `devices`: by slot, those that its pods have already."""
        for task in workload.placement:
            pool = self._nodes.pool(task.node)
            if pool is not None and self._reserved(pool, workload, task):
                for slot in task.devices:
                    self._reservations.claim(slot, pool, _key(workload), devices.get(slot, ""))

    def tell(self, workload: Workload, devices: Mapping[str, str]) -> None:
        """A pod of this run may be made that names these devices, by slot: no others will do."""
        for slot, device in devices.items():
            self._reservations.tell(slot, _key(workload), device)

    def told(self, workload: Workload) -> dict[str, str]:
        """The devices that pods of this run were told to name, by slot."""
        slots = [slot for task in workload.placement for slot in task.devices]
        told = {slot: self._reservations.told(slot, _key(workload)) for slot in slots}
        return {slot: device for slot, device in told.items() if device}

    def release(self, workload: Workload) -> None:
        """This run does not need them any more."""
        for task in workload.placement:
            for slot in task.devices:
                self._reservations.release(slot, _key(workload))

    def places(self, workload: Workload) -> Sequence[Place]:
        """What the pod of each task carries, in the order of the tasks."""
        tasks = workload.placement or (TaskPlacement(node=""),) * workload.tasks
        places = [self._place(workload, task) for task in tasks]
        if all(place.added is not None for place in places):
            for place in places:
                self.tell(workload, _named(place))
        return places

    def is_failing(self, key: RunKey) -> bool:
        """A device of that run may no longer be ours."""
        return key in self._reservations.failing

    def lost_devices(self, workload: Workload) -> str:
        """Why a device on which it runs is no longer ours; "" = all are."""
        for task in workload.placement:
            for slot in task.devices:
                failure = self._failure(slot, workload)
                if failure:
                    return failure
        return ""

    def _place(self, workload: Workload, task: TaskPlacement) -> Place:
        if not task.devices:
            return Place(added=nothing(Allocation(node=task.node, pool=self._nodes.pool(task.node))))
        pool = self._nodes.pool(task.node)
        if pool is None:
            return Place(sentence=f"The node {task.node} is in no pool any more, or gone.", refused=True)
        provider = PROVIDERS[pool.provider]
        if self._reserved(pool, workload, task):
            return self._shares(workload, task, pool)
        devices: tuple[Device, ...] = ()
        if not self._nodes.counts_slots(task.node):
            devices = self._by_index(task)
            if len(devices) < len(task.devices):
                return Place(sentence=self._agents.unfit(task.node) or f"{task.node} has too few devices.")
        # All of them are told to go, not only the first.
        elif not all([self._reservations.free(slot) for slot in task.devices]):
            return Place(sentence=self._first(map(self._reservations.waiting_for, task.devices)))
        return Place(added=provider.additions(self._allocation(workload, task, pool, devices)))

    def _shares(self, workload: Workload, task: TaskPlacement, pool: PodPool) -> Place:
        for slot in task.devices:
            self._reservations.claim(slot, pool, _key(workload))
        refusal = self._first(self._failure(slot, workload) for slot in task.devices)
        if refusal:
            return Place(sentence=refusal, refused=True)
        held = [self._reservations.held(slot) for slot in task.devices]
        devices = tuple(device for device in held if device is not None)
        if len(devices) < len(task.devices):
            return Place(sentence=self._first(map(self._reservations.waiting_for, task.devices)))
        return Place(added=PROVIDERS[pool.provider].additions(self._allocation(workload, task, pool, devices)))

    def _allocation(
        self, workload: Workload, task: TaskPlacement, pool: PodPool, devices: tuple[Device, ...]
    ) -> Allocation:
        return Allocation(
            node=task.node,
            pool=pool,
            slots=task.devices,
            milli_per_device=workload.request_of(task.group).milli_per_device,
            devices=devices,
            model=self._nodes.model(task.node),
        )

    def _by_index(self, task: TaskPlacement) -> tuple[Device, ...]:
        """Where a slot is always the same device: that of its number."""
        told = self._agents.devices(task.node)
        wanted = [int(slot.rpartition("/")[2]) for slot in task.devices]
        return tuple(told[index] for index in wanted if index < len(told))

    def _reserved(self, pool: PodPool, workload: Workload, task: TaskPlacement) -> bool:
        whole = workload.request_of(task.group).milli_per_device >= ONE_GPU
        return PROVIDERS[pool.provider].needs_reservation(pool, whole=whole)

    def _failure(self, slot: str, workload: Workload) -> str:
        return self._reservations.failure(slot, _key(workload))

    @staticmethod
    def _first(sentences: Iterable[str]) -> str:
        return next((sentence for sentence in sentences if sentence), "")


def _named(place: Place) -> dict[str, str]:
    """The devices that its pod will name, by slot."""
    annotations = place.added.annotations if place.added is not None else {}
    slots, devices = names.listed(annotations.get(names.SLOTS)), names.listed(annotations.get(names.DEVICES))
    return dict(zip(slots, devices, strict=False))


def _key(workload: Workload) -> RunKey:
    return (workload.id, workload.run)
