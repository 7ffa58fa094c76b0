"""The limits of a share of a device, as environment variables for the programs that use it.

Rules
-----
- Proportional memory: a share of N/1000 of a device has N/1000 of its memory, rounded down.
- Room for the context: the caps of frameworks are lower than the share by the size of a CUDA context, which their
  allocators do not count.
- Cooperative caps: a program that ignores its environment is not limited. Whole devices have no caps.
- Devices by UUID: an index means another device to a process that sees fewer devices.
"""

from collections.abc import Sequence

from jupyter_gq.domain.amount import ONE_GPU, MiB, MilliGpu, format_gpus
from jupyter_gq.domain.cluster import Device

#: Beginning of the ids of simulated devices.
SIMULATED_PREFIX = "GPU-sim-"
#: Memory of a CUDA context and of the libraries' own buffers.
CONTEXT_OVERHEAD = MiB(600)
_BYTES = 1024 * 1024


def is_simulated(device: str) -> bool:
    """Return whether this is the id of a simulated device."""
    return device.startswith(SIMULATED_PREFIX)


def memory_quota(device: Device, milli: MilliGpu) -> MiB:
    """Return the memory in MiB, rounded down, of a share of `milli` thousandths of this device.

    Above 1000, all counts.
    """
    return _part_of(device.memory, milli)


def most_memory(total: MiB, milli: MilliGpu) -> MiB:
    """Return the most memory in MiB that a program of a share can have held on a device with `total` MiB.

    That is the quota and the size of a CUDA context, so that a program which was a little above its limit counts.
    """
    return MiB(min(total, _part_of(total, milli) + CONTEXT_OVERHEAD))


def watched_memory(device: Device, milli: MilliGpu) -> MiB | None:
    """Return the memory in MiB above which a share of `milli` of the device breaks its limit; None if unknown.

    A program that keeps its cap never breaks the limit, not even in a share that is smaller than a CUDA context.
    """
    if not device.memory:
        return None
    quota = memory_quota(device, milli)
    return MiB(max(quota, _usable_memory(quota) + CONTEXT_OVERHEAD))


def share_environment(devices: Sequence[Device], milli_per_device: MilliGpu) -> dict[str, str]:
    """Return the variables that tell a process its devices, its part of each, and its memory on the smallest of them.

    A part of a device also gets the memory caps of frameworks. If the memory of a device is unknown, no variable names
    an amount of memory. Without devices, the variables hide all GPUs.
    """
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
    if smallest.memory:  # 0 means unknown
        environment |= {"JUPYTER_GQ_MEMORY_MIB": str(quota), "GQ_GPU_MEMORY_BYTES": str(quota * _BYTES)}
    if any(is_simulated(device.id) for device in devices):
        environment["JUPYTER_GQ_SIMULATED"] = "1"
    if milli_per_device < ONE_GPU and smallest.memory:
        environment |= _memory_caps(smallest, quota)
    return environment


def _memory_caps(device: Device, quota: MiB) -> dict[str, str]:
    """Return the variables by which frameworks limit their memory on a share with this memory quota.

    The limit is the quota less the size of a CUDA context, but at least half of the quota.
    """
    usable = _usable_memory(quota)
    fraction = f"{usable * 10_000 // device.memory / 10_000:.4f}"
    return {
        "JUPYTER_GQ_MEMORY_FRACTION": fraction,
        "XLA_CLIENT_MEM_FRACTION": fraction,
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
        "CUPY_GPU_MEMORY_LIMIT": str(usable * _BYTES),
    }


def _part_of(memory: MiB, milli: MilliGpu) -> MiB:
    return MiB(memory * min(milli, ONE_GPU) // ONE_GPU)


def _usable_memory(quota: MiB) -> MiB:
    """Return the memory that frameworks may allocate in a share with this quota."""
    # A share that is smaller than the overhead still needs a cap with which a program can start.
    return MiB(max(quota - CONTEXT_OVERHEAD, quota // 2, 1))
