"""The backend against a real control plane, as the service's own account; the test plays the agents of the nodes."""

import asyncio
import time
from dataclasses import replace

from kubernetes.client import ApiException, NodeV1Api

from jupyter_gq.backends.kubernetes import Clocks, KubernetesOptions, KubernetesRuns, PodPool
from jupyter_gq.backends.kubernetes.api.cluster import Cluster
from jupyter_gq.backends.protocol import Launch, Phase
from jupyter_gq.client.agents import AgentAllocation, AgentDevice, AgentReport, AgentShare
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.builders import a_job, a_notebook
from tests.kubernetes.chart import grant_rights
from tests.kubernetes.raw import Raw
from tests.kubernetes.waiting import eventually, until

GPU = "nvidia.com/gpu"
POOL = PodPool(name="train", selector={})


class Clock:
    """The machine's time, moved forward when a test does not want to wait."""

    def __init__(self):
        self.ahead = 0.0
        #: Times of day and of the machine at which this clock stands; None = it goes.
        self._stands_at = None

    def stand(self):
        """Let time go by only as the test says from now on: a slow machine adds none."""
        self._stands_at = (time.time(), time.monotonic())  # noqa: TID251 - what is observed is a real cluster

    def now(self):
        return (time.time() if self._stands_at is None else self._stands_at[0]) + self.ahead  # noqa: TID251 - as above

    def elapsed(self):
        at = time.monotonic() if self._stands_at is None else self._stands_at[1]  # noqa: TID251 - as above
        return at + self.ahead

    awake = elapsed


class HearsEverything:
    """A Hub that deletes the pod of a server when it is asked to stop it."""

    def __init__(self, world):
        self.world, self.asked, self.deaf = world, [], False

    async def stop(self, user, server):
        self.asked.append((user, server))
        if not self.deaf:
            await asyncio.to_thread(self.world.delete_server, user)


class PlayedAgents:
    """What the agents of some nodes would report: the devices of a node go to its pods in the order of their names."""

    def __init__(self, world, gpus):
        self.world, self.gpus = world, gpus
        #: (namespace, pod) -> devices, by node.
        self.given = {}
        #: Held by pods of others, by node.
        self.foreign = {}
        self.shares = {}
        #: In which a device plugin gives devices away, by node; otherwise by number.
        self.order = {}

    def devices(self, node):
        return [f"GPU-{node}-{index}" for index in range(self.gpus)]

    def report(self, node, **fields):
        """Tell the backend what is true on that node now."""
        return self._hand_over(node, {**self._content(node), **fields})

    async def tell(self, node):
        """The same, without holding up the loop; the backend gets the report in its loop, as from the service."""
        return self._hand_over(node, await asyncio.to_thread(self._content, node))

    def _hand_over(self, node, content):
        reports = self.world.backend.capabilities.agent_reports
        return reports.accept_report(node, AgentReport(probe="OK", **content))

    def _content(self, node):
        pods = [pod for pod in self.world.pods() if pod.spec.node_name == node and pod.status.phase == "Running"]
        known = self.given.setdefault(node, {})
        for key in [key for key in known if key not in {_key(pod) for pod in pods}]:
            del known[key]
        for pod in sorted(pods, key=_key):
            wanted = int((pod.spec.containers[0].resources.limits or {}).get(GPU, 0))
            # What pods of others have is said in `foreign`.
            if wanted and _key(pod) not in known and pod.metadata.labels:
                taken = {uuid for devices in known.values() for uuid in devices} | set(self.foreign.get(node, ()))
                known[_key(pod)] = [uuid for uuid in self.order.get(node) or self.devices(node) if uuid not in taken][
                    :wanted
                ]
        allocations = [
            AgentAllocation(namespace=ns, pod=name, container="c", resource=GPU, device_ids=devices)
            for (ns, name), devices in known.items()
        ]
        if self.foreign.get(node):
            allocations.append(
                AgentAllocation(namespace="other", pod="p", container="c", resource=GPU, device_ids=self.foreign[node])
            )
        devices = [
            AgentDevice(uuid=uuid, index=index, model="A100-40GB", memory_mib=40_000)
            for index, uuid in enumerate(self.devices(node))
        ]
        shares = [AgentShare(pod_uid=uid, **what) for uid, what in self.shares.items()]
        return {"devices": devices, "allocations": allocations, "shares": shares}


def _key(pod):
    return (pod.metadata.namespace, pod.metadata.name)


class World:
    """One installation in its namespaces."""

    def __init__(self, plane, namespaces, *, pools=(POOL,), **options):
        self.plane, self.namespaces = plane, namespaces
        self.clock = Clock()
        self.pools = list(pools)
        self.options = KubernetesOptions(
            installation=namespaces.release,
            hub_namespace=namespaces.hub,
            nodes_namespace=namespaces.nodes,
            training_namespace=namespaces.train,
            service_url="http://service/",
            runner_image="example.org/runner:1",
            user_secret="gq-{username}",
            **options,
        )
        self.hub = HearsEverything(self)
        self.agents = PlayedAgents(self, 2)
        self.changes = 0
        self.backends = []
        self.backend = self.new_backend()

    def new_backend(self, kind=KubernetesRuns, **options):
        """Another process of the service."""
        user = self.namespaces.service_user
        cluster = Cluster.of(self.plane.config_for(user), timeout=5.0, agent="jupyter-gq/test")
        backend = kind(
            replace(self.options, **options),
            cluster=cluster,
            pools=lambda: self.pools,
            stopper=self.hub,
            clocks=Clocks(elapsed=self.clock.now, now=self.clock.now),
            on_change=self._changed,
        )
        self.backends.append(backend)
        return backend

    def _changed(self):
        self.changes += 1

    async def close(self):
        for backend in self.backends:
            await backend.close()

    def clean_up(self):
        """Whatever a failed test left behind is not there for the next one."""
        for namespace in self.namespaces.all:
            self.plane.core.delete_collection_namespaced_pod(namespace, grace_period_seconds=0)
        until(lambda: not self.pods(), "all pods are gone")

    def offered(self, node):
        """The devices of that node that the core is offered, and whether each takes new work."""
        (seen,) = [each for each in self.backend.nodes() if each.name == node]
        return {device.id: device.healthy for device in seen.devices}

    # --- work

    def job(self, name, *places, gpus=1, run=1, state=State.STARTING, **fields):
        """A job whose tasks go to these places: ("node", index, index...)."""
        placement = tuple(
            TaskPlacement(node=node, devices=tuple(f"{node}/{index}" for index in indices)) for node, *indices in places
        )
        job = a_job(name, "vision", gpus, id=f"job-{name}", owner="ann", tasks=len(places), run=run, **fields)
        return replace(job, placement=placement, state=state)

    def notebook(self, name, node, *indices, gpus="0.25", run=1, state=State.STARTING):
        placement = (TaskPlacement(node=node, devices=tuple(f"{node}/{index}" for index in indices)),)
        notebook = a_notebook(name, gpus, id=f"nb-{name}", run=run)
        return replace(notebook, placement=placement, state=state)

    async def launch(self, workload, **detail):
        await self.backend.launch(
            Launch(workload=workload, detail=WorkloadDetail(**detail), environment={"GQ_STOP_GRACE": "30"})
        )

    async def observed(self, workload):
        """The backend's only observation of it; None when it knows none."""
        seen = await self.backend.observe()
        found = [each for each in seen if (each.workload, each.run) == (workload.id, workload.run)]
        assert len(found) <= 1
        return found[0] if found else None

    async def until(self, workload, condition, what):
        async def met():
            seen = await self.observed(workload)
            return seen if condition(seen) else None

        return await eventually(met, lambda: f"{what} of {workload.id}: {self._last(workload)}")

    def _last(self, workload):
        runs = {**self.backend.training.runs, **self.backend.notebooks.runs}
        return runs.get((workload.id, workload.run))

    async def running(self, workload):
        return await self.until(workload, lambda seen: seen is not None and seen.phase is Phase.RUNNING, "the running")

    async def end(self, workload):
        return await self.until(workload, lambda seen: seen is not None and seen.phase is Phase.ENDED, "the end")

    async def held(self, slot, node):
        """The reservation of that slot is made, runs, and its agent has told the device."""

        async def told():
            await self.backend.observe()
            await self.agents.tell(node)
            return self.backend.reservation_pods.reserved_device(slot)

        return await eventually(told, f"{slot} held: {self.backend.reservation_pods.describe(slot)}", every=0.1)

    # --- the cluster

    def pods(self):
        """All pods of the installation."""
        return [
            pod for namespace in self.namespaces.all for pod in self.plane.core.list_namespaced_pod(namespace).items
        ]

    def pod(self, workload, task=0):
        return self.plane.core.read_namespaced_pod(f"gq-{workload.id}-{workload.run}-{task}", self.namespaces.train)

    def finish(self, pod, exit_code=0, message="", reason="", **status):
        """What the kubelet writes when a pod has ended."""
        ended = {"exitCode": exit_code, "message": message, "reason": reason or "Completed"}
        body = {
            "phase": "Succeeded" if exit_code == 0 else "Failed",
            "containerStatuses": [
                {
                    "name": pod.spec.containers[0].name,
                    "image": "i",
                    "imageID": "",
                    "ready": False,
                    "restartCount": 0,
                    "state": {"terminated": ended},
                }
            ],
            **status,
        }
        self.patch_status(pod, body)

    def patch_status(self, pod, status):
        self.plane.core.patch_namespaced_pod_status(pod.metadata.name, pod.metadata.namespace, {"status": status})

    def start_server(self, workload, additions, tolerations=()):
        return create_server_pod(self.plane.core, self.namespaces.hub, workload, additions, tolerations)

    def delete_server(self, user):
        try:
            self.plane.core.delete_namespaced_pod(f"jupyter-{user}", self.namespaces.hub)
        except ApiException as error:
            if error.status != 404:
                raise


def create_server_pod(core, namespace, workload, additions, tolerations=()):
    """Create the pod of a server as the Hub's spawner does, as far as it matters here."""
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [additions.node]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    resources = {"limits": additions.resources, "requests": additions.resources}
    labels = {**additions.labels, "component": "singleuser-server"}
    body = {
        "metadata": {"name": f"jupyter-{workload.owner}", "labels": labels, "annotations": additions.annotations},
        "spec": {
            "affinity": {"nodeAffinity": affinity},
            "tolerations": list(tolerations),
            "containers": [{"name": "notebook", "image": "example.org/lab:1", "resources": resources}],
        },
    }
    return core.create_namespaced_pod(namespace, body)


def give_rights(plane, namespaces):
    """What the chart gives to the service, and nothing else."""
    raw = Raw(plane)
    grant_rights(raw, namespaces, values=["training.asJobs=true"])
    raw.close()


def make_runtime_class(plane):
    """The GPU operator makes it."""
    try:
        NodeV1Api(plane.client()).create_runtime_class({"metadata": {"name": "nvidia"}, "handler": "nvidia"})
    except ApiException as error:
        if error.status != 409:
            raise
