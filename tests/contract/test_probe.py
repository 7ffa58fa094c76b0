"""Every probe of devices raises no exception: a missing device or value is a state or None."""

import os

import pytest

from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.probe import ProbeState
from jupyter_gq.devices.simulated.devices import SimulatedProbe, parse_devices
from tests.unit.devices.test_nvml import FakeNvml


def nvml(**fails):
    return NvmlProbe(now=lambda: 1000.0, load=lambda: FakeNvml(**fails))


PROBES = {
    "simulated": lambda: SimulatedProbe(parse_devices("2x A100-40GB,T4-16GB"), why="test.", now=lambda: 1000.0),
    "simulated, none": lambda: SimulatedProbe((), why="test.", now=lambda: 1000.0),
    "nvml": nvml,
    "nvml without driver": lambda: nvml(nvmlInit="LIBRARY_NOT_FOUND"),
    "nvml that breaks on use": lambda: nvml(nvmlDeviceGetUUID="UNKNOWN"),
    "nvml of this machine": lambda: NvmlProbe(now=lambda: 1000.0),
}


@pytest.fixture(params=PROBES, ids=str)
def probe(request):
    return PROBES[request.param]()


def test_probe_has_devices_exactly_if_its_state_is_ok(probe):
    assert bool(probe.devices()) == (probe.status().state is ProbeState.OK)
    assert len(probe.status().detail) > 5


def test_devices_are_in_the_order_of_their_index_and_have_ids_of_their_own(probe):
    devices = probe.devices()
    assert [device.index for device in devices] == list(range(len(devices)))
    assert len({device.uuid for device in devices}) == len(devices)
    assert all(device.memory > 0 and device.model for device in devices)


def test_second_call_returns_the_same(probe):
    assert probe.devices() == probe.devices()
    assert probe.status() == probe.status()


def test_usage_is_of_the_given_processes(probe):
    for device in probe.devices():
        usage = probe.usage(device.uuid, [os.getpid(), 2**22 + 1])
        assert usage is None or {used.pid for used in usage} <= {os.getpid()}
        assert probe.usage(device.uuid, []) in ((), None)
        for used in usage or ():
            assert used.memory is None or used.memory >= 0
            assert used.utilisation is None or 0 <= used.utilisation <= 100


def test_usage_of_a_missing_device_is_unknown(probe):
    assert probe.usage("GPU-that-is-not-there", [os.getpid()]) is None


def test_free_memory_is_at_most_the_memory_of_the_device(probe):
    for device in probe.devices():
        assert 0 <= probe.free_memory(device.uuid) <= device.memory
        assert probe.suspension_obstacle(device.uuid, [os.getpid()]) is None


def test_free_memory_of_a_missing_device_is_unknown(probe):
    assert probe.free_memory("GPU-that-is-not-there") is None
