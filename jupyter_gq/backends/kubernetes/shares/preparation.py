"""Preparation of devices: from a placement of the core to what a pod must carry.

Whole devices are asked for by count, shares by the device that is reserved for their slot. So is a whole device that a
reservation pod holds for a suspended notebook: the kubelet cannot give it away meanwhile.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.providers import PROVIDERS
from jupyter_gq.backends.kubernetes.providers.allocation import Allocation, additions_without_gpu
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.domain.amount import ONE_GPU
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.workload import RunKey, TaskPlacement, Workload

from .reservation_pods import ReservationPods


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedTask:
    """A task with what its pod must carry, or why that is not known yet."""

    #: None while the devices are being prepared, and after a refusal.
    additions: PodAdditions | None = None
    #: What is waited for, or why the devices were refused.
    sentence: str = ""
    #: The task will not get its devices.
    is_refused: bool = False


class DevicePreparation:
    """The preparation of the devices of runs: reserves the devices, and tells what the pods must carry."""

    def __init__(self, *, nodes: Nodes, agents: Agents, reservation_pods: ReservationPods) -> None:
        self._nodes, self._agents, self._reservation_pods = nodes, agents, reservation_pods

    def claim(self, workload: Workload, devices: Mapping[str, str]) -> None:
        """Claim the devices of a run that need reservation pods.

        `devices` has, by slot, the ones that its pods were given already.
        """
        for task in workload.placement:
            pool = self._nodes.pool(task.node)
            # By task: the device plugin may have chosen the devices of one, while those of another are named.
            is_named = any(slot in devices for slot in task.devices)
            if pool is not None and (is_named or self._needs_reservation(pool, workload, task)):
                for slot in task.devices:
                    self._reservation_pods.claim(slot, pool, _key(workload), devices.get(slot, ""))

    def fix_devices(self, workload: Workload, devices: Mapping[str, str]) -> None:
        """Bind the run to these devices, by slot: a pod that names them may have been created already."""
        for slot, device in devices.items():
            self._reservation_pods.fix_device(slot, _key(workload), device)

    def fixed_devices(self, workload: Workload) -> dict[str, str]:
        """Return the devices that pods of the run were told to name, by slot."""
        slots = [slot for task in workload.placement for slot in task.devices]
        fixed = {slot: self._reservation_pods.fixed_device(slot, _key(workload)) for slot in slots}
        return {slot: device for slot, device in fixed.items() if device}

    def release(self, workload: Workload) -> None:
        """Drop the claims of a run that does not need its devices any more."""
        for task in workload.placement:
            for slot in task.devices:
                self._reservation_pods.release(slot, _key(workload))

    def prepare(self, workload: Workload) -> Sequence[PreparedTask]:
        """Reserve the devices of all tasks; return, in the order of the tasks, what each pod carries or waits for.

        Whole devices wait until reservation pods that nobody wants are deleted. Once all are ready, the run is bound to
        the devices that its pods will name.
        """
        tasks = workload.placement or (TaskPlacement(node=""),) * workload.tasks
        prepared = [self._prepare_task(workload, task) for task in tasks]
        if all(each.additions is not None for each in prepared):
            for each in prepared:
                self.fix_devices(workload, _named_devices(each))
        return prepared

    def is_failing(self, key: RunKey) -> bool:
        """Return whether a device of the run cannot be reserved, or was given to others."""
        return key in self._reservation_pods.failing

    def describe_taken_device(self, workload: Workload) -> str:
        """Return why a device of the run is not reserved for it any more; "" if all are."""
        return self._first(self._failure(slot, workload) for task in workload.placement for slot in task.devices)

    def _prepare_task(self, workload: Workload, task: TaskPlacement) -> PreparedTask:
        if not task.devices:
            return PreparedTask(
                additions=additions_without_gpu(Allocation(node=task.node, pool=self._nodes.pool(task.node)))
            )
        pool = self._nodes.pool(task.node)
        if pool is None:
            sentence = f"The node {task.node} is in no pool any more, or gone."
            return PreparedTask(sentence=sentence, is_refused=True)
        if self._needs_reservation(pool, workload, task):
            return self._prepare_reserved(workload, task, pool)
        devices: tuple[Device, ...] = ()
        if not self._nodes.counts_slots(task.node):
            devices = self._devices_by_index(task)
            if len(devices) < len(task.devices):
                sentence = self._agents.unfit(task.node) or f"The node {task.node} has too few devices."
                return PreparedTask(sentence=sentence)
        # In a list: the reservation pods of all slots are deleted, not only that of the first.
        elif not all([self._reservation_pods.free(slot) for slot in task.devices]):
            is_overdue = any(map(self._reservation_pods.is_overdue, task.devices))
            sentence = self._first(map(self._reservation_pods.describe, task.devices))
            return PreparedTask(sentence=sentence, is_refused=is_overdue)
        allocation = self._allocation(workload, task, pool, devices)
        return PreparedTask(additions=PROVIDERS[pool.provider].additions(allocation))

    def _prepare_reserved(self, workload: Workload, task: TaskPlacement, pool: PodPool) -> PreparedTask:
        """Claim the devices of a task that needs reservation pods; return what its pod carries once all are reserved.

        Before that, the result says what is waited for, or why a device is refused.
        """
        for slot in task.devices:
            self._reservation_pods.claim(slot, pool, _key(workload))
        refusal = self._first(self._failure(slot, workload) for slot in task.devices)
        if refusal:
            return PreparedTask(sentence=refusal, is_refused=True)
        reserved = [self._reservation_pods.reserved_device(slot) for slot in task.devices]
        devices = tuple(device for device in reserved if device is not None)
        if len(devices) < len(task.devices):
            return PreparedTask(sentence=self._first(map(self._reservation_pods.describe, task.devices)))
        allocation = self._allocation(workload, task, pool, devices)
        return PreparedTask(additions=PROVIDERS[pool.provider].additions(allocation))

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

    def _devices_by_index(self, task: TaskPlacement) -> tuple[Device, ...]:
        """Return the devices of a task on a node where a slot is always the device with the same number.

        Devices that the agent has not reported are left out.
        """
        told = {device.index: device for device in self._agents.devices(task.node)}
        wanted = [names.index_of(slot) for slot in task.devices]
        return tuple(told[index] for index in wanted if index in told)

    def _needs_reservation(self, pool: PodPool, workload: Workload, task: TaskPlacement) -> bool:
        provider = PROVIDERS[pool.provider]
        if workload.request_of(task.group).milli_per_device < ONE_GPU:
            return provider.needs_reservation(pool, whole=False)
        is_lent = any(self._reservation_pods.is_in_use(slot) for slot in task.devices)
        return provider.needs_reservation(pool, whole=not is_lent)

    def _failure(self, slot: str, workload: Workload) -> str:
        return self._reservation_pods.failure(slot, _key(workload))

    @staticmethod
    def _first(sentences: Iterable[str]) -> str:
        return next((sentence for sentence in sentences if sentence), "")


def _named_devices(prepared: PreparedTask) -> dict[str, str]:
    """Return the devices that the pod will name, by slot."""
    annotations = prepared.additions.annotations if prepared.additions is not None else {}
    slots, devices = names.listed(annotations.get(names.SLOTS)), names.listed(annotations.get(names.DEVICES))
    return dict(zip(slots, devices, strict=False))


def _key(workload: Workload) -> RunKey:
    return (workload.id, workload.run)
