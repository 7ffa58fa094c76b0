"""Devices of kwok's nodes that are given to pods as a device plugin does it: in any order, each to one pod.

What agents see of it is a moment old. That no device serves the pods of two slots is checked at each look.
"""

import asyncio
import random

from kubernetes.client import ApiException

from jupyter_gq.client.agents import AgentAllocation, AgentDevice, AgentReport
from tests.kubernetes.backend_world import GPU

_SLOTS, _DEVICES = "jupyter-gq.org/slots", "jupyter-gq.org/devices"


class GivenDevices:
    """Lives as long as the cluster; services come and go."""

    def __init__(self, world, nodes, gpus, seed, deleting=0.0):
        """`deleting`: how probable it is at each look that somebody deletes a reservation."""
        self.deleted, self._deleting = 0, deleting
        self._world, self._chance = world, random.Random(seed)
        self._devices = {node: [f"GPU-{node}-{index}" for index in range(gpus)] for node in nodes}
        #: Node, namespace, name and devices, by uid of the pod.
        self._given = {}
        self._reports = []
        #: Who is told; None = nobody listens.
        self.backend = None
        #: Pods of work that were seen to name a device.
        self.seen = set()

    async def go_on(self):
        """Give, check and tell until cancelled."""
        while True:
            await asyncio.to_thread(self.look)
            if self.backend is not None:
                # What is told may have been seen before pods came and went.
                for node, report in self._chance.choice(self._reports[-2:]).items():
                    self.backend.capabilities.agent_reports.accept_report(node, report)
            await asyncio.sleep(0.02)

    def look(self):
        """Give what is wanted, take back what is free, and check who is on which device."""
        spaces, core = self._world.namespaces, self._world.plane.core
        # Reservations first: what a pod of work names was held before that pod, and after it.
        lists = [core.list_namespaced_pod(space).items for space in (spaces.nodes, spaces.train, spaces.hub)]
        pods = [pod for each in lists for pod in each if pod.status.phase not in ("Succeeded", "Failed")]
        self._give(pods)
        self._reports.append({node: self._report(node) for node in self._devices})
        self._check(pods)
        reservations = [pod for pod in pods if pod.metadata.namespace == spaces.nodes]
        if reservations and self._chance.random() < self._deleting:
            self._delete(self._chance.choice(reservations))

    def _delete(self, pod):
        """As whoever drains a node by force."""
        meta, core = pod.metadata, self._world.plane.core
        try:
            core.delete_namespaced_pod(meta.name, meta.namespace, grace_period_seconds=0)
        except ApiException as error:
            if error.status != 404:
                raise
        self.deleted += 1

    def _give(self, pods):
        there = {pod.metadata.uid for pod in pods}
        self._given = {uid: what for uid, what in self._given.items() if uid in there}
        for pod in sorted(pods, key=lambda pod: pod.metadata.uid):
            node, uid = pod.spec.node_name, pod.metadata.uid
            wanted = int((pod.spec.containers[0].resources.limits or {}).get(GPU, 0))
            taken = {device for each in self._given.values() for device in each[3]}
            free = [device for device in self._devices.get(node, ()) if device not in taken]
            if wanted and uid not in self._given and len(free) >= wanted:
                devices = self._chance.sample(free, wanted)
                self._given[uid] = (node, pod.metadata.namespace, pod.metadata.name, devices)

    def _report(self, node):
        allocations = [
            AgentAllocation(namespace=namespace, pod=name, container="c", resource=GPU, device_ids=devices)
            for where, namespace, name, devices in self._given.values()
            if where == node
        ]
        devices = [
            AgentDevice(uuid=uuid, index=index, model="A100-40GB", memory_mib=40_000)
            for index, uuid in enumerate(self._devices[node])
        ]
        return AgentReport(probe="OK", devices=devices, allocations=allocations)

    def _check(self, pods):
        holders = {
            device: pod.metadata.name
            for pod in pods
            if pod.metadata.namespace == self._world.namespaces.nodes and not pod.metadata.deletion_timestamp
            for device in self._given.get(pod.metadata.uid, ((), (), (), ()))[3]
        }
        slots = {}
        for pod in pods:
            annotations = pod.metadata.annotations or {}
            devices = [device for device in annotations.get(_DEVICES, "").split(",") if device]
            for slot, device in zip(annotations.get(_SLOTS, "").split(","), devices, strict=False):
                told = f"{pod.metadata.name} on {slot} names {device}"
                assert slots.setdefault(device, slot) == slot, f"{told}, and so does a pod on {slots[device]}"
                assert device in holders or self._deleting, f"{told}, which no reservation holds: {holders}"
                self.seen.add(pod.metadata.uid)
