"""The shares of this machine's devices, as the environment of running programs shows them.

Each program of a share has the variables of `limits.share_environment`. Programs that this user may not read are not
seen.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

import psutil

from jupyter_gq.devices.linux.processes import ProcessId, read_process

_DEVICES, _GPUS, _CAP, _MPS, _JOB, _USER, _SERVER = (
    "JUPYTER_GQ_DEVICES",
    "JUPYTER_GQ_GPUS",
    "JUPYTER_GQ_MEMORY_FRACTION",
    "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
    "GQ_JOB_ID",
    "JUPYTERHUB_USER",
    "JUPYTERHUB_SERVER_NAME",
)


@dataclass(frozen=True, kw_only=True, slots=True)
class LocalShare:
    """A share of devices of this machine."""

    #: Name for people, such as "notebook of ann" or the id of a job.
    name: str
    #: Size of the share in GPUs as text, such as "0.25".
    gpus: str
    devices: tuple[str, ...]
    processes: tuple[ProcessId, ...]
    #: Whether its programs were told the memory limits of frameworks.
    capped: bool = False
    #: Whether its programs were told the memory limits of MPS.
    through_mps: bool = False


def find_local_shares() -> tuple[LocalShare, ...]:
    """Return the shares of this machine in order of their names, from the environment of all readable processes."""
    found: dict[LocalShare, list[ProcessId]] = {}
    for process, environment in _environments():
        devices = tuple(device for device in environment.get(_DEVICES, "").split(",") if device)
        if devices:
            share = LocalShare(
                name=_name_of(environment),
                gpus=environment.get(_GPUS, ""),
                devices=devices,
                processes=(),
                capped=bool(environment.get(_CAP)),
                through_mps=bool(environment.get(_MPS)),
            )
            found.setdefault(share, []).append(process)
    shares = (replace(share, processes=tuple(sorted(processes))) for share, processes in found.items())
    return tuple(sorted(shares, key=lambda share: (share.name, share.gpus, share.devices)))


def _environments() -> Iterator[tuple[ProcessId, Mapping[str, str]]]:
    """Yield each process whose environment can be read, with that environment."""
    for pid in psutil.pids():
        process = read_process(pid)
        with suppress(psutil.Error, OSError):
            if process is not None and not process.dead:
                yield process.id, psutil.Process(pid).environ()


def _name_of(environment: Mapping[str, str]) -> str:
    """Return the name of the share that a program with this environment belongs to."""
    if environment.get(_JOB):
        return environment[_JOB]
    user, server = environment.get(_USER, ""), environment.get(_SERVER, "")
    if not user:
        return "a program"
    return f"notebook of {user}" + (f" ({server})" if server else "")
