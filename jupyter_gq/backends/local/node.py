"""The machine of the service as a node of the cluster."""

from dataclasses import replace

from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.cluster import Device, Node

from .options import LocalOptions


class MachineNode:
    """The node that this machine is; devices that the probe no longer shows stay, marked as not healthy."""

    def __init__(self, options: LocalOptions, probe: DeviceProbe) -> None:
        self._options, self._probe = options, probe
        self._devices: tuple[Device, ...] = ()

    def describe(self) -> Node:
        """Return the node as it is now."""
        present = tuple(
            Device(id=d.uuid, index=d.index, model=d.model, memory=d.memory, pool="default")
            for d in self._probe.devices()
        )
        ids = {device.id for device in present}
        lost = (replace(device, healthy=False) for device in self._devices if device.id not in ids)
        self._devices = tuple(sorted((*present, *lost), key=lambda device: (device.index, device.id)))
        options = self._options
        return Node(name=options.node_name, devices=self._devices, cpu_milli=options.cpu_milli, memory=options.memory)

    def devices(self) -> tuple[Device, ...]:
        """Return the devices that were seen last."""
        return self._devices or self.describe().devices
