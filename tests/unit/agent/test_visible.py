"""Which GPUs a container can open."""

import pytest

from jupyter_gq.agent.visible import uuids_by_minor, visible_devices
from jupyter_gq.devices.probe import DeviceInfo

from .proc import AProc

UUIDS = {0: "GPU-b", 1: "GPU-a"}


def a_device(uuid, minor):
    return DeviceInfo(uuid=uuid, index=0, model="A100", memory=40_960, minor=minor)


def test_the_number_of_the_device_node_tells_the_device_and_not_its_index():
    assert uuids_by_minor([a_device("GPU-a", 1), a_device("GPU-b", 0)]) == UUIDS


def test_one_number_that_is_not_known_leaves_all_unknown():
    assert uuids_by_minor([a_device("GPU-a", 1), a_device("GPU-b", None)]) is None
    assert uuids_by_minor([]) is None, "the driver is lost"


def test_device_nodes_of_all_containers_count_and_other_files_do_not(tmp_path):
    proc = AProc(tmp_path)
    proc.process(1, nodes=["nvidia0", "nvidiactl", "nvidia-uvm", "nvidia0x", "xnvidia1", "nvidia7"])
    proc.process(2, nodes=["null"])
    assert visible_devices(tmp_path, [1, 2], UUIDS) == ["GPU-b"]
    proc.process(3, nodes=["nvidia1"])
    assert visible_devices(tmp_path, [1, 2, 3], UUIDS) == ["GPU-a", "GPU-b"]


def test_a_container_without_any_sees_none_which_is_known(tmp_path):
    AProc(tmp_path).process(1, nodes=["null"])
    assert visible_devices(tmp_path, [1], UUIDS) == []


@pytest.mark.parametrize("pids", [[], [9]])
def test_where_nobody_could_be_looked_into_nothing_is_known(tmp_path, pids):
    AProc(tmp_path).process(1, nodes=["nvidia0"])
    assert visible_devices(tmp_path, pids, UUIDS) is None
    assert visible_devices(tmp_path, [1], None) is None


def test_one_container_that_cannot_be_looked_into_leaves_all_unknown(tmp_path):
    """Also one whose user made a link of its /dev: from here it would lead elsewhere."""
    proc = AProc(tmp_path)
    proc.process(1, nodes=["nvidia0"])
    dev = proc.process(2) / "root" / "dev"
    dev.rmdir()
    dev.symlink_to(tmp_path / "1" / "root" / "dev")
    assert visible_devices(tmp_path, [1, 2], UUIDS) is None
    assert visible_devices(tmp_path, [1], UUIDS) == ["GPU-b"]
