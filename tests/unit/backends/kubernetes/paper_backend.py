"""The whole backend over a cluster on paper: what is there is said by the test, and what is asked for is noted."""

from dataclasses import replace

from jupyter_gq.backends.kubernetes import Clocks, KubernetesRuns, PodPool
from jupyter_gq.backends.kubernetes.api.views import NodeView, PodView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.runs.phases import TRANSITIONS, RunPhase
from jupyter_gq.backends.protocol import Launch
from jupyter_gq.client.agents import AgentAllocation, AgentDevice, AgentReport, AgentShare
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import TaskPlacement
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.builders import a_job, a_notebook

from .paper import OPTIONS, Clock


def check_run(run):
    """What is known of a run agrees with its phase."""
    phase = run.phase
    assert run.progress.entered.keys() <= set(RunPhase)
    assert phase is not RunPhase.REMOVING, "such runs are kept apart"
    assert (run.ended is not None) == (phase is RunPhase.ENDED)
    if run.is_ending:
        assert (run.verdict is not None) == (phase is not RunPhase.STOPPING)
        assert run.verdict is None or phase is TRANSITIONS[RunPhase.STARTING][run.verdict.event]
    if phase is RunPhase.STOPPING:
        assert run.stop_deadline is not None
    if phase is RunPhase.RUNNING:
        assert run.begun_at is not None
    if phase in (RunPhase.STARTING, RunPhase.RUNNING):
        assert run.membership is not None or not run.missing_tasks()
    if run.creates_pods:
        assert run.is_new
        assert run.missing_tasks()


class NotesWhatIsAsked:
    """Agrees to everything; the test says what comes of it."""

    def __init__(self):
        self.made, self.deleted = [], []
        self.bodies = {}

    async def create(self, resource, body):
        self.made.append(body["metadata"]["name"])
        self.bodies[self.made[-1]] = body
        return {**body, "metadata": {**body["metadata"], "uid": f"u-{self.made[-1]}", "resourceVersion": "5"}}

    async def delete(self, resource, namespace, name, *, uid="", grace=None):
        self.deleted.append(name)

    def close(self):
        pass


class NotesWhoIsStopped:
    """The Hub, which hears everything and does nothing of itself."""

    def __init__(self):
        self.asked = []

    async def stop(self, owner, name):
        self.asked.append(owner)


class PaperBackend:
    """Nodes n1, n2, ... with two devices each."""

    def __init__(self, *nodes, pool=None, **options):
        """`pool`: what is said of the only one; `options`: of the backend."""
        self.pool = PodPool(name="p", **(pool or {}))
        self.clock, self.day, self.cluster, self.hub = Clock(), Clock(), NotesWhatIsAsked(), NotesWhoIsStopped()
        self.day.at = 1_000_000.0
        self.runs = KubernetesRuns(
            replace(OPTIONS, **options),
            cluster=self.cluster,
            pools=lambda: [self.pool],
            stopper=self.hub,
            clocks=Clocks(elapsed=self.clock.now, now=self.day.now),
            on_change=lambda: None,
        )
        self.runs._is_open = True
        for watch in self.runs._watches:
            watch.synced.set()
            watch.failure = ""
        self._nodes, self._reserved = (watch.copy for watch in self.runs._watches[:2])
        #: Above the version of what is made.
        self._version = 100
        for node in nodes or ("n1",):
            self.node(node)

    def _next(self):
        self._version += 1
        return self._version

    def node(self, name="n1", **fields):
        """A node is seen like that."""
        view = NodeView(name=name, ready=True, devices={self.pool.resource: 2})
        self._nodes.put(replace(self._nodes.get("", name) or view, **fields, version=self._next()))

    def no_node(self, name):
        self._nodes.remove(("", name), self._next())

    def reservation(self, slot, **fields):
        """The pod that holds the device of that slot is seen like that."""
        name = names.reservation_name(slot)
        pod = self._reserved.get("nodes", name) or PodView(
            namespace="nodes",
            name=name,
            uid=f"uid-{name}",
            node=slot.partition("/")[0],
            phase="Running",
            labels={names.INSTALLATION: OPTIONS.installation},
            annotations={names.SLOT: slot},
        )
        self._reserved.put(replace(pod, **fields, version=self._next()))

    def no_reservation(self, slot):
        self._reserved.remove(("nodes", names.reservation_name(slot)), self._next())

    def pod(self, workload, slot, device="", *, task=0, tasks=1, **fields):
        """The pod of that task of a job, or that of a notebook, is seen, running on that slot; returns its uid."""
        servers = workload.startswith("nb-")
        copy = (self.runs._server_pods if servers else self.runs._job_pods).copy
        namespace, name = ("hub" if servers else "train"), f"gq-{workload}-1-{task}"
        annotations = {names.SLOTS: slot, names.TASKS: str(tasks), **({names.DEVICES: device} if device else {})}
        pod = copy.get(namespace, name) or PodView(
            namespace=namespace,
            name=name,
            uid=f"uid-{workload}-{task}" if task else f"uid-{workload}",
            node=slot.partition("/")[0],
            phase="Running",
            labels={
                names.INSTALLATION: OPTIONS.installation,
                names.WORKLOAD: workload,
                names.ATTEMPT: "1",
                names.TASK: str(task),
            },
            annotations=annotations,
        )
        copy.put(replace(pod, **fields, version=self._next()))
        return pod.uid

    def no_pod(self, workload):
        servers = workload.startswith("nb-")
        copy = (self.runs._server_pods if servers else self.runs._job_pods).copy
        copy.remove(("hub" if servers else "train", f"gq-{workload}-1-0"), self._next())

    def no_task(self, workload, task):
        """The pod of that task is gone."""
        self.runs._job_pods.copy.remove(("train", f"gq-{workload}-1-{task}"), self._next() + 100)

    async def launch(self, kind, name, slot, state=State.STARTING, gpus="0.25", **fields):
        """A job, or a notebook, that shall run on that slot; each task of it on one, if it has several.

        `fields` are of the workload or of its detail.
        """
        of_workload = {name: fields.pop(name) for name in ("tasks", "min_members", "running_since") if name in fields}
        build = a_notebook if kind == "nb" else a_job
        arguments = (name, gpus) if kind == "nb" else (name, "vision", gpus)
        made = build(*arguments, id=f"{kind}-{name}", run=1)
        place = (TaskPlacement(node=slot.partition("/")[0], devices=() if gpus == "0" else (slot,)),)
        place *= of_workload.get("tasks", 1)
        workload = replace(made, placement=place, state=state, **of_workload)
        await self.runs.launch(Launch(workload=workload, detail=WorkloadDetail(image="i", **fields)))
        return workload

    def report(self, node="n1", given=(), shares=None, **more):
        """Its agent tells who has which device, (namespace, pod, device), and what pods see, by uid."""
        allocations = [
            AgentAllocation(
                namespace=namespace, pod=pod, container="c", resource=self.pool.resource, device_ids=[device]
            )
            for namespace, pod, device in given
        ]
        devices = [AgentDevice(uuid=f"GPU-{i}", index=i, model="A100", memory_mib=40_000) for i in range(2)]
        told = [AgentShare(pod_uid=uid, **what) for uid, what in (shares or {}).items()]
        report = {"probe": "OK", "devices": devices, "allocations": allocations, "shares": told, **more}
        return self.runs.capabilities.agent_reports.accept_report(node, AgentReport(**report))

    async def observed(self, workload):
        """What is observed of that job or notebook; None when nothing is."""
        seen = await self.runs.observe()
        for run in (*self.runs.training.runs.values(), *self.runs.notebooks.runs.values()):
            check_run(run)
        return next((each for each in seen if each.workload == workload), None)

    async def close(self):
        await self.runs._writes.close()
        await self.runs.notebooks.close()
