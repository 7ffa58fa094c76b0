"""The objects that the parts of the controller share: ports to the outside, records, and data kept in memory only."""

import hashlib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gq.backends.bundles import BundleStore
from jupyter_gq.backends.capabilities import NodeCordon
from jupyter_gq.backends.protocol import Backend
from jupyter_gq.client.models import ExpectedStart
from jupyter_gq.devices.limits import share_environment
from jupyter_gq.devices.meter import ShareMeter, ShareUse
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import ONE_GPU, Instant, MilliGpu
from jupyter_gq.domain.cluster import Device, NewNodes, Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.workload import Kind, Request, Workload
from jupyter_gq.scheduling.decision import Pending
from jupyter_gq.simulation.durations import Durations
from jupyter_gq.store.protocol import Record, Store

from .caller import Caller
from .clock import Clock
from .core_view import CoreView
from .drains import Drain, load_drains, mark_drained
from .events import Broker
from .records.records import Records
from .settings.config import Settings, SettingsSource

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class Context:
    """The shared objects of one controller; only its parts hold them."""

    store: Store
    backends: Sequence[Backend]
    settings_source: SettingsSource
    clock: Clock
    bundles: BundleStore
    probe: DeviceProbe | None
    #: Measures what notebooks do with their shares; None: nothing does.
    meter: ShareMeter | None
    #: Random short texts that are safe in addresses and file names.
    new_id: Callable[[], str]
    #: Random secrets for runners.
    new_token: Callable[[], str]
    #: Makes the next step begin at once.
    wake: Callable[[], None]
    broker: Broker
    records: Records = field(init=False)
    #: Why each workload waits, from the last decision.
    pending: dict[str, Pending] = field(default_factory=dict)
    #: Groups of the users who have asked since the start.
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    #: When each ticket was last asked after.
    followed: dict[str, Instant] = field(default_factory=dict)
    #: Highest stored sequence number of each job's output, as far as it has been looked up.
    seqs: dict[str, int] = field(default_factory=dict)
    #: Processes of each running notebook, from the last observation.
    pids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: Runs that the backends know: seen at the last look, or launched since. None of them right after a restart.
    known_runs: set[tuple[str, int]] = field(default_factory=set)
    #: What is wrong with what runs, in the words of its backend, from the last observation; most have nothing.
    troubles: dict[str, str] = field(default_factory=dict)
    #: Kinds of workload whose backend could not be observed at the last look.
    unobserved: frozenset[Kind] = frozenset()
    #: How long jobs ran.
    durations: Durations = field(default_factory=Durations)
    #: When each waiting job will probably start.
    expected_starts: dict[str, ExpectedStart] = field(default_factory=dict)
    #: Jobs whose output is being taken away: nobody may see a part of it.
    deleting: set[str] = field(default_factory=set)
    #: Last sample of each notebook's share.
    usage: dict[str, ShareUse] = field(default_factory=dict)
    #: What each training queue has used, in decayed GPU-seconds; empty where it does not count.
    past_use: Mapping[str, float] = field(default_factory=dict)
    #: Nodes and devices that administrators drain, by name.
    drains: dict[str, Drain] = field(init=False)
    _by_kind: dict[Kind, Backend] = field(init=False)
    #: As they were last put together, and of what: large clusters are asked for far more often than they change.
    _nodes: tuple[Node, ...] = ()
    _nodes_of: tuple[Settings, list[tuple[Node, ...]], frozenset[str], frozenset[str]] | None = None
    _core_view: CoreView = field(init=False)

    def __post_init__(self) -> None:
        """Index the backends by the kinds of workload that they run, and load what is drained."""
        self.drains = load_drains(self.store)
        self._by_kind = {kind: backend for backend in reversed(self.backends) for kind in backend.kinds}
        self._core_view = CoreView(self.durations, self._by_kind)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.settings_source.current

    def backend_of(self, kind: Kind) -> Backend:
        """Return the backend that runs workloads of this kind."""
        return self._by_kind[kind]

    @property
    def cordon(self) -> NodeCordon | None:
        """The way to cordon nodes; None if the service itself keeps what is drained."""
        return next((found for each in self.backends if (found := each.capabilities.cordon) is not None), None)

    def nodes(self) -> tuple[Node, ...]:
        """Return all nodes, each device in its pool. A node that two backends offer counts once.

        Drained nodes and devices, and devices that left their pool under running work, take nothing new.
        """
        settings, offers = self.settings, [backend.nodes() for backend in self.backends]
        drained = frozenset(self.drains) if self.cordon is None else frozenset()
        held = self._held_outside_pools(offers)
        if (settings, offers, drained, held) != self._nodes_of:
            self._nodes = settings.nodes(mark_drained(_united(offers), drained), held)
            self._nodes_of = settings, offers, drained, held
        return self._nodes

    def _held_outside_pools(self, offers: Iterable[tuple[Node, ...]]) -> frozenset[str]:
        """Return the ids of offered devices that are in no pool any more and still have work on them."""
        outside = {device for nodes in offers for device in self.settings.devices_outside_pools(nodes)}
        if not outside:
            return frozenset()
        begun = [record.workload for record in self.records.begun()]
        places = [(*each.placement, *(leaving.task for leaving in each.leaving)) for each in begun]
        return frozenset(device for tasks in places for task in tasks for device in task.devices if device in outside)

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return what clusters may still add to pools that grow, with what became of asking for it."""
        supplies = (backend.capabilities.node_supply for backend in self.backends)
        return tuple(
            replace(new, request=supply.node_request(new.pool))
            for supply in supplies
            for new in supply.new_nodes()
            if new.pool in self.settings.pools
        )

    def launch_capacity(self) -> Mapping[Kind, int]:
        """Return how many tasks of jobs their backend can begin soon; nothing where it can begin any number."""
        pace = self.backend_of(Kind.TRAINING).capabilities.pace()
        return {} if pace is None else {Kind.TRAINING: pace.left}

    def meet(self, caller: Caller) -> None:
        """Remember the groups of the caller: the fixed quota may depend on them."""
        self.groups[caller.user] = caller.groups

    def groups_of(self, record: Record) -> frozenset[str]:
        """Return the groups of the record's owner, as fresh as they are known."""
        return self.groups.get(record.workload.owner, record.detail.owner_groups)

    def queues(self, also: Iterable[Caller] = ()) -> tuple[Queue, ...]:
        """Return the queue tree with a leaf for each user who has a notebook, and for these callers."""
        users = {record.workload.owner: self.groups_of(record) for record in self.records.notebooks()}
        users.update({caller.user: caller.groups for caller in also})
        return self.settings.queues(users)

    def snapshot(self, also: Iterable[Caller] = ()) -> Snapshot:
        """Return the core's input of this moment."""
        workloads = self._core_view.of(self.records.live())
        queues = self.queues(also)
        named = {workload.queue for workload in workloads}
        return Snapshot(
            nodes=self.nodes(),
            queues=queues,
            workloads=workloads,
            usage=self.past_use,
            new_nodes=self.new_nodes(),
            vanished=tuple(sorted(named.difference(queue.name for queue in queues))),
            unobserved=tuple(sorted(self.unobserved)),
            launch_capacity=self.launch_capacity(),
        )

    def empty_snapshot(self, also: Iterable[Caller] = ()) -> Snapshot:
        """Return the nodes and queues of this moment without any workload."""
        return Snapshot(nodes=self.nodes(), queues=self.queues(also), workloads=(), new_nodes=self.new_nodes())

    def devices_of(self, workload: Workload) -> tuple[Device, ...]:
        """Return the devices that a workload holds, as they are known now."""
        held = {device for task in workload.placement for device in task.devices}
        return tuple(device for node in self.nodes() for device in node.devices if device.id in held)

    def request(self, kind: Kind, milli: MilliGpu) -> Request:
        """Return the request of a workload of that kind; a fraction goes to a node that can share devices."""
        request, label = Request.of(milli), self.backend_of(kind).capabilities.share_label
        if label is None or not 0 < milli < ONE_GPU:
            return request
        return replace(request, node_labels=(label,))

    def environment(self, workload: Workload) -> Mapping[str, str]:
        """Variables that tell its processes which devices they have and how much of them.

        None where tasks are pods: only their backend knows the devices themselves.
        """
        if self.backend_of(workload.kind).capabilities.pod_preparation is not None:
            return {}
        return share_environment(self.devices_of(workload), workload.request.milli_per_device)

    def last_seq(self, job: str) -> int:
        """Return the highest stored sequence number of a job's output; 0 if there is none."""
        if job not in self.seqs:
            self.seqs[job] = self.store.last_seq(job)
        return self.seqs[job]


def _united(offers: Iterable[tuple[Node, ...]]) -> list[Node]:
    found: dict[str, Node] = {}
    for node in (node for offer in offers for node in offer):
        known = found.get(node.name)
        found[node.name] = node if known is None else _merged(known, node)
    return [found[name] for name in sorted(found)]


def _merged(one: Node, other: Node) -> Node:
    """Return one node with what two backends know of it."""
    devices = {device.id: device for device in (*one.devices, *other.devices)}
    return replace(
        one,
        devices=tuple(devices.values()),
        labels={**one.labels, **other.labels},
        closed=one.closed or other.closed,
        draining=one.draining or other.draining,
    )


def token_hash(token: str) -> str:
    """Return the hash of a token, which is stored in place of the token."""
    return hashlib.sha256(token.encode()).hexdigest()
