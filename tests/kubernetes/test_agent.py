"""The agent as a pod of a node: its token, the kubelet's socket and the processes of pods, as they come and go."""

import asyncio

import pytest
import pytest_asyncio
from tornado.netutil import bind_sockets

from jupyter_gq.api.app import make_application, make_server
from jupyter_gq.api.pods import PodAuthenticator
from jupyter_gq.backends.kubernetes.cluster import Cluster
from jupyter_gq.client.agents import AgentOrders, WatchedPod
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.settings import build_settings
from jupyter_gq.store.sql import SqlStore
from tests.api.world import CONFIG
from tests.chart.render import CHART, named, objects
from tests.fakes import FixedClock, FixedSettings, RunsPods, SharedBundles, a_node
from tests.kubernetes.backend_world import give_rights
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio

PREFIX = "/services/jupyter-gq/"
NODE = "gpu-agent"
#: A pod that is a process finds its volumes where its command and its environment name them.
AS_PROCESSES = [
    "--NodeAgent.processes=environment",
    "--NodeAgent.pod_resources=/var/lib/kubelet/pod-resources/kubelet.sock",
    "--NodeAgent.report_every=0.5",
]
SIMULATED = ["--SimulatedDevices.mode=always", "--SimulatedDevices.devices=3x A100-40GB"]
#: Holds 2000 MiB of its device and computes, in a child of the process that the pod was started with.
TRAINS = """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import jupyter_gq; jupyter_gq.simulate_memory(2000)\\nwhile True: pass"])
"""


def a_pod(name, *command, gpus=0):
    """A pod of somebody on that node."""
    container = {"name": "main", "image": "image", "command": list(command)}
    if gpus:
        container["resources"] = {"limits": {"nvidia.com/gpu": str(gpus)}}
    place = {"nodeSelector": {"kubernetes.io/hostname": NODE}, "terminationGracePeriodSeconds": 1}
    return {"metadata": {"name": name}, "spec": {"containers": [container], "restartPolicy": "Never", **place}}


def an_agent(name, url):
    """As the chart's DaemonSet makes it, for simulated devices and processes that are in no cgroup of a pod."""
    spec = named(objects(None, CHART / "ci" / "minimal-values.yaml"), "DaemonSet")["spec"]["template"]["spec"]
    del spec["runtimeClassName"]
    spec |= {"restartPolicy": "Never", "nodeSelector": {"kubernetes.io/hostname": NODE}}
    (container,) = spec["containers"]
    container["command"] += [*AS_PROCESSES, *SIMULATED]
    for variable in container["env"]:
        if variable["name"] == "GQ_SERVICE_URL":
            variable["value"] = url
    return {"metadata": {"name": name}, "spec": spec}


class Service:
    """The real application, which has tokens reviewed by the real API server; its backend is played."""

    def __init__(self, plane, namespaces, folder):
        clock, nodes = FixedClock(), (a_node(2),)
        self.backend = RunsPods(clock, nodes)
        self.store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
        controller = Controller(
            store=self.store,
            backends=(self.backend,),
            settings=FixedSettings(build_settings(CONFIG, nodes)),
            clock=clock,
            bundles=SharedBundles(),
        )
        self.controller = controller
        self.cluster = Cluster.of(plane.config_for(namespaces.service_user), timeout=5.0, agent="jupyter-gq/test")
        review = self.cluster.review_token
        pods = PodAuthenticator(review, nodes_namespace=namespaces.nodes, training_namespace=namespaces.train)
        self._application = make_application(controller, None, PREFIX, pods=pods)
        (held,) = bind_sockets(0, "127.0.0.1")
        self._port = held.getsockname()[1]
        held.close()
        self.url = f"http://127.0.0.1:{self._port}{PREFIX}"

    def start(self):
        self._server = make_server(self._application)
        self._server.add_sockets(bind_sockets(self._port, "127.0.0.1"))

    async def stop(self):
        self._server.stop()
        await self._server.close_all_connections()

    @property
    def last(self):
        return self.backend.heard[-1][1] if self.backend.heard else None

    async def reports(self, condition, what):
        """The first report from now on that is like that."""
        since = len(self.backend.heard)

        def found():
            return next((report for _, report in self.backend.heard[since:] if condition(report)), None)

        return await eventually(found, lambda: f"{what}; the last report: {self.last}")

    def watch(self, *pods):
        watched = [
            WatchedPod(pod_uid=pod.metadata.uid, namespace=pod.metadata.namespace, pod=pod.metadata.name)
            for pod in pods
        ]
        self.backend.told[NODE] = AgentOrders(watch=watched)
        self.controller.wake()


@pytest_asyncio.fixture
async def service(control_plane, namespace_set, tmp_path):
    give_rights(control_plane, namespace_set)
    service = Service(control_plane, namespace_set, tmp_path)
    service.start()
    yield service
    await service.stop()
    service.cluster.close()
    service.store.close()


@pytest.fixture(scope="module")
def node(make_kubelet):
    return make_kubelet(NODE, gpus=3)


async def run(plane, namespace, pod):
    """That pod, once it runs."""
    core, name = plane.core, pod["metadata"]["name"]
    await asyncio.to_thread(core.create_namespaced_pod, namespace, pod)

    async def running():
        found = await asyncio.to_thread(core.read_namespaced_pod, name, namespace)
        return found if found.status.phase == "Running" else None

    return await eventually(running, f"{name} runs")


async def test_an_agent_tells_of_its_node_and_outlives_kubelet_and_service(control_plane, namespace_set, node, service):
    nodes = namespace_set.nodes
    await run(control_plane, nodes, an_agent("agent-1", service.url))
    report = await service.reports(lambda _: True, "a report")
    assert service.backend.heard[0][0] == NODE
    assert (report.probe, report.allocations, report.shares) == ("OK", [], [])
    assert [device.uuid for device in report.devices] == [f"GPU-sim-{NODE}-{index}" for index in range(3)]
    assert set(report.missing) == {"suspend"}

    # What the kubelet gave to a pod, and what its processes do with it.
    held = await run(control_plane, nodes, a_pod("held", "sleep", "1000", gpus=1))
    busy = await run(control_plane, nodes, a_pod("busy", "python", "-c", TRAINS, gpus=1))
    given = await service.reports(lambda report: len(report.allocations or ()) == 2, "both allocations")
    assert {each.pod: each.device_ids for each in given.allocations} == {
        "held": [f"GPU-sim-{NODE}-2"],
        "busy": [f"GPU-sim-{NODE}-1"],
    }
    service.watch(busy, held)
    trained = await service.reports(
        lambda report: [share.memory_mib for share in report.shares] == [2000, 0] and report.shares[0].utilisation,
        "what both shares do",
    )
    assert [share.pod_uid for share in trained.shares] == [busy.metadata.uid, held.metadata.uid]
    assert [share.visible for share in trained.shares] == [None, None]

    # Without the kubelet nothing is known of devices that it has not told yet; with it again, all is.
    await asyncio.to_thread(node.kill)
    blind = await service.reports(lambda report: report.allocations is None, "the kubelet is away")
    assert "no socket" in blind.missing["kubelet"]
    assert [(share.memory_mib, share.utilisation) for share in blind.shares] == [(None, None)] * 2
    await asyncio.to_thread(node.restart)
    await service.reports(lambda report: len(report.allocations or ()) == 2 and not report.missing.get("kubelet"), "it")

    # The service goes and comes; the agent is the same process.
    process = node.container(nodes, "agent-1").process.pid
    await service.stop()
    await eventually(lambda: "it is tried again and again" in node.log(nodes, "agent-1"), "the agent misses it")
    service.start()
    await service.reports(lambda report: len(report.shares) == 2, "the agent is back")
    assert node.container(nodes, "agent-1").process.pid == process

    # An agent that is killed leaves nothing behind that its successor would need.
    node.container(nodes, "agent-1").signal(9)
    await run(control_plane, nodes, an_agent("agent-2", service.url))
    await service.reports(
        lambda report: report.shares and report.shares[0].memory_mib == 2000, "the second agent knows its orders"
    )

    # Asked to end, it ends well and at once.
    second = node.container(nodes, "agent-2")
    second.signal()
    await eventually(lambda: second.code is not None, "its end", seconds=4)
    assert second.code == 0
