"""Settings of the local backend."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

from traitlets import Bool, Integer, List, TraitError, TraitType, Unicode, default, validate
from traitlets.config import LoggingConfigurable
from traitlets.utils.bunch import Bunch

from jupyter_gq.backends.control_groups import (
    enable_device_memory,
    find_own_group,
    find_parent_folder,
    prepare_parent,
)
from jupyter_gq.backends.enforcers import NO_ENFORCERS, Enforcers
from jupyter_gq.backends.machine_clock import MachineClock
from jupyter_gq.backends.memory_limits import DriverLimits, clear_left_limits
from jupyter_gq.backends.mps import MpsDevices
from jupyter_gq.client.finite_float import FiniteFloat
from jupyter_gq.devices.choose import choose_limiter
from jupyter_gq.devices.nvidia.mps import MpsDaemon, default_folder, locate_folder
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.devices.suspension.run_shares import RunShares
from jupyter_gq.domain.amount import ONE_CORE, parse_cpus, parse_memory
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import InvalidAmount
from jupyter_gq.domain.plain_text import quoted

from . import machine
from .backend import LocalRuns
from .bundles import LocalBundles
from .environment import KEPT_VARIABLES
from .node import MachineNode
from .options import LocalOptions
from .tasks import check_enter

#: Tasks without any amount for each core: jobs that wait for files or the network need less than one.
_UNCOUNTED_TASKS_OF_CORE = 4


class _Amount(TraitType[object, object]):
    """A trait that holds an amount as text or number, or None.

    The value is checked and not parsed: traitlets validates a value again that it has validated before.
    """

    def __init__(self, parse: Callable[[object], int], *, help: str) -> None:
        super().__init__(None, allow_none=True, help=help)
        self._parse = parse

    def validate(self, obj: object, value: object) -> object:
        """Return the value unchanged; raise `TraitError` with a sentence if it is no amount."""
        try:
            self._parse(value)
        except InvalidAmount as error:
            raise TraitError(
                f"c.{type(obj).__name__}.{self.name} = {value!r}: {error.problem}; {error.fix}."
            ) from error
        return value


class LocalBackend(LoggingConfigurable):
    """The settings of the local backend, from which the backend and its store of files are built.

    The backend itself cannot be a Configurable, because that class has a method `observe` of its own.
    """

    system_users = Bool(
        False,
        help="Run each job as the operating-system user that has its owner's name, as LocalProcessSpawner does. The "
        "service must be root. Off: jobs run as the service's own user, as with SimpleLocalProcessSpawner.",
    ).tag(config=True)
    command = List(
        Unicode(),
        help="Command that runs a job; the job's folder, `--run N` and `--task I` are appended. "
        "Default: the service's Python with `-P -m jupyter_gq.runner`.",
    ).tag(config=True)
    env_keep = List(
        Unicode(),
        list(KEPT_VARIABLES),
        help="Names (or patterns such as LC_*) of variables of the service that jobs keep.",
    ).tag(config=True)
    linger_timeout = FiniteFloat(
        10.0,
        help="Seconds for which a job's processes may run on after the job has reported its end.",
    ).tag(config=True)
    gang_grace = FiniteFloat(
        10.0, help="Seconds that the other tasks of a job have to end after a task has failed."
    ).tag(config=True)
    node_name = Unicode(help="Name of this machine in the lab. Default: its host name.").tag(config=True)
    cpus = _Amount(
        parse_cpus,
        help="CPU cores of this machine that all jobs together may request. A job may use cores that other jobs "
        "leave idle; control groups weigh jobs by their requests. Default: all cores that the service may use.",
    ).tag(config=True)
    memory = _Amount(
        parse_memory,
        help="Memory of this machine that all jobs together may request: GiB as a number, or text such as `48 GiB`. A "
        "smaller value leaves room for notebooks, which are not counted. Default: all memory that the service may use.",
    ).tag(config=True)

    max_processes = Integer(
        16_384,
        min=0,
        help="The maximum number of processes and threads for each task of a job; all tasks of a run together may use "
        "the sum. The limit needs control groups of version 2 that are delegated to the service. 0 = no limit. "
        "Default: 16384.",
    ).tag(config=True)

    max_uncounted_tasks = Integer(
        min=0,
        help="The maximum number of tasks that run at the same time on this machine and request neither GPU, CPU nor "
        "memory. Further jobs of this kind wait; notebooks, and jobs with any amount, neither count nor wait. "
        "0 = no limit. Default: four for each CPU core that the service may use.",
    ).tag(config=True)

    @default("max_uncounted_tasks")
    def _default_max_uncounted_tasks(self) -> int:
        return max(1, _UNCOUNTED_TASKS_OF_CORE * machine.count_cpus() // ONE_CORE)

    driver_memory_limits = Bool(
        False,
        help="True: NVIDIA's driver, from version 615 on, limits the GPU memory of each notebook and each job with a "
        "part of a GPU. The service must be root and have control groups of version 2, and each notebook server gets "
        "a group of its own. No release has been tried with it on hardware. Takes effect when the Hub starts. "
        "Default: False.",
    ).tag(config=True)

    mps_devices = List(
        Unicode(),
        help='Ids of the GPUs of this machine that are shared by NVIDIA\'s MPS, such as `["GPU-5c1e..."]`, as '
        "`jupyter-gq devices` shows them. Programs with a part of such a GPU compute at the same time. Nothing on it "
        "can be suspended. No release has been tried with it on hardware. Takes effect when the Hub starts. "
        "Default: none.",
    ).tag(config=True)
    mps_dir = Unicode(
        help="Folder of the daemon of MPS, with a short path. All users whose programs use MPS must be able to enter "
        "it. Default: `/run/jupyter-gq-mps` if the service is root, else `mps` in the state folder.",
    ).tag(config=True)

    @default("mps_dir")
    def _default_mps_dir(self) -> str:
        return default_folder()

    @validate("mps_devices")
    def _check_mps_devices(self, proposal: Bunch) -> list[str]:
        for name in proposal["value"]:
            if not name.startswith("GPU-"):
                raise TraitError(
                    f"c.LocalBackend.mps_devices = {quoted(proposal['value'])}: {quoted(name)} is not the id of a GPU; "
                    "use ids such as GPU-5c1e..., as `jupyter-gq devices` shows them."
                )
        return list(proposal["value"])

    @validate("command")
    def _check_command(self, proposal: Bunch) -> list[str]:
        """Refuse a command without a program, or with a character that no command can have."""
        words = list(proposal["value"])
        if not words or not words[0] or any("\0" in word for word in words):
            what = "has a NUL character" if any("\0" in word for word in words) else "names no program"
            raise TraitError(
                f"c.LocalBackend.command = {quoted(words)} {what}; write a program and its arguments, or leave the "
                "line out for the service's own Python."
            )
        return words

    @default("command")
    def _default_command(self) -> list[str]:
        # -P: the runner must not import modules from the user's folder, such as a random.py.
        return [sys.executable, "-P", "-m", "jupyter_gq.runner"]

    @default("node_name")
    def _default_node_name(self) -> str:
        return socket.gethostname() or "localhost"

    def backend(
        self,
        *,
        state_dir: Path,
        probe: DeviceProbe,
        clock: MachineClock,
        service_url: str,
        shares: RunShares | None = None,
        enforcers: Enforcers = NO_ENFORCERS,
    ) -> LocalRuns:
        """Build the backend, of which runners report to `service_url`.

        `shares` suspends runs; None = they cannot be suspended. `enforcers` limit shares beside the watchdog. Raises
        `AdminError` if this machine cannot start a job.
        """
        check_enter()
        return LocalRuns(
            self._make_options(state_dir),
            probe=probe,
            clock=clock,
            service_url=service_url,
            shares=shares,
            enforcers=enforcers,
        )

    def describe_machine(self, probe: DeviceProbe) -> Node:
        """Return this machine with the devices of the probe, as the backend would offer it."""
        return MachineNode(self._make_options(Path()), probe).describe()

    def _make_options(self, state_dir: Path) -> LocalOptions:
        """Return the options of a backend with the files of its jobs below `state_dir`."""
        return LocalOptions(
            state_dir=state_dir,
            command=tuple(self.command),
            node_name=self.node_name,
            system_users=self.system_users,
            env_keep=tuple(self.env_keep),
            linger_timeout=self.linger_timeout,
            gang_grace=self.gang_grace,
            max_processes=self.max_processes,
            max_uncounted_tasks=self.max_uncounted_tasks or None,
            cpu_milli=machine.count_cpus() if self.cpus is None else parse_cpus(self.cpus),
            memory=machine.measure_memory() if self.memory is None else parse_memory(self.memory),
        )

    def enforcers(
        self, *, state_dir: Path, probe: DeviceProbe, awake: Callable[[], float], on_change: Callable[[], None]
    ) -> Enforcers:
        """Build the enforcers that are switched on.

        `awake` returns the seconds for which the machine has been awake. `on_change` is called after the state of one
        has changed.
        """
        limits, limiter, own = None, choose_limiter(probe), find_own_group()
        present = [device.uuid for device in probe.devices()]
        if self.driver_memory_limits:
            parent = prepare_parent(own)
            enable_device_memory(parent)
            limits = DriverLimits(limiter=limiter, devices=present, parent=parent, awake=awake, on_change=on_change)
        elif own is not None:
            clear_left_limits(limiter, present, find_parent_folder(own))
        devices, mps = self._present_mps_devices(probe), None
        if devices:
            daemon = MpsDaemon(folder=locate_folder(self.mps_dir, state_dir), devices=devices)
            mps = MpsDevices(daemon=daemon, awake=awake, on_change=on_change)
        return Enforcers(limits=limits, mps=mps)

    def _present_mps_devices(self, probe: DeviceProbe) -> tuple[str, ...]:
        """Return which of `mps_devices` this machine has; others are logged."""
        named, present = dict.fromkeys(self.mps_devices), {device.uuid for device in probe.devices()}
        for name in named.keys() - present:
            self.log.warning("c.LocalBackend.mps_devices names %s, which this machine does not have.", name)
        return tuple(name for name in named if name in present)

    def bundles(self, *, state_dir: Path) -> LocalBundles:
        """Build the store of the jobs' files below `state_dir`."""
        return LocalBundles(state_dir, system_users=self.system_users)
