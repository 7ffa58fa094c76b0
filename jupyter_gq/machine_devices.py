"""`jupyter-gq devices`: list the GPUs of this machine with their use and their shares."""

import argparse
import os
import sys
from collections.abc import Collection, Sequence
from contextlib import redirect_stdout
from decimal import Decimal, InvalidOperation
from pathlib import Path

from pydantic import BaseModel, Field
from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.commands.clock import now
from jupyter_gq.commands.printing.answers import add_output_argument, print_json, print_lines, terminal_width
from jupyter_gq.commands.printing.tables import format_table
from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.controller.settings.config_file import ConfigFileError, ExecutedFiles, load_config
from jupyter_gq.devices.abilities import LimitFindings
from jupyter_gq.devices.checkpointer import Checkpointer, CheckpointError, CheckpointState, CheckpointSupport
from jupyter_gq.devices.choose import choose_checkpointer, choose_limiter, choose_probe
from jupyter_gq.devices.limits import watched_memory
from jupyter_gq.devices.linux.control_group import find_group
from jupyter_gq.devices.linux.processes import ProcessId
from jupyter_gq.devices.local_shares import LocalShare, find_local_shares
from jupyter_gq.devices.nvidia.driver_limits import LimitError, MemoryLimiter, describe_obstacle, is_kept
from jupyter_gq.devices.nvidia.mps import UNDER_MPS, MpsDaemon, default_folder, locate_folder
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.probe import DeviceInfo, DeviceProbe
from jupyter_gq.devices.simulated.devices import SimulatedDevices
from jupyter_gq.devices.suspension.journal import JOURNAL_NAME
from jupyter_gq.domain.amount import ONE_GPU, MilliGpu
from jupyter_gq.domain.cluster import Device
from jupyter_gq.domain.share_level import Enforcement, ShareLevel, decide_level

_NO_PARTITIONS = "Partitions are turned off by `nvidia-smi -mig 0`, while no program uses the GPU."


class ShareOnDevice(BaseModel):
    """A share of a device."""

    name: str
    gpus: str = Field(description="Size of the share in GPUs.")
    memory_mib: int | None = Field(description="Memory on this device; null: the driver does not tell.")
    suspended: bool = Field(description="A program of the share is suspended.")
    level: str = Field(
        description="Level at which the memory limit is enforced, as far as the programs and the driver show it: "
        "hardware, driver, mps, cooperative or advisory."
    )


class LocalDevice(BaseModel):
    """A device of this machine."""

    id: str
    index: int
    model: str
    memory_mib: int
    used_mib: int | None = Field(description="Memory that all programs hold; null: the driver does not tell.")
    shares: list[ShareOnDevice]
    suspendable: bool
    reason: str = Field(description='Why shares of the device cannot be suspended; "" if they can.')


class LocalDevices(BaseModel):
    """The devices of this machine."""

    detail: str = Field(description="A sentence on the driver.")
    devices: list[LocalDevice]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of `jupyter-gq devices`."""
    add_output_argument(parser, "an object with the list `devices`")
    add_config_argument(parser)
    parser.epilog = (
        "Shares are those of programs that you may read: root sees the shares of all users. LIMITS says at which level "
        "their memory limits are enforced."
    )


def add_config_argument(parser: argparse._ActionsContainer) -> None:
    """Add the option `--config` for a file with `c.SimulatedDevices` settings."""
    parser.add_argument(
        "--config",
        type=Path,
        metavar="FILE",
        help="the Hub's configuration file, for c.SimulatedDevices (default: simulated devices if there is no GPU)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the devices of this machine, and return 0. Raises `CommandRefused` if the file cannot be read."""
    settings = read_settings(arguments.config)
    probe = open_probe(settings)
    found = read_devices(
        probe, choose_checkpointer(probe), choose_limiter(probe), find_local_shares(), find_mps_devices(settings)
    )
    if arguments.output == "json":
        print_json(found)
    else:
        print_lines(format_devices(found, width=terminal_width()))
    return 0


def read_settings(config: Path | None) -> Config:
    """Return the settings of the configuration file, none without a file; raise `CommandRefused` for an error in it."""
    if config is None:
        return Config()
    try:
        # What the file prints is not part of the answer, which a script may read.
        with redirect_stdout(sys.stderr):
            return load_config(config.absolute(), ExecutedFiles())
    except ConfigFileError as error:
        raise CommandRefused(str(error)) from None


def open_probe(settings: Config) -> DeviceProbe:
    """Return the probe of this machine's devices, as the settings say; raise `CommandRefused` for a wrong setting."""
    try:
        return choose_probe(NvmlProbe(now=now), SimulatedDevices(config=settings), now)
    except TraitError as error:
        raise CommandRefused(str(error)) from None


def find_mps_devices(settings: Config) -> tuple[str, ...]:
    """Return the ids of the devices that are shared by MPS, as the settings say."""
    named = settings.LocalBackend.get("mps_devices", ())
    return tuple(map(str, named)) if isinstance(named, list | tuple) else ()


def find_journal(settings: Config) -> Path:
    """Return the path of the service's journal of suspensions, as the settings or the environment name its folder."""
    return _find_state(settings) / JOURNAL_NAME


def find_limits(settings: Config, probe: DeviceProbe) -> LimitFindings:
    """Return what the driver and the daemon of MPS say of limits, and what the settings switch on."""
    devices, named = probe.devices(), find_mps_devices(settings)
    present = {device.uuid for device in devices}
    mps = tuple(device for device in named if device in present)
    folder = locate_folder(str(settings.LocalBackend.get("mps_dir", default_folder())), _find_state(settings))
    daemon = MpsDaemon(folder=folder, devices=mps)
    return LimitFindings(
        obstacle=describe_obstacle(choose_limiter(probe), devices, str(find_group(Path("/proc/self")))),
        on=bool(settings.LocalBackend.get("driver_memory_limits", False)),
        mps_devices=named,
        mps_absent=tuple(device for device in named if device not in present),
        mps_lacking=tuple(sorted(daemon.lacking())),
        mps_log=str(folder / "log") if mps and daemon.is_silent() else "",
    )


def judge_support(probe: DeviceProbe, support: CheckpointSupport, mps_devices: Collection[str]) -> CheckpointSupport:
    """Return `support`, or why nothing can be suspended although the driver could: no device of `probe` lets it.

    A device is partitioned, or one of `mps_devices`.
    """
    devices = [device.uuid for device in probe.devices()]
    obstacles = {each: UNDER_MPS if each in mps_devices else probe.suspension_obstacle(each, []) for each in devices}
    if not support.available or not obstacles or not all(obstacles.values()):
        return support
    reasons = list(dict.fromkeys(filter(None, obstacles.values())))
    if reasons != [UNDER_MPS]:
        reasons.append(_NO_PARTITIONS)
    return CheckpointSupport(available=False, can_move=False, detail=" ".join(reasons))


def _find_state(settings: Config) -> Path:
    """Return the folder of the service, as the settings or the environment name it."""
    default = os.environ.get("JUPYTER_GQ_STATE_DIR", "jupyter-gq-state")
    return Path(str(settings.SchedulerService.get("state_dir", default)))


def read_devices(
    probe: DeviceProbe,
    checkpointer: Checkpointer,
    limiter: MemoryLimiter,
    shares: Sequence[LocalShare],
    mps_devices: Collection[str] = (),
) -> LocalDevices:
    """Return the present state of all devices, with those of the shares that are on them.

    Nothing on `mps_devices` can be suspended.
    """
    support = checkpointer.support()
    devices = [_read_device(device, probe, checkpointer, limiter, shares) for device in probe.devices()]
    devices = [
        each.model_copy(update={"suspendable": False, "reason": UNDER_MPS}) if each.id in mps_devices else each
        for each in devices
    ]
    if not support.available:
        devices = [each.model_copy(update={"suspendable": False, "reason": support.detail}) for each in devices]
    return LocalDevices(detail=probe.status().detail, devices=devices)


def format_devices(found: LocalDevices, *, width: int | None) -> list[str]:
    """Return the devices as lines of a table, after the sentence on the driver; memory is in MiB."""
    rows = [["DEVICE", "MODEL", "MEMORY", "USED", "SUSPENDABLE", "LIMITS", "SHARES"]]
    rows += [
        [
            device.id,
            device.model,
            str(device.memory_mib),
            "unknown" if device.used_mib is None else str(device.used_mib),
            "yes" if device.suspendable else "no",
            ", ".join(dict.fromkeys(share.level for share in device.shares)) or "-",
            ", ".join(_describe_share(share) for share in device.shares) or "-",
        ]
        for device in found.devices
    ]
    reasons = dict.fromkeys(f"Not suspendable: {device.reason}" for device in found.devices if device.reason)
    return [found.detail, *(format_table(rows, (2, 3), width=width) if found.devices else ()), *reasons]


def _read_device(
    device: DeviceInfo,
    probe: DeviceProbe,
    checkpointer: Checkpointer,
    limiter: MemoryLimiter,
    shares: Sequence[LocalShare],
) -> LocalDevice:
    """Return the present state of one device, as if the driver could suspend."""
    own = [share for share in shares if device.uuid in share.devices]
    free = probe.free_memory(device.uuid)
    reason = probe.suspension_obstacle(device.uuid, [each.pid for share in own for each in share.processes])
    return LocalDevice(
        id=device.uuid,
        index=device.index,
        model=device.model,
        memory_mib=device.memory,
        used_mib=None if free is None else device.memory - free,
        shares=[
            ShareOnDevice(
                name=share.name,
                gpus=share.gpus,
                memory_mib=_memory_of(share, device.uuid, probe),
                suspended=any(_is_suspended(process, checkpointer) for process in share.processes),
                level=_level_of(share, device, probe, limiter).value,
            )
            for share in own
        ],
        suspendable=reason is None,
        reason=reason or "",
    )


def _memory_of(share: LocalShare, device: str, probe: DeviceProbe) -> int | None:
    """Return the MiB of a device that the programs of a share hold; None if the driver does not tell."""
    usages = probe.usage(device, [process.pid for process in share.processes])
    if usages is None or any(usage.memory is None for usage in usages):
        return None
    return sum(usage.memory or 0 for usage in usages)


def _level_of(share: LocalShare, device: DeviceInfo, probe: DeviceProbe, limiter: MemoryLimiter) -> ShareLevel:
    """Return the level at which the memory limit of a share is enforced, as its programs and the driver show it."""
    milli = _size_of(share)
    found = Enforcement(
        has_gpu=True,
        whole=milli >= ONE_GPU,
        capped=share.capped,
        limited=_is_limited(share, device, milli, limiter),
        through_mps=_is_through_mps(share, device, probe),
    )
    return decide_level(found)


def _is_through_mps(share: LocalShare, device: DeviceInfo, probe: DeviceProbe) -> bool:
    """Return whether the programs of a share were told MPS's limits, and all that use the device are its clients."""
    used = probe.usage(device.uuid, [process.pid for process in share.processes])
    return share.through_mps and bool(used) and all(each.through_mps for each in used or ())


def _size_of(share: LocalShare) -> MilliGpu:
    """Return the part of each device that a share has; 0 if its programs do not tell."""
    try:
        size = Decimal(share.gpus)
        if size >= len(share.devices):
            return ONE_GPU
        return MilliGpu(int(size * ONE_GPU / len(share.devices))) if size > 0 else MilliGpu(0)
    except InvalidOperation:  # any program can set the variable
        return MilliGpu(0)


def _is_limited(share: LocalShare, device: DeviceInfo, milli: MilliGpu, limiter: MemoryLimiter) -> bool:
    """Return whether the driver limits the control group of a share to no more than its memory on this device."""
    groups = {find_group(Path("/proc") / str(process.pid)) for process in share.processes}
    model = Device(id=device.uuid, index=device.index, model=device.model, memory=device.memory, pool="")
    limit, group = watched_memory(model, milli), next(iter(groups))
    if limit is None or not milli or group is None or len(groups) > 1:
        return False
    try:
        return is_kept(limit, limiter.read_limit(device.uuid, str(group)))
    except LimitError:
        return False


def _is_suspended(process: ProcessId, checkpointer: Checkpointer) -> bool:
    """Tell whether the GPU state of a process is in host memory."""
    try:
        return checkpointer.uses_device(process) and checkpointer.state(process) is CheckpointState.CHECKPOINTED
    except CheckpointError:
        return False


def _describe_share(share: ShareOnDevice) -> str:
    """Return a share for the table, such as "notebook of ann (0.25 GPU, 1200 MiB)"."""
    memory = "memory unknown" if share.memory_mib is None else f"{share.memory_mib} MiB"
    return f"{share.name} ({share.gpus} GPU, {'suspended' if share.suspended else memory})"
