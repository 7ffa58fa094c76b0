"""The context that the parts of a controller share: connections to the outside, records, and data in memory."""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from jupyter_gq.backends.bundles import BundleStore
from jupyter_gq.backends.capabilities import NodeCordon
from jupyter_gq.backends.protocol import Backend, Observation
from jupyter_gq.client.models import ExpectedStart
from jupyter_gq.devices.limits import is_simulated, share_environment
from jupyter_gq.devices.meter import ShareMeter, ShareUse
from jupyter_gq.devices.probe import DeviceProbe
from jupyter_gq.domain.amount import ONE_GPU, Instant, MiB, MilliGpu
from jupyter_gq.domain.cluster import Device, NewNodes, Node
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Request, Workload
from jupyter_gq.scheduling.decision import Pending, Returning
from jupyter_gq.scheduling.placement import MemoryParts
from jupyter_gq.simulation.durations import Durations
from jupyter_gq.store.protocol import Record, Store

from .caller import Caller
from .clock import Clock
from .core_view import CoreView, without
from .deletions import Deletions
from .disk_uses import DiskUses
from .drains import Drain, load_drains, mark_drained
from .events import Broker
from .gpu_use import UnusedGpu, UseSeries
from .group_limits import hold_beyond_limits
from .kept_sizes import KeptSizes
from .lent_devices import LentDevices
from .memory_excess import MemoryExcess
from .offered_nodes import merge_offers, without_devices
from .records.records import Records
from .records.set_aside import SetAside
from .settings.config import Settings, SettingsSource
from .settings.topology import make_topologies, with_levels
from .suspended_runs import bind_request, sum_kept_memory, waits_suspended, without_memory
from .task_limit import hold_beyond_task_limit

log = logging.getLogger(__name__)


@dataclass(kw_only=True, slots=True)
class Context:
    """The shared objects of one controller. Only the parts of the controller hold the context."""

    store: Store
    backends: Sequence[Backend]
    settings_source: SettingsSource
    clock: Clock
    bundles: BundleStore
    probe: DeviceProbe | None
    #: Measures how notebooks use their shares; None = nothing measures it.
    meter: ShareMeter | None
    #: Whether the driver names processes by the ids that this service sees.
    host_pids: bool
    #: Makes a random short id that is safe in addresses and file names.
    new_id: Callable[[], str]
    #: Makes a random secret for a runner.
    new_token: Callable[[], str]
    #: Makes the next step of the loop begin at once.
    wake: Callable[[], None]
    broker: Broker
    records: Records = field(init=False)
    lent: LentDevices = field(init=False)
    #: Why each pending workload waits, by id, from the last decision.
    pending: dict[str, Pending] = field(default_factory=dict)
    #: What each suspended notebook in which a cell waits still waits for, by id, from the last decision; and since when
    #: the last work in its way is told to leave, by the clock of the time awake.
    returning: dict[str, Returning] = field(default_factory=dict)
    returning_since: dict[str, float] = field(default_factory=dict)
    #: Why the disk of the jobs takes no new job, at the last look; "" if it does.
    disk_shortage: str = ""
    #: What is wrong with contents outside the database, at the last sweep, although new ones are stored; "" = nothing.
    contents_warning: str = ""
    #: Groups of each user who has made a request since the start, by name.
    groups: dict[str, frozenset[str]] = field(default_factory=dict)
    #: When each ticket was last polled, by id, by the clock of the time awake.
    ticket_polled_at: dict[str, float] = field(default_factory=dict)
    #: Highest stored sequence number of each job's output, by id, as far as it has been looked up.
    last_seqs: dict[str, int] = field(default_factory=dict)
    #: Notebooks whose servers have reported to this service since its start.
    heard: set[str] = field(default_factory=set)
    #: Notebooks whose shares were on their way to host memory at the last observation.
    moving: frozenset[str] = frozenset()
    #: Process ids of each running workload, by id, from the last observation.
    pids: dict[str, tuple[int, ...]] = field(default_factory=dict)
    #: Runs that the backends know: observed last or launched since then. Empty right after a restart.
    known_runs: set[tuple[str, int]] = field(default_factory=set)
    #: Disk space of the files of each running job, by id, from the last measurement.
    disk_use: dict[str, MiB] = field(default_factory=dict)
    #: Disk space of the files of all jobs on this machine, from the last measurements.
    disk_uses: DiskUses = field(default_factory=DiskUses)
    #: What the database keeps of each job, from the last measurements.
    kept_sizes: KeptSizes = field(default_factory=KeptSizes)
    #: Ended runs that their backends must not forget yet, because some of their outputs may not be stored.
    ended_runs: set[tuple[str, int]] = field(default_factory=set)
    #: Runs to which no task can be added, from the last observation.
    closed_runs: set[tuple[str, int]] = field(default_factory=set)
    #: Live runs without a record, from the last observation: a restored backup may lack their records.
    unknown_runs: tuple[Observation, ...] = ()
    #: Live runs that should not be and are told to end, from the last observation.
    needless_runs: tuple[Observation, ...] = ()
    #: What is wrong with a running workload or keeps a job from starting, by id, as its backend says; most are absent.
    troubles: dict[str, str] = field(default_factory=dict)
    #: Kinds of workload whose backend could not be observed the last time; all kinds if no node is known yet.
    unobserved: frozenset[Kind] = frozenset()
    #: The last failure of each kind of work of the loop and beside it, by the name of the work.
    failures: dict[str, str] = field(default_factory=dict)
    #: The durations of finished jobs.
    durations: Durations = field(default_factory=Durations)
    #: When each pending job will probably start, by id.
    expected_starts: dict[str, ExpectedStart] = field(default_factory=dict)
    #: Work that is being deleted, which requests do not see.
    deletions: Deletions = field(init=False)
    #: Last sample of the use of each share, by id of its workload, and the time of that sample.
    usage: dict[str, ShareUse] = field(default_factory=dict)
    usage_at: Instant | None = None
    #: What the watchdog did about shares that are, or lately were, over their memory limit, by id of the workload.
    excesses: dict[str, MemoryExcess] = field(default_factory=dict)
    #: Workloads whose memory the watchdog could judge at the last sample, and whose programs it can end.
    watched: frozenset[str] = frozenset()
    #: The GPU use of each job with a GPU in its last run, by id, as far as it was measured since the start.
    use_series: dict[str, tuple[int, UseSeries]] = field(default_factory=dict)
    #: Running jobs that have used no GPU for longer than the settings allow, by id.
    unused: dict[str, UnusedGpu] = field(default_factory=dict)
    #: Past usage of each training queue in decayed GPU-seconds; empty if past usage does not count.
    past_usage: Mapping[str, float] = field(default_factory=dict)
    #: Nodes and devices that administrators drain, by name.
    drains: dict[str, Drain] = field(init=False)
    _by_kind: dict[Kind, Backend] = field(init=False)
    #: The last result of `nodes`, and its input: a large cluster changes far less often than its nodes are read.
    _nodes: tuple[Node, ...] = ()
    _nodes_of: tuple[Settings, list[tuple[Node, ...]], frozenset[str], frozenset[str], frozenset[str]] | None = None
    _core_view: CoreView = field(init=False)
    #: Workloads about which no decision can be made, as they were when that was found.
    _excluded: dict[str, Workload] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Index the backends by the kinds of workload that they run, and load the stored drains and deletions."""
        self.drains = load_drains(self.store)
        self.deletions = Deletions(self.store)
        self._by_kind = {kind: backend for backend in reversed(self.backends) for kind in backend.kinds}
        self._core_view = CoreView(self.durations, self._by_kind, self._can_suspend, self._is_closed, self._bind)

    @property
    def set_aside(self) -> SetAside:
        """The workloads on which work of the service failed, with the failures."""
        return self.records.set_aside

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.settings_source.current

    def backend_of(self, kind: Kind) -> Backend:
        """Return the backend that runs workloads of this kind; raise `KeyError` if there is none."""
        return self._by_kind[kind]

    @property
    def images(self) -> Mapping[str, str]:
        """The images in which jobs may run beside their notebook's, by the names that users see; none without pods."""
        return self.settings.images if self.backend_of(Kind.TRAINING).capabilities.images else {}

    @property
    def cordon(self) -> NodeCordon | None:
        """The port of a backend that cordons nodes; None if the service itself keeps what is drained."""
        return next((found for each in self.backends if (found := each.capabilities.cordon) is not None), None)

    def can_watch(self, kind: Kind, devices: Iterable[Device]) -> bool:
        """Return whether the memory of shares of these devices is watched, as far as that is known before they run."""
        able = self.backend_of(kind).capabilities
        if not self.settings.memory_watch.enabled:
            return False
        if (port := able.ordered_signals) is not None:
            return all(device.memory and port.can_signal(device.id) for device in devices)
        if self.probe is None or able.process_signals is None:
            return False
        return all(device.memory and (self.host_pids or is_simulated(device.id)) for device in devices)

    def nodes(self) -> tuple[Node, ...]:
        """Return the nodes of all backends, each once and with each device in its pool.

        Drained nodes and devices, devices that left their pool under running work, and devices of runs without a record
        and of runs that should not be take nothing new. If nothing has changed, the same tuple is returned again.
        """
        settings, offers = self.settings, self._offers()
        drained = frozenset(self.drains) if self.cordon is None else frozenset()
        taken = frozenset(device for run in (*self.unknown_runs, *self.needless_runs) for device in run.devices)
        held = self._held_outside_pools(offers, taken)
        if (settings, offers, drained, taken, held) != self._nodes_of:
            nodes = without_devices(mark_drained(merge_offers(offers), drained), taken)
            self._nodes = with_levels(settings.nodes(nodes, held), settings.topology)
            self._nodes_of = settings, offers, drained, taken, held
        return self._nodes

    def _held_outside_pools(self, offers: Iterable[tuple[Node, ...]], taken: Iterable[str]) -> frozenset[str]:
        """Return the ids of offered devices that are in no pool any more and still have work on them.

        `taken` are ids of devices with other runs than those of records.
        """
        outside = {device for nodes in offers for device in self.settings.devices_outside_pools(nodes)}
        if not outside:
            return frozenset()
        workloads = [record.workload for record in self.records.holding()]
        held = {device for each in workloads for task in each.held_places for device in task.devices}
        return frozenset(outside & (held | set(taken)))

    def offered_nodes(self) -> tuple[Node, ...]:
        """Return all nodes as the backends offer them, each once, also with devices that are in no pool."""
        return tuple(merge_offers(self._offers()))

    def _offers(self) -> list[tuple[Node, ...]]:
        """Return the nodes that each backend offers now."""
        return [backend.nodes() for backend in self.backends]

    def new_nodes(self) -> tuple[NewNodes, ...]:
        """Return the nodes that clusters may still add to configured pools, each with the state of its request."""
        supplies = (backend.capabilities.node_supply for backend in self.backends)
        return tuple(
            replace(new, request=supply.node_request(new.pool))
            for supply in supplies
            for new in supply.new_nodes()
            if new.pool in self.settings.pools
        )

    def launch_capacity(self) -> Mapping[Kind, int]:
        """Return how many tasks of jobs the backend can launch soon, by kind; empty if it can launch any number."""
        pace = self.backend_of(Kind.TRAINING).capabilities.pace()
        return {} if pace is None else {Kind.TRAINING: pace.left}

    def remember_groups(self, caller: Caller) -> None:
        """Keep the groups of the caller in memory, since the caller's fixed quota may depend on them."""
        self.groups[caller.user] = caller.groups

    def groups_of(self, record: Record) -> frozenset[str]:
        """Return the groups of the record's owner: those of the last request since the start, or else of the record."""
        return self.groups.get(record.workload.owner, record.detail.owner_groups)

    def groups_of_user(self, user: str) -> frozenset[str]:
        """Return the groups of a user: of the last request since the start, or else of the user's unfinished work."""
        if user in self.groups:
            return self.groups[user]
        own = (record.detail for record in self.records.unfinished() if record.workload.owner == user)
        return frozenset().union(*(detail.owner_groups for detail in own))

    def queues(self, also: Iterable[Caller] = ()) -> tuple[Queue, ...]:
        """Return the queue tree, with a leaf for each user with an unfinished notebook and each caller in `also`."""
        users = {record.workload.owner: self.groups_of(record) for record in self.records.notebooks()}
        users.update({caller.user: caller.groups for caller in also})
        return self.settings.queues(users)

    @property
    def max_uncounted_tasks(self) -> int | None:
        """Most tasks that request no GPU, CPU or memory and run at the same time; None = any number."""
        return self.backend_of(Kind.TRAINING).capabilities.max_uncounted_tasks

    def snapshot(self, also: Iterable[Caller] = ()) -> Snapshot:
        """Return the input of a scheduling cycle at this moment, with leaf queues for the callers in `also`.

        Workloads about which no decision can be made are left out, and their devices take nothing new.
        """
        records = tuple(self.records.unfinished())
        views = hold_beyond_limits(records, self._core_view.views_of(records))
        queues = self.queues(also)
        known = frozenset(queue.name for queue in queues)
        workloads = hold_beyond_task_limit(views, self.max_uncounted_tasks, self.clock.now(), known)
        named = {workload.queue for workload in workloads}
        kept = self.kept_memory()
        snapshot = Snapshot(
            nodes=without_memory(self.nodes(), kept) if kept else self.nodes(),
            queues=queues,
            workloads=workloads,
            usage=self.past_usage,
            topologies=make_topologies(self.settings.topology),
            new_nodes=self.new_nodes(),
            vanished=tuple(sorted(named - known)),
            unobserved=tuple(sorted(self.unobserved)),
            launch_capacity=self.launch_capacity(),
        )
        return without(snapshot, self._still_excluded(workloads))

    def _can_suspend(self, record: Record) -> bool:
        """Tell whether the share of a notebook can be suspended now.

        False if the settings forbid it, if its backend cannot do it, and during the backoff after a failed attempt.
        """
        workload, refusal = record.workload, record.detail.suspension_refusal
        devices = (device for task in workload.placement for device in task.devices)
        if workload.kind is not Kind.NOTEBOOK or not self.settings.suspension.allows(devices):
            return False
        port = self.backend_of(workload.kind).capabilities.suspension
        if port is None or (refusal is not None and self.clock.now() < refusal.until):
            return False
        return not port.describe_refusal(workload.id, workload.run)

    def _bind(self, record: Record) -> Workload:
        """Return the workload of a record; a job that waits suspended has the request that its run can go on with."""
        if not waits_suspended(record):
            return record.workload
        port = self.backend_of(record.workload.kind).capabilities.suspension
        devices = {device.id: device for node in self.nodes() for device in node.devices}
        return bind_request(record, devices, can_move=port is not None and port.can_move)

    def kept_memory(self) -> Mapping[str, MiB]:
        """Return the memory of the machine that suspended runs of waiting jobs keep, by node; empty without any."""
        if self.backend_of(Kind.TRAINING).capabilities.suspension is None:
            return {}
        return sum_kept_memory(self.records.unfinished())

    def _is_closed(self, workload: Workload) -> bool:
        """Tell whether no task can be added to the present run of a workload."""
        return (workload.id, workload.run) in self.closed_runs

    def with_elasticity(self, workload: Workload) -> Workload:
        """Return a job that has not been sent, marked as elastic if its number of tasks could change while it runs."""
        resizing = self.backend_of(workload.kind).capabilities.resizing
        return replace(workload, elastic=True) if resizing is not None and workload.can_shrink else workload

    def exclude(self, workload: Workload, error: Exception) -> None:
        """Leave a workload out of snapshots until it changes, because a decision about it raises `error`.

        The workload is set aside, so that administrators are told.
        """
        self._excluded[workload.id] = workload
        self.set_aside.add(workload.id, "deciding", error)

    def _still_excluded(self, workloads: Iterable[Workload]) -> Collection[Workload]:
        """Return the excluded workloads that have not changed.

        A workload that changed or ended takes part again, and its recorded failures are deleted.
        """
        if self._excluded:
            present = {workload.id: workload for workload in workloads if workload.id in self._excluded}
            for name in [name for name, excluded in self._excluded.items() if present.get(name) != excluded]:
                del self._excluded[name]
                self.set_aside.forget(name)
        return self._excluded.values()

    def empty_snapshot(self, also: Iterable[Caller] = ()) -> Snapshot:
        """Return a snapshot of the present nodes and queues without any workload.

        The queues have leaves for the callers in `also`.
        """
        return Snapshot(
            nodes=self.nodes(),
            queues=self.queues(also),
            workloads=(),
            topologies=make_topologies(self.settings.topology),
            new_nodes=self.new_nodes(),
        )

    def devices_of(self, workload: Workload) -> tuple[Device, ...]:
        """Return the devices that a workload holds, without devices that no backend offers any more."""
        held = {device for task in workload.held_places for device in task.devices}
        return tuple(device for node in self.nodes() for device in node.devices if device.id in held)

    def request(self, kind: Kind, milli: MilliGpu, device_memory: MiB | None = None) -> Request:
        """Return the request for `milli` milli-GPU, or for memory of one device, by a workload of that kind.

        A part of a device is bound to nodes that can share devices, if the backend marks such nodes.
        """
        request = replace(Request.of(milli), device_memory=device_memory)
        label, is_part = (
            self.backend_of(kind).capabilities.share_label,
            0 < milli < ONE_GPU or device_memory is not None,
        )
        return replace(request, node_labels=(label,)) if label is not None and is_part else request

    def with_memory_part(self, workload: Workload) -> Workload:
        """Return a job with the part of a device that its GPU memory takes on the present devices of its pool."""
        if workload.request.device_memory is None:
            return workload
        return MemoryParts(self.nodes()).of_workload(workload, self.settings.train_pool)

    def job_use(self, workload: Workload) -> ShareUse | None:
        """Return the last sample of the devices of a running job; None without a sample that can be believed.

        A driver that names processes by other ids than this service sees would show no use at all.
        """
        use = self.usage.get(workload.id) if workload.state is State.RUNNING else None
        devices = (device for task in workload.placement for device in task.devices)
        is_believed = self.reports_use(workload.kind) or self.host_pids or all(map(is_simulated, devices))
        return use if is_believed else None

    def list_clients(self, workload: Workload) -> list[bool]:
        """Return whether each program on the devices of a share is a client of MPS; empty if none is or can be seen."""
        use = self.usage.get(workload.id)
        return [process.through_mps for device in (use.devices if use else ()) for process in device.processes or ()]

    def reports_use(self, kind: Kind) -> bool:
        """Return whether agents on the nodes measure the use of workloads of this kind, not this service."""
        return self.backend_of(kind).capabilities.agent_reports is not None

    def environment(self, workload: Workload) -> Mapping[str, str]:
        """Return the environment variables that tell the processes of a workload their devices and their share of each.

        Returns {} if workloads of this kind run in pods, since then only the backend knows the devices.
        """
        if self.backend_of(workload.kind).capabilities.pod_preparation is not None:
            return {}
        devices, milli = self.devices_of(workload), workload.request.milli_per_device
        port = self.backend_of(workload.kind).capabilities.partitioning
        through_mps = {} if port is None else port.environment(devices, milli)
        return {**share_environment(devices, milli), **through_mps}

    def last_seq(self, job: str) -> int:
        """Return the number of the last stored piece of a job's output; 0 if there is none."""
        self.look_up_last_seqs([job])
        return self.last_seqs[job]

    def last_seq_before(self, workload: Workload) -> int:
        """Return the number of the last stored piece of earlier runs, for the start of a run; 0 for a first run.

        See docs/decisions/0259-give-each-run-its-first-number-at-its-start.md.
        """
        return self.last_seq(workload.id) if workload.run > 1 else 0

    def look_up_last_seqs(self, jobs: Iterable[str]) -> None:
        """Read together the numbers for `last_seq` that are not known yet."""
        if missing := [job for job in jobs if job not in self.last_seqs]:
            self.last_seqs.update(self.store.last_seqs(missing))
