"""`jupyter-gq agent`: puts the agent of one node together and runs it."""

import asyncio
import contextlib
import logging
import os
import random
import signal
import sys
from pathlib import Path

from traitlets import Bunch, Enum, Float, TraitError, Unicode, default, validate
from traitlets.config import Application, Config

from jupyter_gq.devices.choose import choose_probe
from jupyter_gq.devices.meter import ProbeMeter
from jupyter_gq.devices.nvml import NvmlProbe
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.devices.simulated import SimulatedDevices

from . import clock
from .agent import LEAST_PAUSE, MOST_PAUSE, Agent
from .backoff import Backoff
from .kubelet import KubeletSocket
from .link import ServiceLink
from .node import Node
from .patience import PatientLook
from .processes import Processes, by_cgroup, by_environment

#: Seconds that the driver and the kubelet may take together.
_PATIENCE = 10.0


class NodeAgent(Application):
    """The program that observes the GPUs of one node of a cluster and reports them to the service."""

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
        help="Socket on which the kubelet lists the devices that it assigned to each pod.",
    ).tag(config=True)
    proc = Unicode(
        "/proc",
        help="The /proc in which the agent finds the processes of the node's pods. With `hostPID` the agent's own "
        "/proc is that of the node.",
    ).tag(config=True)
    processes = Enum(
        ["cgroup", "environment"],
        "cgroup",
        help="How the agent finds the pod of a process: `cgroup` = by the name that container runtimes give to its "
        "cgroup; `environment` = by its variable `JUPYTER_GQ_POD_UID`, for a kubelet that runs pods as plain "
        "processes.",
    ).tag(config=True)
    report_every = Float(
        5.0,
        help="Longest time between two reports, in seconds. The service may ask for more frequent reports, and changes "
        "are reported at once.",
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
        if not LEAST_PAUSE <= proposal["value"] <= MOST_PAUSE:
            raise TraitError(
                f"c.NodeAgent.report_every = {proposal['value']!r}: it must be from "
                f"{LEAST_PAUSE} to {MOST_PAUSE} seconds."
            )
        return float(proposal["value"])

    @default("log_level")
    def _default_log_level(self) -> int:
        return logging.INFO

    def initialize(self, argv: list[str] | None = None) -> None:
        """Read the command line, then the file."""
        self.parse_command_line(argv)
        if self.config_file:
            path = Path(self.config_file)
            self.load_config_file(path.name, str(path.parent))
        logger = logging.getLogger("jupyter_gq")
        logger.parent = self.log  # one format, and one level, for all that the agent says
        logger.setLevel(self.log.level)

    def start(self) -> None:
        """Report until a signal comes; end with a sentence and exit code 1 when it cannot start."""
        for name, value, variable in (
            ("service_url", self.service_url, "GQ_SERVICE_URL"),
            ("node_name", self.node_name, "NODE_NAME"),
        ):
            if not value:
                self.log.critical("The agent cannot start. Set c.NodeAgent.%s, or the variable %s.", name, variable)
                sys.exit(1)
        asyncio.run(self._run())

    async def _run(self) -> None:
        link = ServiceLink(self.service_url, Path(self.token_file), self.node_name, longest_wait=self.report_every)
        backoff = Backoff(random.SystemRandom().random)
        agent = Agent(PatientLook(self._node(), _PATIENCE), link, backoff, report_every=self.report_every)
        loop = asyncio.create_task(agent.run())
        for name in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(name, loop.cancel)
        self.log.info("agent of %s, reporting to %s", self.node_name, link.url)
        with contextlib.suppress(asyncio.CancelledError):
            await loop
        link.close()

    def _node(self) -> Node:
        probe, proc = self._probe(), Path(self.proc)
        pod_of = by_cgroup if self.processes == "cgroup" else by_environment
        return Node(
            probe=probe,
            meter=ProbeMeter(probe),
            kubelet=KubeletSocket(Path(self.pod_resources)),
            processes=Processes(proc, pod_of),
            proc=proc,
        )

    def _probe(self) -> DeviceProbe:
        # On a node without a GPU nothing is pretended unless somebody says so: elsewhere the default is "auto".
        config = Config({"SimulatedDevices": {"mode": "never"}})
        config.merge(self.config)
        simulated = SimulatedDevices(config=config, node=self.node_name)
        return choose_probe(NvmlProbe(now=clock.now), simulated, clock.now)
