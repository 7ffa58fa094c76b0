"""The limits of a share of a device for the programs that use it.

Rules
-----
1. A share of N/1000 of a device is N/1000 of its memory, rounded down.
2. The frameworks are told to stay below it by the overhead of a CUDA context, which their allocators do not see.
3. Caps are cooperative: a program that ignores its environment is not held by them. Whole devices get none.
4. Devices are named by UUID: an index means another device to a process that sees fewer of them.
"""

from collections.abc import Sequence

from jupyter_gq.domain.amount import ONE_GPU, MiB, MilliGpu, format_gpus
from jupyter_gq.domain.cluster import Device

#: How strongly a share is enforced, as it is shown to its owner.
LEVEL = "cooperative"
#: Ids of simulated devices begin with it.
SIMULATED_PREFIX = "GPU-sim-"
#: A CUDA context and the libraries' own buffers.
OVERHEAD = MiB(600)
_BYTES = 1024 * 1024


def memory_quota(device: Device, milli: MilliGpu) -> MiB:
    """Return the memory of a share of `milli` on this device."""
    return MiB(device.memory * min(milli, ONE_GPU) // ONE_GPU)


def share_environment(devices: Sequence[Device], milli_per_device: MilliGpu) -> dict[str, str]:
    """Variables that tell a process which devices it has and how much of each; no devices = CPU only."""
    if not devices:
        return {
            "CUDA_VISIBLE_DEVICES": "",
            "NVIDIA_VISIBLE_DEVICES": "void",
            "JUPYTER_GQ_GPUS": "0",
            "JUPYTER_GQ_DEVICES": "",
        }
    ids = ",".join(device.id for device in devices)
    smallest = min(devices, key=lambda device: device.memory)
    quota = memory_quota(smallest, milli_per_device)
    environment = {
        "CUDA_VISIBLE_DEVICES": ids,
        "NVIDIA_VISIBLE_DEVICES": ids,
        "JUPYTER_GQ_GPUS": format_gpus(milli_per_device * len(devices)),
        "JUPYTER_GQ_DEVICES": ids,
    }
    if smallest.memory:  # 0 = nobody knows it
        environment |= {"JUPYTER_GQ_MEMORY_MIB": str(quota), "GQ_GPU_MEMORY_BYTES": str(quota * _BYTES)}
    if any(device.id.startswith(SIMULATED_PREFIX) for device in devices):
        environment["JUPYTER_GQ_SIMULATED"] = "1"
    if milli_per_device < ONE_GPU and smallest.memory:
        environment |= _caps(smallest, quota)
    return environment


def _caps(device: Device, quota: MiB) -> dict[str, str]:
    # A share no larger than the overhead still gets a cap that a program can start with.
    usable = max(quota - OVERHEAD, quota // 2, 1)
    fraction = f"{usable * 10_000 // device.memory / 10_000:.4f}"
    return {
        "JUPYTER_GQ_MEMORY_FRACTION": fraction,
        "XLA_CLIENT_MEM_FRACTION": fraction,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUPY_GPU_MEMORY_LIMIT": str(usable * _BYTES),
    }
