"""The GPUs that a container can open are found from its device nodes."""

import pytest

from jupyter_gq.agent.visible_devices import find_visible_devices, map_minors_to_uuids
from jupyter_gq.devices.probe import DeviceInfo

from .proc import FakeProc

UUIDS = {0: "GPU-b", 1: "GPU-a"}


def a_device(uuid, minor):
    return DeviceInfo(uuid=uuid, index=0, model="A100", memory=40_960, minor=minor)


def test_device_is_identified_by_its_minor_number_and_not_by_its_index():
    assert map_minors_to_uuids([a_device("GPU-a", 1), a_device("GPU-b", 0)]) == UUIDS


def test_one_unknown_minor_number_makes_all_unknown():
    assert map_minors_to_uuids([a_device("GPU-a", 1), a_device("GPU-b", None)]) is None
    assert map_minors_to_uuids([]) is None, "the driver is lost"


def test_device_nodes_of_all_containers_count_and_other_files_do_not(tmp_path):
    proc = FakeProc(tmp_path)
    proc.add(1, nodes=["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia0x", "xnvidia1", "nvidia7"])
    proc.add(2, nodes=["null"])
    assert find_visible_devices(tmp_path, [1, 2], UUIDS) == ["GPU-b"]
    proc.add(3, nodes=["nvidia1"])
    assert find_visible_devices(tmp_path, [1, 2, 3], UUIDS) == ["GPU-a", "GPU-b"]


def test_container_without_device_nodes_is_known_to_see_no_device(tmp_path):
    FakeProc(tmp_path).add(1, nodes=["null"])
    assert find_visible_devices(tmp_path, [1], UUIDS) == []


@pytest.mark.parametrize("pids", [[], [9]])
def test_visible_devices_are_unknown_if_no_process_can_be_inspected(tmp_path, pids):
    FakeProc(tmp_path).add(1, nodes=["nvidia0"])
    assert find_visible_devices(tmp_path, pids, UUIDS) is None
    assert find_visible_devices(tmp_path, [1], None) is None


def test_one_container_that_cannot_be_inspected_makes_all_unknown(tmp_path):
    """A container whose user replaced /dev by a link cannot be inspected: the link leads elsewhere from outside."""
    proc = FakeProc(tmp_path)
    proc.add(1, nodes=["nvidia0"])
    dev = proc.add(2) / "root" / "dev"
    dev.rmdir()
    dev.symlink_to(tmp_path / "1" / "root" / "dev")
    assert find_visible_devices(tmp_path, [1, 2], UUIDS) is None
    assert find_visible_devices(tmp_path, [1], UUIDS) == ["GPU-b"]


def test_device_node_of_a_nameless_device_makes_its_pod_unknown_and_no_other(tmp_path):
    proc = FakeProc(tmp_path)
    proc.add(1, nodes=["nvidia0", "nvidiactl"])
    proc.add(2, nodes=["nvidia1", "nvidia7"])
    assert find_visible_devices(tmp_path, [1], UUIDS, are_all_named=False) == ["GPU-b"]
    assert find_visible_devices(tmp_path, [2], UUIDS, are_all_named=False) is None
