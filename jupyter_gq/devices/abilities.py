"""The abilities of this machine that matter for shares of GPUs, each with its state and what to do for more.

Rules
-----
- Nothing is changed: each finding is read from files, from the driver, or from the search path of programs.
- Honest: an ability that no one has tried on hardware yet is marked as unverified.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from jupyter_gq.devices.nvidia.driver_limits import LIMITS_FROM
from jupyter_gq.devices.suspension.host_memory import LinuxHostMemory

from .checkpointer import CheckpointSupport
from .probe import ProbeState, ProbeStatus

#: What a driver does that can resume on another GPU.
_MOVES = "GPU memory can come back on another GPU of the same model."
#: What an administrator does to have shares of real devices suspended.
_SUSPEND_OPT_IN = (
    "Idle notebooks on real GPUs are suspended only with c.IdlePolicy.suspend = True, because no release has been "
    "tried with that on hardware. Try `make test-gpu` first."
)
#: What an administrator does to have the driver limit the memory of shares.
_LIMITS_OPT_IN = (
    "On one machine, parts of GPUs get such limits with c.LocalBackend.driver_memory_limits = True, if the service is "
    "root. No release has been tried with that on hardware."
)
#: What an administrator does to have devices shared by MPS.
_MPS_OPT_IN = (
    "On one machine, GPUs are shared by MPS if c.LocalBackend.mps_devices names their ids. Nothing on them can be "
    "suspended. No release has been tried with that on hardware."
)
_MPS_ABSENT = (
    "{device}: this machine has no such GPU. Correct c.LocalBackend.mps_devices by the ids of `jupyter-gq devices`."
)
_MPS_LACKING = (
    "{device}: the daemon was started without it, so its programs run without MPS. The service starts the daemon anew "
    "as soon as no program uses MPS{ending}."
)
_VERSION = re.compile(r"\s(\d+)\.\d+(?:\.\d+)?\s")
_MPS_SILENT = (
    "The daemon does not answer, so new programs on these GPUs find no MPS. A running service starts it anew within "
    "ten seconds. If it stays so, {log} says why."
)
_MPS_PROGRAMS = ("nvidia-cuda-mps-control", "nvidia-cuda-mps-server")
#: Content of /proc/self/uid_map outside of every user namespace.
_ALL_USERS = ["0", "0", "4294967295"]


class AbilityState(StrEnum):
    """The states of an ability."""

    WORKS = "works"
    UNVERIFIED = "unverified"  # everything that is needed is there, but nobody has tried it on hardware
    OFF = "off"  # present, and not switched on
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, kw_only=True, slots=True)
class Ability:
    """An ability of a machine."""

    name: str
    state: AbilityState
    #: Sentence on what was found.
    found: str
    #: Sentence on what to install or set; "" = nothing.
    advice: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Machine:
    """A machine as its files show it: the folders in which Linux and the driver tell what they can do.

    Without arguments, this machine. Tests pass folders with the files of another one.
    """

    #: The folder in which the kernel tells of processes, and the driver tells its version.
    proc: Path = Path("/proc")
    #: The folder in which the kernel tells what control groups can limit.
    sys: Path = Path("/sys")
    #: The folder with the sockets of daemons that run.
    run: Path = Path("/run")
    #: Function that returns the path of the program with a name; None if it is not installed.
    which: Callable[[str], str | None] = shutil.which

    def text(self, path: Path) -> str:
        """Return the text of a small file; "" if it cannot be read."""
        try:
            return path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def driver_version(self) -> int | None:
        """Return the first number of the version of NVIDIA's kernel module; None if there is none."""
        found = _VERSION.search(self.text(self.proc / "driver/nvidia/version"))
        return None if found is None else int(found[1])

    def controllers(self) -> frozenset[str] | None:
        """Return what control groups of version 2 can limit here; None if there are none."""
        file = self.sys / "fs/cgroup/cgroup.controllers"
        return frozenset(self.text(file).split()) if file.exists() else None


@dataclass(frozen=True, kw_only=True, slots=True)
class LimitFindings:
    """The findings on the limits of the driver and on MPS beside what the files of a machine show."""

    #: Why the driver refuses to tell a limit, as a sentence; "" = it tells it, or was not asked.
    obstacle: str = ""
    #: Whether the service shall have the driver limit shares; None = it has no such setting here.
    on: bool | None = None
    #: Ids of the devices that the service shall share by MPS.
    mps_devices: tuple[str, ...] = ()
    #: Named devices that this machine does not have, and devices that the daemon of MPS was started without.
    mps_absent: tuple[str, ...] = ()
    mps_lacking: tuple[str, ...] = ()
    #: Folder with the log of the daemon of MPS, if that was started and does not answer; "" = it answers, or need not.
    mps_log: str = ""


def find_abilities(
    machine: Machine, status: ProbeStatus, support: CheckpointSupport, *, simulated: bool, limits: LimitFindings
) -> tuple[Ability, ...]:
    """Return what a machine can do for shares of GPUs, one entry each: such as suspend them, or limit their memory.

    `status` tells whether GPUs were found, `support` whether the driver can suspend, and `limits` what it says of
    memory limits, and what is switched on. All other entries are read from the files of `machine`. If `simulated`, the
    GPUs are simulated ones, whose suspension is tested and so counts as WORKS; that of real GPUs counts as UNVERIFIED.
    The order is that in which the entries are shown.
    """
    return tuple(_abilities(machine, status, support, simulated, limits))


def _abilities(
    machine: Machine, status: ProbeStatus, support: CheckpointSupport, simulated: bool, limits: LimitFindings
) -> Iterator[Ability]:
    """Yield the abilities in the order in which they are shown."""
    works = AbilityState.WORKS if simulated else AbilityState.UNVERIFIED
    yield Ability(
        name="devices",
        state=AbilityState.WORKS if status.state is ProbeState.OK else AbilityState.MISSING,
        found=status.detail,
    )
    yield find_driver(machine)
    yield Ability(
        name="suspend",
        state=works if support.available else AbilityState.MISSING,
        found=support.detail,
        advice=_SUSPEND_OPT_IN if support.available and not simulated else "",
    )
    yield Ability(
        name="resume on another GPU",
        state=works if support.can_move else AbilityState.MISSING,
        found=_MOVES if support.can_move else "GPU memory comes back on the same GPU only.",
        # Where nothing is suspended, that comes first.
        advice="Install driver 580 or newer." if support.available and not support.can_move else "",
    )
    yield _host_memory()
    yield _persistence(machine)
    yield _mps(machine, limits)
    yield find_memory_limits(machine, limits)
    yield _control_groups(machine)
    yield _processes(machine)


def judge_journal(trouble: str) -> tuple[Ability, ...]:
    """Return the ability to keep the journal of suspensions if something is wrong with it, else nothing.

    `trouble` is a sentence that also says what to do; "" = nothing is wrong.
    """
    if not trouble:
        return ()
    return (Ability(name="journal of suspensions", state=AbilityState.MISSING, found=trouble),)


def find_driver(machine: Machine) -> Ability:
    """Return the ability `driver`, from the version of its kernel module."""
    version = machine.driver_version()
    if version is None:
        return Ability(
            name="driver",
            state=AbilityState.MISSING,
            found="There is no kernel module of NVIDIA's driver.",
            advice="Install NVIDIA's driver, version 570 or newer.",
        )
    old = version < 570
    return Ability(
        name="driver",
        state=AbilityState.MISSING if old else AbilityState.WORKS,
        found=f"NVIDIA's driver is of version {version}.",
        advice="Install version 570 or newer: older ones cannot suspend." if old else "",
    )


def _host_memory() -> Ability:
    room = LinuxHostMemory().room([os.getpid()])
    if room is None:
        return Ability(name="host memory", state=AbilityState.UNKNOWN, found="It is not known how much is free.")
    return Ability(
        name="host memory",
        state=AbilityState.WORKS,
        found=f"{room.memory} MiB are free for GPU state, as {room.place} allows.",
    )


def _persistence(machine: Machine) -> Ability:
    if (machine.run / "nvidia-persistenced/socket").exists():
        return Ability(name="persistence", state=AbilityState.WORKS, found="The driver stays loaded.")
    return Ability(
        name="persistence",
        state=AbilityState.UNKNOWN,
        found="The daemon nvidia-persistenced does not run.",
        advice="Start nvidia-persistenced, so that the driver stays loaded while no program uses a GPU.",
    )


def _mps(machine: Machine, limits: LimitFindings) -> Ability:
    missing = [name for name in _MPS_PROGRAMS if machine.which(name) is None]
    if missing:
        return Ability(
            name="MPS",
            state=AbilityState.MISSING,
            found=f"The programs {' and '.join(missing)} are not on the search path.",
            advice="Install the driver's compute utilities. Only shares that are never suspended can use MPS.",
        )
    if limits.mps_devices:
        return _mps_devices(limits)
    return Ability(
        name="MPS",
        state=AbilityState.UNVERIFIED,
        found="Its programs are there.",
        advice=_MPS_OPT_IN,
    )


def _mps_devices(limits: LimitFindings) -> Ability:
    """Return the ability `MPS` where it is switched on, with a sentence on each device that it does not share."""
    without = {*limits.mps_absent, *limits.mps_lacking}
    shared = [device for device in limits.mps_devices if device not in without]
    absent = [_MPS_ABSENT.format(device=device) for device in limits.mps_absent]
    ending = f", or at once when the notebooks and jobs on {' and '.join(shared)} are ended" if shared else ""
    lacking = [_MPS_LACKING.format(device=device, ending=ending) for device in limits.mps_lacking]
    silent = [_MPS_SILENT.format(log=limits.mps_log)] if limits.mps_log else []
    found = [f"Its programs are there. It is switched on for {', '.join(limits.mps_devices)}."]
    found += [f"It does not share {', '.join(sorted(without))}."] if without else []
    found += ["Its daemon does not answer."] if silent else []
    return Ability(
        name="MPS",
        state=AbilityState.MISSING if without or silent else AbilityState.UNVERIFIED,
        found=" ".join(found),
        advice=" ".join(silent + absent + lacking),
    )


def find_memory_limits(machine: Machine, limits: LimitFindings) -> Ability:
    """Return the ability of the driver to limit the memory of control groups, from the versions and the findings."""
    version, name = machine.driver_version(), "memory limits of the driver"
    if version is None or version < LIMITS_FROM:
        return Ability(
            name=name,
            state=AbilityState.MISSING,
            found="The driver cannot limit the GPU memory of control groups.",
            advice=f"Install NVIDIA's driver, version {LIMITS_FROM} or newer.",
        )
    if limits.obstacle:
        found = "The driver is new enough, but tells no limit."
        return Ability(name=name, state=AbilityState.MISSING, found=found, advice=limits.obstacle)
    kernel = "dmem" in (machine.controllers() or ())
    found = f"The driver can, {'with' if kernel else 'without'} the controller dmem of the kernel; root sets limits."
    return Ability(
        name=name,
        state=AbilityState.UNVERIFIED,
        found=f"{found} It is switched on." if limits.on else found,
        advice=_LIMITS_OPT_IN if limits.on is False else "",
    )


def _control_groups(machine: Machine) -> Ability:
    controllers, name = machine.controllers(), "control groups"
    if controllers is None:
        return Ability(
            name=name,
            state=AbilityState.MISSING,
            found="There are no control groups of version 2.",
            advice="Start the machine with systemd.unified_cgroup_hierarchy=1, so that jobs can be limited.",
        )
    missing = sorted({"cpu", "memory", "pids"} - controllers)
    return Ability(
        name=name,
        state=AbilityState.MISSING if missing else AbilityState.WORKS,
        found=f"Version 2, without {', '.join(missing)}." if missing else "Version 2, with cpu, memory and pids.",
        advice="Have these controllers delegated to this machine or container." if missing else "",
    )


def _processes(machine: Machine) -> Ability:
    name = "programs of other users"
    if machine.text(machine.proc / "self/uid_map").split() != _ALL_USERS:
        return Ability(
            name=name,
            state=AbilityState.UNKNOWN,
            found="This program runs in a user namespace, where root may not suspend programs from outside.",
            advice="Run it outside, or suspend only programs from inside.",
        )
    if os.geteuid() == 0:
        return Ability(name=name, state=AbilityState.UNVERIFIED, found="Root may suspend the programs of all users.")
    return Ability(
        name=name,
        state=AbilityState.UNVERIFIED,
        found="Only programs of this user can be suspended.",
        advice="Run the service as root to suspend the programs of all users.",
    )
