"""Agents as pods of a node, and the service that they dial."""

import asyncio

from tornado.netutil import bind_sockets

from jupyter_gq.api.app import make_server
from jupyter_gq.api.pods import PodAuthenticator
from jupyter_gq.backends.kubernetes.api.cluster import Cluster
from jupyter_gq.client.agents import AgentOrders, WatchedPod
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.store.sql import SqlStore
from tests.api.world import CONFIG
from tests.chart.render import CHART, named, objects
from tests.fakes import FixedClock, FixedSettings, RunsPods, SharedBundles, a_node
from tests.kubernetes.waiting import eventually
from tests.ports import claim_port
from tests.serving import application_of

PREFIX = "/services/jupyter-gq/"
NODE = "gpu-agent"
#: A pod that is a process finds its volumes where its command and its environment name them.
AS_PROCESSES = [
    "--NodeAgent.processes=environment",
    "--NodeAgent.pod_resources=/var/lib/kubelet/pod-resources/kubelet.sock",
    "--NodeAgent.report_every=0.5",
]
#: Holds 2000 MiB of its device and computes, in a child of the process that the pod was started with.
TRAINS = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import jupyter_gq; jupyter_gq.simulate_memory(2000)\\nwhile True: pass"])
"""
#: The same, and the process that the pod was started with goes on without its child.
TRAINS_ON = f"{TRAINS}\nimport time; time.sleep(1000)\n"


def a_pod(name, *command, gpus=0):
    """A pod of somebody on that node."""
    container = {"name": "main", "image": "image", "command": list(command)}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    place = {"nodeSelector": {"kubernetes.io/hostname": NODE}, "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "restartPolicy": "Never", **place}}


def an_agent(name, url, node=NODE, devices="3x A100-40GB"):
    """As the chart's DaemonSet makes it, for simulated devices and processes that are in no cgroup of a pod."""
    spec = named(objects(None, CHART / "ci" / "minimal-values.yaml"), "DaemonSet")["spec"]["template"]["spec"]
    del spec["runtimeClassName"], spec["priorityClassName"]
    spec |= {"restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": node}}
    (container,) = spec["containers"]
    container["command"] += [*AS_PROCESSES, "--SimulatedDevices.mode=always", f"--SimulatedDevices.devices={devices}"]
    for variable in container["env"]:
        if variable["name"] == "GQ_SERVICE_URL":
            variable["value"] = url
    return {"metadata": {"name": name}, "spec": spec}


class Service:
    """The real application over this backend; it has tokens reviewed by the real API server."""

    def __init__(self, plane, namespaces, folder, backend, authenticator=None):
        clock = FixedClock()
        self.backend = backend
        self.store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
        self.controller = Controller(
            store=self.store,
            backends=(backend,),
            settings=FixedSettings(build_settings(CONFIG, (a_node(2),))),
            clock=clock,
            bundles=SharedBundles(),
        )
        self.cluster = Cluster.of(plane.config_for(namespaces.service_user), timeout=5.0, agent="jupyter-gq/test")
        review = self.cluster.review_token
        pods = PodAuthenticator(review, nodes_namespace=namespaces.nodes, training_namespace=namespaces.train)
        self._application = application_of(self.controller, authenticator, PREFIX, pods=pods)
        self._port = claim_port()
        self.url = f"http://127.0.0.1:{self._port}{PREFIX}"

    def start(self):
        self._server = make_server(self._application)
        self._server.add_sockets(bind_sockets(self._port, "127.0.0.1"))

    async def stop(self):
        self._server.stop()
        await self._server.close_all_connections()

    async def end(self):
        await self.stop()
        self.cluster.close()
        self.store.close()


class HearsWhatTheTestWants(RunsPods):
    """A backend whose orders the test gives, and which keeps every report."""

    def __init__(self):
        super().__init__(FixedClock(), (a_node(2),))

    @property
    def last(self):
        return self.heard[-1][1] if self.heard else None

    async def reports(self, condition, what):
        """The first report from now on that is like that."""
        since = len(self.heard)

        def found():
            return next((report for _, report in self.heard[since:] if condition(report)), None)

        return await eventually(found, lambda: f"{what}; the last report: {self.last}")

    def watch(self, *pods, commands=()):
        watched = [
            WatchedPod(pod_uid=pod.metadata.uid, namespace=pod.metadata.namespace, pod=pod.metadata.name)
            for pod in pods
        ]
        self.told[NODE] = AgentOrders(watch=watched, commands=list(commands))


async def run(plane, namespace, pod):
    """That pod, once it runs."""
    core, name = plane.core, pod["metadata"]["name"]
    await asyncio.to_thread(core.create_namespaced_pod, namespace, pod)

    async def running():
        found = await asyncio.to_thread(core.read_namespaced_pod, name, namespace)
        return found if found.status.phase == "Running" else None

    return await eventually(running, f"{name} runs")
