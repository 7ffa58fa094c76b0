"""A cluster on paper: writes are noted, and the test says what has become of them."""

from dataclasses import replace

from jupyter_gq.backends.kubernetes.api.views import NodeView, PodView
from jupyter_gq.backends.kubernetes.api.writes import Creation, CreationState
from jupyter_gq.backends.kubernetes.nodes.agents import Agents
from jupyter_gq.backends.kubernetes.nodes.nodes import Nodes
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.options import KubernetesOptions
from jupyter_gq.backends.kubernetes.shares.reservation_pods import ReservationPods
from jupyter_gq.client.agents import AgentAllocation, AgentDevice, AgentReport
from jupyter_gq.domain.pod_pool import PodPool

GPU = "nvidia.com/gpu"
OPTIONS = KubernetesOptions(installation="gq", hub_namespace="hub", nodes_namespace="nodes", training_namespace="train")


class Clock:
    def __init__(self):
        self.at = 1000.0

    def now(self):
        return self.at


class WritesOnPaper:
    """Notes what it is asked for; `refusal` is what the cluster says to everyref, `trouble` why it deletes nothing."""

    def __init__(self):
        self.made, self.deleted, self.refusal, self.trouble = [], [], "", ""
        #: Why everyref is to be created later.
        self.busy = ""

    def create(self, ref, body, created):
        if self.refusal:
            return Creation(state=CreationState.REFUSED, sentence=self.refusal)
        if self.busy:
            return Creation(state=CreationState.WAITING, sentence=self.busy)
        meta = body()["metadata"]
        assert (meta["namespace"], meta["name"]) == (ref.namespace, ref.name)
        if ref.name not in self.made:
            self.made.append(ref.name)
        return Creation(state=CreationState.UNDER_WAY)

    def delete(self, ref, grace=None):
        if ref.uid not in self.deleted:
            self.deleted.append(ref.uid)
        return True

    def deletion_trouble(self, key):
        return self.trouble

    def forget_deletion(self, key):
        pass

    def forget_creation(self, ref):
        if ref.name in self.made:
            self.made.remove(ref.name)


class Paper:
    """One node `n1` with devices, its agent, and its reservations."""

    def __init__(self, gpus=2, writes=None, **pool):
        """`writes`: makes them of a clock."""
        self.clock = Clock()
        self.writes = writes(self.clock) if writes is not None else WritesOnPaper()
        self.pools = [PodPool(name="p", **pool)]
        self.agents = Agents(silent_after=60.0, now=self.clock.now)
        self.nodes = Nodes(pools=lambda: self.pools, agents=self.agents, now=self.clock.now, lost_after=60.0)
        self.gpus = gpus
        self.view = NodeView(name="n1", version=1, ready=True, devices={GPU: gpus})
        self.nodes.apply_change(None, self.view)
        #: Pods that were made, before the watch shows them.
        self.taken = []
        self.slots = ReservationPods(
            OPTIONS,
            writes=self.writes,
            agents=self.agents,
            nodes=self.nodes,
            on_created=self.taken.append,
            now=self.clock.now,
        )
        self.pods = {}

    def node(self, **fields):
        before, self.view = self.view, replace(self.view, **fields)
        self.nodes.apply_change(before, self.view)

    def step(self, seconds=0.0):
        self.clock.at += seconds
        self.slots.step()

    def pod(self, slot, number=0, **fields):
        """The pod of a reservation is seen like that."""
        name = names.reservation_name(slot, number)
        before = self.pods.get(name)
        start = PodView(
            namespace="nodes", name=name, uid=f"{name}-{self.clock.at}", node="n1", annotations={names.SLOT: slot}
        )
        after = replace(before or start, **fields)
        self.pods[name] = after
        self.slots.note_pod(before, after)
        return after

    def work(self, uid, slot, device, **fields):
        """A pod of work that names that device for that slot is seen like that."""
        before = self.pods.get(uid)
        start = PodView(
            namespace="train",
            name=uid,
            uid=uid,
            node=names.node_of(slot),
            phase="Running",
            annotations={names.SLOTS: slot, names.DEVICES: device},
        )
        self.pods[uid] = replace(before or start, **fields)
        self.slots.note_work(before, self.pods[uid])

    def work_gone(self, uid):
        self.slots.note_work(self.pods.pop(uid), None)

    def gone(self, slot, number=0):
        self.slots.note_pod(self.pods.pop(names.reservation_name(slot, number)), None)

    def report(self, given=(), probe="OK", silent_kubelet=False, others=(), missing=None):
        """The agent tells which pods have which devices: (pod, device); `others` are no pods of ours."""
        allocations = [
            AgentAllocation(namespace=namespace, pod=pod, container="c", resource=GPU, device_ids=[device])
            for namespace, pods in (("nodes", given), ("other", others))
            for pod, device in pods
        ]
        devices = [AgentDevice(uuid=f"GPU-{i}", index=i, model="A100", memory_mib=40_000) for i in range(self.gpus)]
        report = AgentReport(probe=probe, devices=devices, allocations=None if silent_kubelet else allocations)
        report.missing.update(missing or {})
        return self.agents.store_report("n1", report, lambda uid: None)

    def offered(self, used=(), blocked=()):
        (node,) = self.nodes.offered({"n1": set(used)}, set(blocked), lambda namespace, pod: namespace == "nodes")
        return node
