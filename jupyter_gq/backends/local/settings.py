"""Settings of the local backend."""

import socket
import sys
from collections.abc import Callable
from pathlib import Path

from traitlets import Bool, Float, List, TraitError, TraitType, Unicode, default
from traitlets.config import LoggingConfigurable

from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import parse_cpus, parse_memory
from jupyter_gq.domain.errors import InvalidAmount

from . import machine
from .backend import LocalRuns
from .bundles import LocalBundles
from .environment import KEPT
from .options import LocalOptions


class _Amount(TraitType[object, object]):
    """An amount as it is written, or None; it is only checked, for traitlets validates what it has validated before."""

    def __init__(self, parse: Callable[[object], int], *, help: str) -> None:
        super().__init__(None, allow_none=True, help=help)
        self._parse = parse

    def validate(self, obj: object, value: object) -> object:
        """Refuse what cannot be read, in a sentence."""
        try:
            self._parse(value)
        except InvalidAmount as error:
            raise TraitError(
                f"c.{type(obj).__name__}.{self.name} = {value!r}: {error.problem}; {error.fix}."
            ) from error
        return value


class LocalBackend(LoggingConfigurable):
    """Training workloads as processes of this machine: what can be set, and what is built from it.

    (The backend itself cannot be a Configurable: that class has an `observe` of its own.)
    """

    system_users = Bool(
        False,
        help="True: run each job as the operating-system user with the name of its owner, as LocalProcessSpawner runs "
        "servers; the service must be root. False: jobs run as the service's own user, as under "
        "SimpleLocalProcessSpawner. Default: False.",
    ).tag(config=True)
    command = List(
        Unicode(),
        help="Command that runs a job. The folder of the job, `--run N` and `--task I` are appended to it. "
        "Default: the service's Python with `-P -m jupyter_gq.runner`.",
    ).tag(config=True)
    env_keep = List(
        Unicode(),
        list(KEPT),
        help="Environment variables of the service that jobs inherit: names, or patterns such as LC_*.",
    ).tag(config=True)
    linger_timeout = Float(
        10.0, help="Seconds that processes of a job may outlive its reported end. After that they are killed."
    ).tag(config=True)
    gang_grace = Float(10.0, help="Seconds that the other tasks of a job have to end after a task has failed.").tag(
        config=True
    )
    node_name = Unicode(help="Name of this machine in the lab. Default: its host name.").tag(config=True)
    cpus = _Amount(
        parse_cpus,
        help="CPU cores of this machine that all running jobs together may ask for. The amount of a job is counted, "
        "but not enforced. Default: all cores that the service may use.",
    ).tag(config=True)
    memory = _Amount(
        parse_memory,
        help="Memory of this machine that all running jobs together may ask for: GiB as a number, or text such as "
        '"48 GiB". Notebooks are not counted, so leave memory for them. Default: all memory that the service may use.',
    ).tag(config=True)

    @default("command")
    def _default_command(self) -> list[str]:
        # -P: a random.py in the user's folder is not to be imported by the runner.
        return [sys.executable, "-P", "-m", "jupyter_gq.runner"]

    @default("node_name")
    def _default_node_name(self) -> str:
        return socket.gethostname() or "localhost"

    def backend(self, *, state_dir: Path, probe: DeviceProbe, now: Callable[[], float], service_url: str) -> LocalRuns:
        """Return the backend; `service_url` is the URL to which its runners report."""
        options = LocalOptions(
            state_dir=state_dir,
            command=tuple(self.command),
            node_name=self.node_name,
            system_users=self.system_users,
            env_keep=tuple(self.env_keep),
            linger_timeout=self.linger_timeout,
            gang_grace=self.gang_grace,
            cpu_milli=machine.cpus() if self.cpus is None else parse_cpus(self.cpus),
            memory=machine.memory() if self.memory is None else parse_memory(self.memory),
        )
        return LocalRuns(options, probe=probe, now=now, service_url=service_url)

    def bundles(self, *, state_dir: Path) -> LocalBundles:
        """Return the store of the jobs' files."""
        return LocalBundles(state_dir, system_users=self.system_users)
