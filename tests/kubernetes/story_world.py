"""A whole installation: hub, service, agents, notebooks and jobs as processes, on a cluster of three nodes.

The hub's configuration is the one that is shipped, with the addresses and shorter times of the test.
"""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
from kubernetes import client as k8s

from jupyter_gq.client.outputs.fold import fold
from jupyter_gq.demo.person import Person
from tests.hub.real_hub import ROOT, RealHub
from tests.kept_logs import LOGS
from tests.kubernetes.agent_world import AS_PROCESSES
from tests.kubernetes.backend_world import give_rights, make_runtime_class
from tests.kubernetes.namespaces import make_claim
from tests.kubernetes.waiting import eventually
from tests.patience import scaled
from tests.ports import claim_port

SHIPPED = ROOT / "hub_config" / "jupyterhub_config_kubernetes.py"
WORKLOAD = "jupyter-gq.org/workload"
_SERVICE_TOKEN = "the-service-of-the-story"
_HUB_RULES = [
    {
        "apiGroups": [""],
        "resources": ["pods", "persistentvolumeclaims", "secrets", "services"],
        "verbs": ["get", "watch", "list", "create", "delete"],
    },
    {"apiGroups": [""], "resources": ["events"], "verbs": ["get", "watch", "list"]},
]
_CONFIG = """
c = get_config()
c.JupyterHub.services = [{{"name": "jupyter-gq", "url": {service!r}, "api_token": {token!r}}}]
exec(compile(open({shipped!r}).read(), {shipped!r}, "exec"))

from jupyter_gq.hub.config import build_proxy_command

# The installation: the chart sets these.
c.GPUShareMixin.service_url = c.GPUShareMixin.server_service_url = {service!r} + "/services/jupyter-gq/"
c.SchedulerService.backend = "kubernetes"
c.SchedulerService.leader_election = True
c.SchedulerService.check_invariants = True
c.SchedulerService.state_dir = {folder!r} + "/state"
c.KubernetesBackend.installation = {release!r}
c.KubernetesBackend.hub_namespace = {hub_namespace!r}
c.KubernetesBackend.nodes_namespace = {nodes_namespace!r}
c.KubernetesBackend.training_namespace = {training_namespace!r}
c.KubernetesBackend.service_url = {service!r} + "/services/jupyter-gq/"
c.KubernetesBackend.kubeconfig = {kubeconfig!r}
c.KubernetesBackend.runner_image = "tests/notebook"
c.KubernetesBackend.checkpoint_claim = "checkpoints"
# Shorter than at work.
c.KubernetesBackend.linger = 3
c.KubernetesBackend.node_lost_after = 5
c.TrainingQueues.grace = 10

# The people.
c.FixedQuota.default = "0.5"
c.TrainingQueues.queues = {{
    "vision": {{"quota": 1, "users": ["ann", "cem"]}},
    "nlp": {{"quota": 1, "users": ["bob"], "default_cpus": 1, "default_memory": "512 MiB"}},
}}
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True

# The hub, as a process beside the cluster.
c.JupyterHub.bind_url = "http://127.0.0.1:{port}"
c.JupyterHub.hub_ip = "127.0.0.1"
c.JupyterHub.hub_port = {hub_port}
c.JupyterHub.db_url = "sqlite:///" + {folder!r} + "/hub.sqlite"
c.ConfigurableHTTPProxy.command = build_proxy_command("python")
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_api}"
c.KubeSpawner.namespace = {hub_namespace!r}
c.KubeSpawner.image = "tests/notebook"
c.KubeSpawner.cmd = ["python", "-m", "jupyterhub.singleuser", "--allow-root"]
c.KubeSpawner.ip = "$(POD_IP)"
c.KubeSpawner.environment = {{
    "POD_IP": {{"valueFrom": {{"fieldRef": {{"fieldPath": "status.podIP"}}}}}},
    "HOME": "/home/jovyan",
}}
c.KubeSpawner.volumes = [{{"name": "home", "emptyDir": {{}}}}]
c.KubeSpawner.volume_mounts = [{{"name": "home", "mountPath": "/home/jovyan"}}]
c.KubeSpawner.notebook_dir = "/home/jovyan"
c.KubeSpawner.start_timeout = {start_timeout}
c.KubeSpawner.poll_interval = 1
"""


class Installation:
    """Start it, use it, break it, end it."""

    def __init__(self, plane, spaces, make_kubelet, folder: Path, *, config: str = "", agent=()) -> None:
        """`config` is added to the hub's configuration, and `agent` to the agents' command line."""
        self.plane, self.spaces, self.folder, self._agent = plane, spaces, folder, agent
        self._service_port = claim_port()
        self._service_root = f"http://127.0.0.1:{self._service_port}"
        self._service: subprocess.Popen | None = None
        build, train = ({"jupyter-gq.org/pool": pool} for pool in ("build", "train"))
        self.nodes = {
            "build": make_kubelet("story-build", gpus=1, labels=build),
            "train-a": make_kubelet("story-train-a", gpus=1, labels=train),
            "train-b": make_kubelet("story-train-b", gpus=1, labels=train),
        }
        ports = {"port": claim_port(), "hub_port": claim_port(), "proxy_api": claim_port()}
        configuration = _CONFIG.format(
            service=self._service_root,
            token=_SERVICE_TOKEN,
            shipped=str(SHIPPED),
            folder=str(folder),
            release=spaces.release,
            hub_namespace=spaces.hub,
            nodes_namespace=spaces.nodes,
            training_namespace=spaces.train,
            kubeconfig=str(plane.kubeconfig(spaces.service_user)),
            start_timeout=round(scaled(120)),
            **ports,
        )
        self.hub = RealHub(folder, config=configuration + config)
        self.hub.port, self.hub.hub_port = ports["port"], ports["hub_port"]
        self.hub.url = f"http://127.0.0.1:{self.hub.port}"
        self.service_log = folder / "service.log"

    def start(self) -> None:
        """Rights, volumes, agents; then the service and the hub."""
        make_runtime_class(self.plane)
        make_claim(self.plane, self.spaces.train, "checkpoints")
        give_rights(self.plane, self.spaces)
        self._give_hub_its_rights()
        self._start_agents()
        self.start_service()
        saved = os.environ.get("KUBECONFIG")
        os.environ["KUBECONFIG"] = str(self.plane.kubeconfig(self.spaces.hub_user))
        try:
            self.hub.start()
        finally:
            os.environ.pop("KUBECONFIG")
            if saved is not None:
                os.environ["KUBECONFIG"] = saved

    def start_service(self) -> None:
        """Another one goes on where the last one ended."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("JUPYTER")}
        environment |= {
            "PYTHONPATH": str(ROOT),
            "JUPYTERHUB_SERVICE_NAME": "jupyter-gq",
            "JUPYTERHUB_SERVICE_URL": self._service_root,
            "JUPYTERHUB_SERVICE_PREFIX": "/services/jupyter-gq/",
            "JUPYTERHUB_API_URL": f"http://127.0.0.1:{self.hub.hub_port}/hub/api",
            "JUPYTERHUB_API_TOKEN": _SERVICE_TOKEN,
        }
        command = [sys.executable, "-m", "jupyter_gq.app", "service", "--config", str(self.hub.config)]
        LOGS.add("service", self.folder, "service.log")
        with self.service_log.open("ab") as log:
            self._service = subprocess.Popen(
                command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )

    def kill_service(self) -> None:
        """It is gone at once."""
        self._service.send_signal(signal.SIGKILL)
        self._service.wait()

    async def ready(self) -> None:
        """The service answers, and every agent has reported."""

        async def answers():
            assert self._service.poll() is None, self.service_log.read_text()[-3000:]
            try:
                address = f"{self._service_root}/services/jupyter-gq/api/v1/ready"
                return (await client.get(address)).status_code == 200
            except httpx.TransportError:
                return False

        async with httpx.AsyncClient() as client:
            await eventually(answers, "the service answers")

    def person(self, name: str) -> Person:
        """A user of this hub."""
        return Person(self.hub.url, name)

    def pods(self, room: str, **labels: str):
        """The pods of one of the namespaces (hub, nodes, train) with these labels."""
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        namespace = getattr(self.spaces, room)
        return self.plane.core.list_namespaced_pod(namespace, label_selector=selector).items

    def reservations(self):
        """The pods that hold devices for shares."""
        return [pod for pod in self.pods("nodes") if pod.metadata.name.startswith("gq-res-")]

    def said_by_server(self, user: str) -> str:
        """The log of that user's notebook server."""
        (pod,) = [pod for pod in self.pods("hub") if pod.metadata.annotations.get("hub.jupyter.org/username") == user]
        return self.nodes["build"].log(self.spaces.hub, pod.metadata.name)

    def job_pods(self, job: str):
        """The pods of a job, of any attempt."""
        return [pod for pod in self.pods("train") if pod.metadata.labels.get(WORKLOAD) == job]

    async def job_is(self, person: Person, job: str, *phases: str, **fields) -> dict:
        """The job, once it is in one of these phases and has these values."""

        async def found():
            seen.update(await person.job(job))
            return seen["phase"] in phases and all(seen[name] == value for name, value in fields.items())

        seen: dict = {}
        await eventually(found, lambda: f"{job} is {phases} with {fields}; it was {seen}; {self.story()}")
        return seen

    def everything_kept(self) -> dict[str, bytes]:
        """The database and all logs, of the service, the hub and all containers, by where they are."""
        containers = [each for node in self.nodes.values() for each in node.runtime.containers.values()]
        logs = [each.log for main in containers for each in main.everything]
        files = [file for file in self.folder.rglob("*") if file.is_file()]
        return {str(file): file.read_bytes() for file in [*files, *logs] if file.exists()}

    def story(self) -> str:
        """What to read when something was not seen."""
        agents = [(pod.metadata.name, pod.status.phase) for pod in self.pods("nodes", app="agent")]
        said = [self.nodes["build"].log(self.spaces.nodes, name)[-2000:] for name, _ in agents]
        service, hub = self.service_log.read_text()[-3000:], self.hub.log.read_text()[-1500:]
        return f"agents: {agents} {said}\nservice: {service}\nhub: {hub}"

    def end(self) -> None:
        """Hub and service; the nodes are ended by who made them."""
        self.hub.end()
        if self._service is not None and self._service.poll() is None:
            self._service.terminate()
            self._service.wait(scaled(30))
        LOGS.release("service", self.folder)

    def _give_hub_its_rights(self) -> None:
        rbac, named = k8s.RbacAuthorizationV1Api(self.plane.client()), {"metadata": {"name": "hub"}}
        rbac.create_namespaced_role(self.spaces.hub, {**named, "rules": _HUB_RULES})
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "hub"}
        subject = {"kind": "ServiceAccount", "name": "hub", "namespace": self.spaces.hub}
        rbac.create_namespaced_role_binding(self.spaces.hub, {**named, "roleRef": role, "subjects": [subject]})

    def _start_agents(self) -> None:
        """As the chart's DaemonSet, for simulated devices; the controllers make its pods."""
        labels = {"app": "agent"}
        token = {"path": "token", "audience": "jupyter-gq", "expirationSeconds": 3600}
        container = {
            "name": "agent",
            "image": "tests/agent",
            "command": ["python", "-m", "jupyter_gq.app", "agent", *AS_PROCESSES, *self._agent],
            "args": ["--SimulatedDevices.mode=always", "--SimulatedDevices.devices=1x A100-40GB"],
            "env": [
                {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}},
                {"name": "GQ_SERVICE_URL", "value": f"{self._service_root}/services/jupyter-gq/"},
                {"name": "GQ_TOKEN_FILE", "value": "/var/run/secrets/jupyter-gq/token"},
            ],
            "volumeMounts": [
                {"name": "token", "mountPath": "/var/run/secrets/jupyter-gq"},
                {"name": "pod-resources", "mountPath": "/var/lib/kubelet/pod-resources"},
                {"name": "journal", "mountPath": "/var/lib/jupyter-gq"},
            ],
        }
        spec = {
            "serviceAccountName": "gq-agent",
            "automountServiceAccountToken": False,
            "containers": [container],
            "nodeSelector": {"jupyter-gq.org/pool": "build"},
            "volumes": [
                {"name": "token", "projected": {"sources": [{"serviceAccountToken": token}]}},
                {"name": "pod-resources", "hostPath": {"path": "/var/lib/kubelet/pod-resources"}},
                {"name": "journal", "hostPath": {"path": str(self.folder / "journal"), "type": "DirectoryOrCreate"}},
            ],
        }
        body = {
            "metadata": {"name": "gq-agent"},
            "spec": {"selector": {"matchLabels": labels}, "template": {"metadata": {"labels": labels}, "spec": spec}},
        }
        k8s.AppsV1Api(self.plane.client()).create_namespaced_daemon_set(self.spaces.nodes, body)


def cells(*sources: str) -> dict:
    """A notebook with these code cells: c0, c1, ..."""
    found = [
        {
            "cell_type": "code",
            "id": f"c{number}",
            "source": source,
            "metadata": {},
            "outputs": [],
            "execution_count": None,
        }
        for number, source in enumerate(sources)
    ]
    return {"cells": found, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}


async def printed(person: Person, job: str) -> str:
    """What stands under the cell that was sent."""
    page = await person.ask_service("GET", f"jobs/{job}/outputs?after=0")
    return "".join(output.get("text", "") for output in fold(page["events"]).get("c0", []))


async def in_thread(call, *given, **named):
    """A call that blocks, beside the loop."""
    return await asyncio.to_thread(call, *given, **named)
