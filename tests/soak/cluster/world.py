"""A control plane with nodes, and the service as the chart installs it: two replicas on PostgreSQL.

The nodes are stand-in kubelets, so pods are processes of this machine; see `tests/kubernetes/README.md`. There are no
agents, so work is for whole GPUs. The Hub only knows the tokens of the users; each user starts pods of servers as a
spawner does.
"""

import asyncio
import contextlib
import re
import shutil
import tempfile
from pathlib import Path

import psutil
import urllib3
from kubernetes.client import ApiException

from jupyter_gq.client.connection.http import ServiceClient
from tests.api.hubs import READ, SUBMIT, user
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kubelet import Kubelet
from tests.kubernetes.namespaces import delete_namespaces, make_namespaces
from tests.kubernetes.pod_runtime import Container
from tests.kubernetes.programs import tools_folder
from tests.kubernetes.replicas_world import EXTRA, TWO, Installed, an_installation
from tests.patience import scaled
from tests.soak.disk import OwnDisk
from tests.soak.plan import Plan
from tests.soak.world import QUEUES

#: GPUs of each node, and the nodes.
GPUS, NODES = 2, "abc"
#: Seconds after which a silent node is Unknown: longer than the API server is ever away.
NODE_SILENT_AFTER = 40
#: Exceptions of requests to an API server that is away.
AWAY = (ApiException, urllib3.exceptions.HTTPError, OSError)
_FUZZ = "fuzz"
_SETTINGS = """
c.SchedulerService.check_invariants = True
c.SchedulerService.log_style = "json"
c.TrainingQueues.grace = 10
c.FixedQuota.default = 1
c.Pools.pools = {"all": {"nodes": {}}}
c.Pools.build = c.Pools.train = "all"
"""


class ClusterWorld:
    """Everything that runs. `start` it once; `stop` ends all of it; the folder with the logs stays."""

    def __init__(self, plan: Plan) -> None:
        self.plan, self.folder = plan, plan.folder
        self.marks = plan.folder / "marks"
        #: Held by a trouble while it lasts, and by a check that needs calm.
        self.calm = asyncio.Lock()
        #: The ticket of each user who has a server.
        self.tickets: dict[str, str] = {}
        self._stack = contextlib.AsyncExitStack()
        self._leader: Container | None = None

    async def start(self) -> None:
        """Start control plane, nodes, database and Hub; install the chart; wait until one of two replicas leads."""
        self.marks.mkdir(parents=True)
        # PostgreSQL has a user of its own, who has to reach its disk: folders of tests are for their user alone.
        place = Path(tempfile.mkdtemp(prefix="gq-soak-disk-"))
        self._at_end(shutil.rmtree, place, True)
        await asyncio.to_thread(place.chmod, 0o711)
        self.disk = OwnDisk(place / "disk")
        self._at_end(self.disk.unmount)
        await asyncio.to_thread(self.disk.mount)
        self.plane = ControlPlane(tools_folder(), self._new_folder("plane"), node_silent_after=NODE_SILENT_AFTER)
        self._at_end(self.plane.end)
        await asyncio.to_thread(self.plane.start)
        self.namespaces = await asyncio.to_thread(make_namespaces, self.plane)
        self._at_end(delete_namespaces, self.plane, self.namespaces)
        made = an_installation(
            self.plane,
            self.namespaces,
            self._make_node,
            self._new_folder("chart"),
            gpus=GPUS,
            nodes=NODES,
            server_folder=self.disk.folder,
        )
        self.installed: Installed = await self._stack.enter_async_context(made)
        for number, name in enumerate((*self.plan.names, _FUZZ)):
            self.installed.hub.tokens[name] = user(name, SUBMIT, READ, groups=(QUEUES[number % len(QUEUES)],))
        await asyncio.to_thread(self._install)
        await self.installed.settled()

    async def stop(self) -> None:
        """End everything that runs; the logs stay."""
        await self._stack.aclose()

    def _install(self) -> None:
        quota = GPUS * len(NODES) / len(QUEUES) - 1
        self.installed.apply(
            **TWO,
            queues={queue: {"quota": str(quota), "groups": [queue]} for queue in QUEUES},
            training={"image": "tests/runner", "checkpoints": {"url": self._new_folder("copies").as_uri()}},
            config={"extra": EXTRA.format(front=self.installed.front.url) + _SETTINGS},
        )

    def _make_node(self, name: str, **options) -> Kubelet:
        node = Kubelet(self.plane, name, **options)
        self._at_end(node.end)
        node.start()
        return node

    def _new_folder(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir()
        return folder

    def _at_end(self, act, *arguments) -> None:
        self._stack.push_async_callback(asyncio.to_thread, act, *arguments)

    def home(self, name: str) -> Path:
        """Return the home folder of a user."""
        return self.folder / "homes" / name

    # Who runs

    @property
    def nodes(self) -> list[Kubelet]:
        """The nodes of the cluster."""
        return self.installed.nodes

    def leader(self) -> Container | None:
        """Return the container of the replica that leads; None if none does, or while the API server is away."""
        with contextlib.suppress(*AWAY):
            name = self.installed.holder()
            return next((each for each in self.replicas() if each.pod == name), None)
        return None

    def replicas(self) -> list[Container]:
        """Return the living containers of the service."""
        return [each for each in self._living(self.namespaces.hub) if each.name == "service"]

    def service(self) -> psutil.Process | None:
        """Return the process of the replica that leads; None while there is none."""
        leader = self.leader()
        return psutil.Process(leader.process.pid) if leader is not None else None

    def runs(self) -> list[Container]:
        """Return the living containers of jobs."""
        return self._living(self.namespaces.train)

    def _living(self, namespace: str) -> list[Container]:
        return [each for each in self._containers(namespace) if each.process is not None and each.code is None]

    def _containers(self, namespace: str) -> list[Container]:
        found = (each for node in self.nodes for each in list(node.runtime.containers.values()))
        return [each for each in found if each.namespace == namespace]

    def live_workloads(self) -> set[str]:
        """Return the jobs that have a living pod, and the tickets whose servers have one."""
        servers = {each.pod for each in self._living(self.namespaces.hub)}
        held = {ticket for name, ticket in list(self.tickets.items()) if f"jupyter-{name}" in servers}
        return held | {run_of(each)[0] for each in self.runs()}

    def overcommitted_devices(self) -> dict[str, float]:
        """Return the devices that several living pods have, and how many."""
        count: dict[str, float] = {}
        for container in [*self.runs(), *self._living(self.namespaces.hub)]:
            for device in container.given("nvidia.com/gpu"):
                count[device] = count.get(device, 0) + 1
        return {device: pods for device, pods in count.items() if pods > 1}

    def logs(self) -> list[Path]:
        """Return the files with the logs of the service."""
        return [each.log for each in self._containers(self.namespaces.hub) if each.name == "service"]

    # The end

    def keep_state(self) -> None:
        """Do nothing: on a cluster the state is in the database and in the folders of the pods."""

    async def stop_servers(self) -> None:
        """Do nothing: users stop their servers."""

    def find_left(self) -> list[str]:
        """Return a sentence for each object and each process of work that should have gone."""
        core, made = self.plane.core, self.namespaces
        left = [f"the pod {pod.metadata.name} is left" for pod in core.list_namespaced_pod(made.train).items]
        left += [f"the pod {pod.metadata.name} is left" for pod in core.list_namespaced_pod(made.nodes).items]
        left += [f"the service {each.metadata.name} is left" for each in core.list_namespaced_service(made.train).items]
        for container in self._containers(self.namespaces.train):
            left += [f"process {pid} of the pod {container.pod} is left" for pid in container.processes()]
        return left

    # What users have

    @property
    def service_url(self) -> str:
        """The address of the service, at which a ready replica answers."""
        return f"{self.installed.front.url}/services/jupyter-gq/"

    async def service_client(self, name: str) -> ServiceClient:
        """Return a client of the service with the token of that user."""
        return ServiceClient(self.service_url, await self.token(name), timeout=scaled(20))

    async def token(self, name: str) -> str:
        """Return the token of a user."""
        return name


def run_of(container: Container) -> tuple[str, int]:
    """Return the job and the run of a job's container."""
    found = re.fullmatch(r"gq-(job-.+)-(\d+)-\d+", container.pod)
    assert found, container.pod
    return found[1], int(found[2])
