"""The command `jupyter-gq agent`: it builds the agent of one node and runs it."""

import asyncio
import contextlib
import functools
import logging
import os
import random
import signal
import sys
from pathlib import Path

from traitlets import Bool, Bunch, Enum, TraitError, Unicode, default, validate
from traitlets.config import Application, Config

from jupyter_gq.client.finite_float import FiniteFloat
from jupyter_gq.client.plain_output import log_plainly
from jupyter_gq.devices.abilities import Machine
from jupyter_gq.devices.choose import choose_probe
from jupyter_gq.devices.linux.processes import has_host_pids
from jupyter_gq.devices.meter import ProbeMeter
from jupyter_gq.devices.nvidia.nvml import NvmlProbe
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.devices.simulated.devices import SimulatedDevices
from jupyter_gq.domain.errors import AdminError

from . import clock
from .abilities import NodeAbilities
from .agent import MAX_INTERVAL, MIN_INTERVAL, Agent
from .backoff import ExponentialBackoff
from .config_file import load_config
from .kubelet import KubeletSocket
from .node import LocalNode
from .observer import NodeObserver
from .processes import Processes, find_pod_by_cgroup, find_pod_by_environment
from .service_connection import ServiceConnection
from .shares import OFF, PodShares
from .signals import PodSignals
from .suspending import make_pod_shares

#: Timeout of one observation in seconds: for the driver and the kubelet together.
_OBSERVATION_TIMEOUT = 10.0


class NodeAgent(Application):
    """The program that observes the GPUs of one node of a cluster and reports to the service.

    One agent runs on each node with GPUs.
    """

    name = "jupyter-gq agent"
    description = "The agent of one node of a Kubernetes cluster. A DaemonSet starts it."
    classes = [SimulatedDevices]
    aliases = {"config": "NodeAgent.config_file", "f": "NodeAgent.config_file"}

    config_file = Unicode("", help="A configuration file of traitlets, such as `agent.py`. Default: none.").tag(
        config=True
    )
    service_url = Unicode(
        help="Address of the service with its prefix, such as `http://gq-service.hub:8089/services/jupyter-gq/`. "
        "Default: the environment variable `GQ_SERVICE_URL`."
    ).tag(config=True)
    token_file = Unicode(
        help="File with the projected service-account token (audience `jupyter-gq`) of the agent's pod. The kubelet "
        "renews the token, so the agent reads the file for each report. Default: the environment variable "
        "`GQ_TOKEN_FILE`, else `/var/run/secrets/jupyter-gq/token`."
    ).tag(config=True)
    node_name = Unicode(
        help="Name of the node as the cluster knows it. Default: the environment variable `NODE_NAME`."
    ).tag(config=True)
    pod_resources = Unicode(
        "/var/lib/kubelet/pod-resources/kubelet.sock",
        help="Socket of the kubelet that lists the devices of each pod.",
    ).tag(config=True)
    proc = Unicode(
        "/proc",
        help="The /proc of the node, which shows the processes of its pods. With `hostPID` it is the agent's own.",
    ).tag(config=True)
    processes = Enum(
        ["cgroup", "environment"],
        "cgroup",
        help="How the pod of a process is found: `cgroup` = by its cgroup, as container runtimes name it; "
        "`environment` = by the variable `JUPYTER_GQ_POD_UID`, for a kubelet that runs pods as plain processes.",
    ).tag(config=True)
    end_programs = Bool(
        False,
        help="Whether the agent interrupts and ends the largest program of a share above its memory limit, when the "
        "service orders it (`c.Pools.watch_memory`). The agent then needs the ids of processes on the host, and the "
        "right to signal them. Otherwise shares of this node stay `cooperative`.",
    ).tag(config=True)
    suspend = Bool(
        False,
        help="Whether the agent suspends the GPU state of idle notebooks, when the service orders it "
        "(`c.IdlePolicy.suspend`). Not verified on hardware. The agent then needs the ids of processes on the host, "
        "the driver's library for CUDA, and `journal`. Bring suspended notebooks back before you turn it off again.",
    ).tag(config=True)
    journal = Unicode(
        "/var/lib/jupyter-gq",
        help="Folder in which the agent notes each step of a suspension. It must be a folder of the node that only "
        "root can write, because the next agent finds there what is suspended.",
    ).tag(config=True)
    report_every = FiniteFloat(
        5.0,
        help="Longest interval between two reports, in seconds. The service may ask for a shorter one. A change of its "
        "orders makes the agent report at once.",
    ).tag(config=True)

    @default("service_url")
    def _default_service_url(self) -> str:
        return os.environ.get("GQ_SERVICE_URL", "")

    @default("token_file")
    def _default_token_file(self) -> str:
        return os.environ.get("GQ_TOKEN_FILE", "/var/run/secrets/jupyter-gq/token")

    @default("node_name")
    def _default_node_name(self) -> str:
        return os.environ.get("NODE_NAME", "")

    @validate("report_every")
    def _check_report_every(self, proposal: Bunch) -> float:
        """Return the interval as a float; raise `TraitError` if it is below `MIN_INTERVAL` or above `MAX_INTERVAL`."""
        if not MIN_INTERVAL <= proposal["value"] <= MAX_INTERVAL:
            raise TraitError(
                f"c.NodeAgent.report_every = {proposal['value']!r}: it must be from "
                f"{MIN_INTERVAL} to {MAX_INTERVAL} seconds."
            )
        return float(proposal["value"])

    @default("log_level")
    def _default_log_level(self) -> int:
        return logging.INFO

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line and the configuration file that it names, and join the package's log to the agent's.

        Logs the reason and exits with code 1 if the file, or a value in it, cannot be used.
        """
        self.parse_command_line(argv)
        if self.config_file:
            try:
                config = load_config(Path(self.config_file).absolute())
                config.merge(self.cli_config)
                self.update_config(config)
            except (AdminError, TraitError) as error:
                self.log.critical("The agent cannot start. %s", error)
                sys.exit(1)
        log_plainly()
        logger = logging.getLogger("jupyter_gq")
        logger.parent = self.log  # one format and one level for the whole log of the agent
        logger.setLevel(self.log.level)

    def start(self) -> None:
        """Report until SIGINT or SIGTERM; log the reason and exit with code 1 if a required setting is missing."""
        for name, value, variable in (
            ("service_url", self.service_url, "GQ_SERVICE_URL"),
            ("node_name", self.node_name, "NODE_NAME"),
        ):
            if not value:
                self.log.critical("The agent cannot start. Set c.NodeAgent.%s, or the variable %s.", name, variable)
                sys.exit(1)
        asyncio.run(self._run())

    async def _run(self) -> None:
        """Report until SIGINT or SIGTERM, then close the connection."""
        service = ServiceConnection(
            self.service_url, Path(self.token_file), self.node_name, longest_wait=self.report_every
        )
        probe, processes = self._choose_probe(), self._make_processes()
        signals = self._make_signals(processes)
        shares = make_pod_shares(probe, processes, signals, Path(self.journal)) if self.suspend else None
        node = self._make_node(probe, processes, signals, shares)
        agent = Agent(
            NodeObserver(node, _OBSERVATION_TIMEOUT),
            signals,
            service,
            ExponentialBackoff(random.SystemRandom().random),
            report_every=self.report_every,
            shares=shares,
        )
        loop = asyncio.create_task(agent.run())
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, loop.cancel)
        self.log.info("agent of %s, reporting to %s", self.node_name, service.url)
        with contextlib.suppress(asyncio.CancelledError):
            await loop
        service.close()

    def _make_processes(self) -> Processes:
        """Return the processes of the node, whose pods are found as the settings say."""
        return Processes(Path(self.proc), find_pod_by_cgroup if self.processes == "cgroup" else find_pod_by_environment)

    def _make_signals(self, processes: Processes) -> PodSignals:
        """Return the sender of signals, as far as the settings allow it."""
        return PodSignals(
            processes,
            allowed=self.end_programs,
            # A process stays in its namespace of process ids.
            host_ids=functools.cache(lambda: Path(self.proc) == Path("/proc") and has_host_pids()),
        )

    def _make_node(
        self, probe: DeviceProbe, processes: Processes, signals: PodSignals, shares: PodShares | None
    ) -> LocalNode:
        """Return the node with the sources of its state, as the settings name them."""
        proc = Path(self.proc)
        return LocalNode(
            probe=probe,
            meter=ProbeMeter(probe, processes.identify),
            kubelet=KubeletSocket(Path(self.pod_resources)),
            processes=processes,
            signals=signals,
            abilities=NodeAbilities(
                probe, Machine(proc=proc), runs_program=processes.runs_program, monotonic=clock.monotonic
            ),
            explain_no_suspension=(lambda devices: OFF) if shares is None else shares.explain_missing,
            find_journal_trouble=lambda: "" if shares is None else shares.trouble,
            proc=proc,
        )

    def _choose_probe(self) -> DeviceProbe:
        """Return the driver's or the simulated probe, as `SimulatedDevices.mode` says; its default is "never" here."""
        # Elsewhere the default mode is "auto": a node of a cluster must not simulate GPUs unless it is configured to.
        config = Config({"SimulatedDevices": {"mode": "never"}})
        config.merge(self.config)
        simulated = SimulatedDevices(config=config, node=self.node_name)
        return choose_probe(NvmlProbe(now=clock.now), simulated, clock.now)
