"""500 nodes x 8 GPUs: how fast decisions become pods, what the API server is asked, what the service weighs.

A real control plane (etcd, API server, scheduler, controllers) on this machine, nodes that only say what they do
(kwok), and the service's controller with its Kubernetes backend in this process. Before it, in the same run, the API
server's own limit: the same client makes as many of the same pods as fast as it can, with nothing to decide. Once it
only creates them, and watches how the cluster's scheduler binds them and they come to run; once it binds each of them
itself.

    python -m benchmarks.kubernetes [--nodes 500] [--running 2000] [--queued 5000] [--json FILE]
"""

import asyncio
import json
import math
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

import psutil
from traitlets.config import Config

from benchmarks.table import Row, parser, show
from jupyter_gq.backends.kubernetes import KubernetesBackend
from jupyter_gq.backends.kubernetes.api.cluster import Cluster
from jupyter_gq.backends.kubernetes.api.reflector import Copy, Reflector
from jupyter_gq.backends.kubernetes.api.resources import PODS, ApiResource
from jupyter_gq.backends.kubernetes.api.views import pod_view
from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.backends.kubernetes.clocks import Clocks
from jupyter_gq.backends.kubernetes.objects.manifests import training_pod
from jupyter_gq.backends.kubernetes.objects.names import INSTALLATION
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.client.models import JobSubmission
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.controller.controller import Controller
from jupyter_gq.controller.loop.interpreter import set_the_interpreter
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.store.sql import SqlStore
from tests.builders import a_job
from tests.fakes import FixedSettings
from tests.kubernetes.control_plane import ControlPlane
from tests.kubernetes.kwok import Kwok
from tests.kubernetes.namespaces import NamespaceSet, make_namespaces
from tests.kubernetes.programs import tools_folder

#: Kueue's own baseline test on a machine of this kind, for orientation: another mix, its client held to 50 requests/s,
#: and its share of the quota counts what is held while writes wait.
KUEUE_WORKLOADS_PER_SECOND, KUEUE_MIB, KUEUE_USED = 39.4, 698.0, 54.0
GPUS, GPUS_PER_JOB, QUEUES = 8, 2, 10
#: One user sends all jobs.
LIMITS = {"max_jobs_per_user": 1_000_000, "max_waiting_jobs_per_user": 1_000_000}
STEADY_SECONDS = 60
#: So many jobs end, ten a second, and others take their places.
ENDS = 200
AGENT = "jupyter-gq"
_BARE = f"{INSTALLATION}=bare"
PERSON = Caller(user="ann", groups=frozenset(), admin=True)
#: Seconds to wait for anything.
PATIENCE = 600.0


def main() -> int:
    """Measure, and show the table."""
    options = parser(__doc__.splitlines()[0])
    options.add_argument("--nodes", type=int, default=500, help="nodes with 8 GPUs each (default 500)")
    options.add_argument("--running", type=int, default=2000, help="jobs of 2 GPUs that run (default 2000)")
    options.add_argument("--queued", type=int, default=5000, help="jobs of 2 GPUs that wait (default 5000)")
    given = options.parse_args()
    set_the_interpreter()  # as the service does
    with tempfile.TemporaryDirectory(prefix="gq-benchmark-") as folder:
        # Heartbeats of so many nodes are no part of what is measured.
        plane = ControlPlane(tools_folder(), Path(folder), node_silent_after=300)
        plane.start()
        try:
            kwok = Kwok(plane)
            kwok.start()
            _say(f"{given.nodes} nodes")
            nodes = kwok.add_nodes(given.nodes, GPUS)
            rows = asyncio.run(_measure(plane, nodes, given.running, given.queued))
        finally:
            plane.end()
    return show(
        f"Kubernetes: {given.nodes} nodes x {GPUS} GPUs, {given.running} running, {given.queued} queued",
        rows,
        given.json,
    )


async def _measure(plane: ControlPlane, nodes: Sequence[str], running: int, queued: int) -> list[Row]:
    spaces = make_namespaces(plane)
    bare = await _bare_limit(plane, spaces, nodes, running)
    installed = Installed(plane, spaces, Path(plane.folder))
    try:
        rows = await installed.burst(running, queued, bare)
        rows += await installed.steady()
        rows += await installed.churn()
        rows.append(
            Row(case="service", figure="resident memory", unit="MiB", ours=_memory(), peer=KUEUE_MIB, goal=1024)
        )
        return rows
    finally:
        await installed.end()


@dataclass(frozen=True, kw_only=True)
class Bare:
    """Pods per second of the same client, when nothing is decided."""

    #: Created, while the cluster's scheduler binds them and they start.
    created: float
    #: Until the last of those runs.
    running: float
    #: Created and bound by the client itself, which leaves nothing to the scheduler.
    bound: float


async def _bare_limit(plane: ControlPlane, spaces: NamespaceSet, nodes: Sequence[str], pods: int) -> Bare:
    together = KubernetesBackend().creations
    cluster = Cluster.of(plane.config_for(), timeout=30, workers=together + 8, agent="bare")
    limit = asyncio.Semaphore(together)

    async def create(number: int, *, bind: bool) -> None:
        pod = _bare_pod(spaces, nodes, number)
        if bind:
            pod["spec"]["schedulerName"] = "nobody"
        async with limit:
            await cluster.create(PODS, pod)
            if bind:
                await cluster.create(*_binding(pod, nodes[_node_of(number)]))

    watch = Reflector(
        cluster, PODS, namespace=spaces.train, query={"labelSelector": _BARE}, trim=pod_view, copy=Copy(lambda *_: None)
    )
    watch.start()
    await watch.synced.wait()

    async def rate(*, bind: bool) -> tuple[float, float]:
        _say(f"{pods} bare pods" + (", bound by the client" if bind else ""))
        began = time.monotonic()
        await asyncio.gather(*(create(number, bind=bind) for number in range(pods)))
        written = time.monotonic()
        await _until(lambda: sum(pod.phase == "Running" for pod in watch.copy) == pods, "all bare pods running")
        rates = pods / (written - began), pods / (time.monotonic() - began)
        plane.core.delete_collection_namespaced_pod(spaces.train, label_selector=_BARE, grace_period_seconds=0)
        await _until(lambda: len(watch.copy) == 0, "the bare pods gone")
        return rates

    created, running = await rate(bind=False)
    bound, _ = await rate(bind=True)
    watch.end()
    cluster.close()
    return Bare(created=created, running=running, bound=bound)


class Installed:
    """The service's controller on the cluster."""

    def __init__(self, plane: ControlPlane, spaces: NamespaceSet, folder: Path) -> None:
        self.plane, self.spaces = plane, spaces
        queues = {f"team-{number}": {"quota": 400} for number in range(QUEUES)}
        pools: dict[str, dict[str, object]] = {"gpu": {"nodes": {}}}
        config = Config(
            {
                "TrainingQueues": {"queues": queues, **LIMITS},
                "Pools": {"pools": pools, "build": "gpu", "train": "gpu"},
                "KubernetesBackend": {
                    "installation": spaces.release,
                    "hub_namespace": spaces.hub,
                    "nodes_namespace": spaces.nodes,
                    "training_namespace": spaces.train,
                    "kubeconfig": str(plane.kubeconfig()),
                    "runner_image": "runner",
                },
            }
        )
        settings = FixedSettings(build_settings(config, ()))
        store = SqlStore(f"sqlite:///{folder / 'service.sqlite'}")
        self.runs = KubernetesBackend(config=config).backend(
            pools=lambda: settings.current.pod_pools,
            stopper=_NoServers(),
            clocks=Clocks(elapsed=SystemClock().elapsed, now=SystemClock().now),
            on_change=lambda: self.controller.wake(),
            service_url="http://service.test/",
        )
        self.controller = Controller(
            store=store,
            backends=(self.runs,),
            settings=settings,
            clock=SystemClock(),
            bundles=StoredBundles(store, store),
        )
        self._loop: asyncio.Task[None] | None = None

    async def burst(self, running: int, queued: int, bare: Bare) -> list[Row]:
        """Everything is free, and everybody waits: the largest burst that there can be."""
        await self._sees_nodes()
        _say(f"{running + queued} jobs are sent")
        for number in range(running + queued):
            self.controller.jobs.submit(PERSON, _submission(number), None)
        _say("they start")
        mark, began = self.plane.mark(), time.monotonic()
        self._loop = asyncio.create_task(self.controller.run())
        await _until(lambda: self._count(State.RUNNING) == running, "all of them running")
        to_running = running / (time.monotonic() - began)
        made = self._made_since(mark)
        case = "burst: everything starts"
        return [
            Row(
                case=case,
                figure="created (peer: bare+bind)",
                unit="1/s",
                ours=made.created,
                peer=bare.bound,
                goal=200,
                wants="more",
            ),
            Row(case=case, figure="bound (peer: bare+bind)", unit="1/s", ours=made.bound, peer=bare.bound),
            Row(case=case, figure="created (peer: bare)", unit="1/s", ours=made.created, peer=bare.created),
            Row(case=case, figure="pods running (peer: bare)", unit="1/s", ours=to_running, peer=bare.running),
            Row(
                case=case, figure="running (peer: Kueue)", unit="1/s", ours=to_running, peer=KUEUE_WORKLOADS_PER_SECOND
            ),
            Row(case=case, figure="decision to pod p99", unit="s", ours=_percentile(made.delays, 0.99), goal=2),
            Row(case=case, figure="GPUs in use (peer: Kueue)", unit="%", ours=self._used(), peer=KUEUE_USED),
        ]

    async def steady(self) -> list[Row]:
        """Nothing happens for a minute."""
        _say("nothing happens")
        await asyncio.sleep(5)
        mark = self.plane.mark()
        await asyncio.sleep(STEADY_SECONDS)
        seen = [each for each in self.plane.requests(mark) if each.agent.startswith(AGENT)]
        return [Row(case="steady", figure="API requests", unit="1/s", ours=len(seen) / STEADY_SECONDS, goal=5)]

    async def churn(self) -> list[Row]:
        """Ten jobs a second end, and others take their places."""
        _say("ten a second end")
        running = self._count(State.RUNNING)
        mark, began = self.plane.mark(), time.monotonic()
        ends = [each.id for each in self._workloads() if each.state is State.RUNNING][:ENDS]
        for number, job in enumerate(ends):
            self.controller.jobs.cancel(PERSON, job)
            await asyncio.sleep(max(0.0, began + (number + 1) / 10 - time.monotonic()))
        await _until(lambda: self._count(State.RUNNING) == running, "all places taken again")
        delays = self._made_since(mark).delays
        case = "churn: ten a second end"
        return [
            Row(case=case, figure="decision to pod p50", unit="s", ours=_percentile(delays, 0.5)),
            Row(case=case, figure="decision to pod p99", unit="s", ours=_percentile(delays, 0.99), goal=2),
            Row(case=case, figure="jobs replaced", unit="1/s", ours=len(delays) / (time.monotonic() - began)),
        ]

    async def end(self) -> None:
        """Stop deciding; the cluster is ended by its owner."""
        if self._loop is not None:
            self._loop.cancel()
            await asyncio.gather(self._loop, return_exceptions=True)
        await self.runs.close()

    def _workloads(self) -> list[Workload]:
        return [record.workload for record in self.controller._context.records.unfinished()]

    def _count(self, state: State) -> int:
        return sum(workload.state is state for workload in self._workloads())

    def _used(self) -> float:
        devices = sum(len(node.devices) for node in self.runs.nodes())
        return sum(w.milli for w in self._workloads() if w.state is State.RUNNING) / (10 * devices)

    async def _sees_nodes(self) -> None:
        await self.runs.open()

        async def seen() -> bool:
            await self.runs.observe()
            return any(node.devices for node in self.runs.nodes())

        await _until(seen, "the nodes")

    def _made_since(self, mark: int) -> "Made":
        """What became of our pods, as the API server's own log has it."""
        decided = {f"gq-{w.id}-{w.run}-0": w.started_at for w in self._workloads() if w.started_at is not None}
        at: dict[str, dict[str, float]] = {"": {}, "binding": {}}
        with self.plane.audit_log.open() as log:
            log.seek(mark)
            for line in log:
                event = json.loads(line)
                about = event.get("objectRef") or {}
                ours = about.get("namespace") == self.spaces.train and about.get("resource") == "pods"
                made = event["verb"] == "create" and event.get("responseStatus", {}).get("code") == 201
                if ours and made:
                    at[about.get("subresource", "")][about["name"]] = _seconds(event["stageTimestamp"])
        created, bound = at[""], at["binding"]
        first = min(created.values())
        return Made(
            delays=[max(0.0, made - decided[name]) for name, made in created.items() if name in decided],
            created=len(created) / (max(created.values()) - first),
            bound=len(bound) / (max(bound.values()) - first),
        )


@dataclass(frozen=True, kw_only=True)
class Made:
    """Pods of ours."""

    #: Seconds from each decision to its pod.
    delays: Sequence[float]
    #: A second, from the first on.
    created: float
    bound: float


class _NoServers:
    """There are no notebooks here."""

    async def stop(self, user: str, server: str) -> None:
        """Never called."""


def _submission(number: int) -> JobSubmission:
    manifest = {
        "notebook_path": "train.ipynb",
        "cwd": "/home/ann",
        "kernel": {"name": "python3", "argv": ["python", "-m", "ipykernel_launcher", "-f", "{connection_file}"]},
        "targets": [{"cell_id": "c1", "source_hash": "0" * 64}],
    }
    cell: JsonObject = {
        "cell_type": "code",
        "id": "c1",
        "source": "1",
        "metadata": {},
        "outputs": [],
        "execution_count": None,
    }
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    document = {"manifest": manifest, "notebook": notebook}
    queue = f"team-{number % QUEUES}"
    return JobSubmission.model_validate({"queue": queue, "gpus": GPUS_PER_JOB, "bundle": document})


def _node_of(number: int) -> int:
    return number * GPUS_PER_JOB // GPUS


def _binding(pod: JsonObject, node: str) -> tuple[ApiResource, JsonObject]:
    """What the cluster's scheduler writes for a pod."""
    meta = pod["metadata"]
    name, namespace = meta["name"], meta["namespace"]
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    body = {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {"name": name, "namespace": namespace},
        "target": target,
    }
    return replace(PODS, plural=f"pods/{name}/binding", noun="binding"), body


def _bare_pod(spaces: NamespaceSet, nodes: Sequence[str], number: int) -> JsonObject:
    """The pod of a job of the burst, of nobody that we know."""
    options = KubernetesOptions(
        installation="bare",
        hub_namespace=spaces.hub,
        nodes_namespace=spaces.nodes,
        training_namespace=spaces.train,
        service_url="http://service.test/",
    )
    node = nodes[_node_of(number)]
    added = PodAdditions(node=node, resources={"nvidia.com/gpu": str(GPUS_PER_JOB)})
    job = a_job(f"bare-{number}", "bare", GPUS_PER_JOB)
    return training_pod(job, 0, added, {"GQ_STOP_GRACE": "30"}, "runner", options)


async def _until(wanted: Callable[[], bool | Awaitable[bool]], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while True:
        found = wanted()
        if found if isinstance(found, bool) else await found:
            return
        if time.monotonic() > deadline:
            raise SystemExit(f"Not seen within {PATIENCE:.0f} s: {what}.")
        await asyncio.sleep(0.5)  # each look goes through all jobs


def _percentile(values: Sequence[float], part: float) -> float:
    return sorted(values)[max(0, math.ceil(part * len(values)) - 1)]


def _seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp.replace("Z", "+00:00")).timestamp()


def _memory() -> float:
    """Of this process, in MiB: the service with everything that it holds, and this measurement."""
    return float(psutil.Process().memory_info().rss / 2**20)


def _say(what: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {what}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
