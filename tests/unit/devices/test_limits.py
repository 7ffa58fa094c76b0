"""The limits of a share are passed to programs as environment variables."""

import pytest

from jupyter_gq.devices.limits import memory_quota, share_environment
from jupyter_gq.domain.amount import MilliGpu
from tests.builders import a_device


def test_process_without_devices_sees_none():
    assert share_environment((), MilliGpu(1000)) == {
        "CUDA_VISIBLE_DEVICES": "",
        "NVIDIA_VISIBLE_DEVICES": "void",
        "JUPYTER_GQ_GPUS": "0",
        "JUPYTER_GQ_DEVICES": "",
    }


def test_fraction_has_caps_below_its_quota():
    environment = share_environment((a_device("GPU-1", memory=40960),), MilliGpu(250))
    assert environment == {
        "CUDA_VISIBLE_DEVICES": "GPU-1",
        "NVIDIA_VISIBLE_DEVICES": "GPU-1",
        "JUPYTER_GQ_GPUS": "0.25",
        "JUPYTER_GQ_DEVICES": "GPU-1",
        "JUPYTER_GQ_MEMORY_MIB": "10240",
        "GQ_GPU_MEMORY_BYTES": str(10240 * 2**20),
        "JUPYTER_GQ_MEMORY_FRACTION": "0.2353",
        "XLA_CLIENT_MEM_FRACTION": "0.2353",
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUPY_GPU_MEMORY_LIMIT": str(9640 * 2**20),
    }


def test_whole_devices_have_no_caps():
    devices = (a_device("GPU-1", 0, memory=1000), a_device("GPU-sim-2", 1, memory=2000))
    assert share_environment(devices, MilliGpu(1000)) == {
        "CUDA_VISIBLE_DEVICES": "GPU-1,GPU-sim-2",
        "NVIDIA_VISIBLE_DEVICES": "GPU-1,GPU-sim-2",
        "JUPYTER_GQ_GPUS": "2",
        "JUPYTER_GQ_DEVICES": "GPU-1,GPU-sim-2",
        "JUPYTER_GQ_MEMORY_MIB": "1000",
        "GQ_GPU_MEMORY_BYTES": str(1000 * 2**20),
        "JUPYTER_GQ_SIMULATED": "1",
    }


@pytest.mark.parametrize("memory", [1, 600, 15360, 143771])
@pytest.mark.parametrize("milli", [1, 10, 333, 500, 999])
def test_caps_of_shares_that_fill_a_device_do_not_exceed_it(memory, milli):
    device = a_device("GPU-1", memory=memory)
    environment = share_environment((device,), MilliGpu(milli))
    shares = 1000 // milli
    assert memory_quota(device, MilliGpu(milli)) * shares <= memory
    assert float(environment["JUPYTER_GQ_MEMORY_FRACTION"]) <= max(milli / 1000, 1 / memory)


def test_unknown_memory_sets_no_variable():
    unknown = a_device("MIG-a", memory=0)
    for milli in (250, 1000):
        told = share_environment((unknown,), milli)
        assert told["CUDA_VISIBLE_DEVICES"] == "MIG-a"
        assert not [name for name in told if "MEM" in name or name.endswith("LIMIT")]
