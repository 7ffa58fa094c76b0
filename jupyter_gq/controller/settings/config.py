"""The administrator's settings, as frozen values that are made from the sections of the hub's config file."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Protocol

from traitlets.config import Config

from jupyter_gq.controller.caller import Caller
from jupyter_gq.devices.limits import is_simulated
from jupyter_gq.devices.memory_watchdog import Act, WatchRule
from jupyter_gq.domain.amount import MiB, MilliGpu, Seconds
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.queue import BUILD_ROOT, Queue, build_queue
from jupyter_gq.domain.queue_tree import find_leaves, path_of
from jupyter_gq.domain.store_url import explain_fault_in_url, explain_secret_in_url
from jupyter_gq.scheduling.policy import (
    IdleRule,
    MinRuntimeMethod,
    MinRuntimeRule,
    PlacementStrategy,
    Policy,
    UsageRule,
)

from .last_good import LastGood
from .pools import device_pools, expect_no_over_subscription, pod_pools, pool_for
from .queue_resources import Defaults
from .queues import TrainingQueue, check_fixed_quotas, training_queues
from .sections import (
    SECTIONS,
    AuditLog,
    Fairness,
    FixedQuota,
    IdlePolicy,
    LongWaits,
    Placement,
    Pools,
    TrainingQueues,
    can_be_shown,
)
from .traits import SettingsError

#: Settings with URLs of stores, and who gets the credentials: these must not be in the URL, which is stored.
_STORED_URLS = {
    ("KubernetesBackend", "bundle_url"): "to the service in variables of its environment",
    ("KubernetesBackend", "checkpoint_url"): "to the pods of jobs by an identity, or by a Secret in pod_overrides",
}

MEBIBYTE = 1024 * 1024
DEFAULT_GRACE = Seconds(30)
DEFAULT_CANCEL_GRACE = Seconds(5)
DEFAULT_UNUSED_AFTER = Seconds(900)
DEFAULT_RETURN = Seconds(60)
#: Shortest time that a borrower of a lent share has to save its state.
LEAST_GRACE = Seconds(1)
#: Time in which a borrower is killed after its grace, its end is seen, and the driver shows that its memory is free.
#: See docs/decisions/0316-keep-the-promise-against-borrowers-that-do-not-stop.md.
KILL_TIME = Seconds(3)
#: Time between SIGTERM and SIGKILL for a program of a share above its memory limit.
KILL_AFTER = Seconds(10)
DAY = 86400.0
DEFAULT_KEEP_FINISHED = Seconds(30 * DAY)
DEFAULT_KEEP_AUDIT = Seconds(365 * DAY)


@dataclass(frozen=True, kw_only=True, slots=True)
class SuspensionRule:
    """Whether idle shares and paused jobs are suspended, and what that may cost."""

    #: True = wherever the driver can, False = never, None = on simulated devices only.
    enabled: bool | None = None
    #: The same for paused jobs; None = as for idle shares.
    jobs: bool | None = None
    #: Time within which a suspended notebook that is used again has its devices back.
    return_within: Seconds = DEFAULT_RETURN
    #: Host memory that all suspended shares may take; None = only the free memory limits it.
    host_memory: MiB | None = None

    def allows(self, devices: Iterable[str]) -> bool:
        """Return whether a share of these devices may be suspended.

        Unless the administrator decides, only simulated devices are suspended.
        See docs/decisions/0144-suspend-on-real-gpus-only-when-told.md.
        """
        return all(map(is_simulated, devices)) if self.enabled is None else self.enabled

    def allows_job(self, devices: Iterable[str]) -> bool:
        """Return whether a paused job on these devices may be suspended."""
        return self.allows(devices) if self.jobs is None else self.jobs

    def borrower_grace(self, grace: Seconds, restore: Seconds | None = None) -> Seconds:
        """Return the seconds that borrowers have to save their state, from `LEAST_GRACE` up to `grace`.

        They are what `return_within` leaves beside `KILL_TIME` and `restore`, the seconds in which the state of the
        notebook returns; None = unknown, which counts as 0.
        """
        return Seconds(min(grace, max(LEAST_GRACE, self.return_within - KILL_TIME - (restore or 0.0))))

    def promised_return(self, restore: Seconds | None = None) -> Seconds:
        """Return the seconds within which a share is back once a cell waits for it, whatever the borrowers do.

        `restore` is as in `borrower_grace`. The time is `return_within`, or more if the restore needs more.
        """
        return Seconds(max(self.return_within, LEAST_GRACE + KILL_TIME + (restore or 0.0)))


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The checked settings of an administrator at one moment."""

    #: Fixed quota of a user who is named nowhere.
    default_quota: MilliGpu
    #: Fixed quota of the members of a group.
    group_quotas: Mapping[str, MilliGpu] = field(default_factory=dict)
    #: Fixed quota of a user.
    user_quotas: Mapping[str, MilliGpu] = field(default_factory=dict)
    #: The training queues, parents before children.
    training: tuple[TrainingQueue, ...] = ()
    #: Names of all pools, in the order of the config file.
    pools: tuple[str, ...] = ("default",)
    #: Pool of each device, by device id; None = every device is in the only pool.
    device_pool: Mapping[str, str] | None = None
    #: Pools of nodes; empty where pools are of devices. The backend then says which pool a device is in.
    pod_pools: tuple[PodPool, ...] = ()
    #: Pool of the notebooks.
    build_pool: str = "default"
    #: Pool of the jobs.
    train_pool: str = "default"
    #: Labels of nodes from wide to narrow: the levels within which a job may ask its tasks to be.
    topology: tuple[str, ...] = ()
    #: How many times the build pool may be promised.
    over_subscription: float = 1.0
    #: The policy of the scheduling cycle.
    policy: Policy = field(default_factory=Policy)
    #: The suspension of idle shares.
    suspension: SuspensionRule = field(default_factory=SuspensionRule)
    #: What is done about shares whose programs hold more memory than the limit.
    memory_watch: WatchRule = field(default_factory=WatchRule)
    #: Time that a paused job has to save its state.
    grace: Seconds = DEFAULT_GRACE
    #: Time that a cancelled job has to save its state.
    cancel_grace: Seconds = DEFAULT_CANCEL_GRACE
    #: Time for which a running job may use no GPU before its owner is told; None = owners are not told.
    unused_after: Seconds | None = DEFAULT_UNUSED_AFTER
    #: Most jobs that wait and run, and most open event streams.
    max_jobs_per_user: int = 1000
    max_jobs_per_queue: int = 10_000
    #: Disk space of the files of one job, on one machine; 0 = no limit.
    max_job_disk: MiB = MiB(0)  # noqa: RUF009 - it is an integer
    #: Disk space of the files of all jobs of one user, on one machine; 0 = no limit.
    max_user_disk: MiB = MiB(0)  # noqa: RUF009 - it is an integer
    max_waiting_jobs_per_user: int = 1000
    max_waiting_jobs_per_queue: int = 10_000
    max_waiting_tickets_per_user: int = 16
    max_streams_per_user: int = 64
    #: Most stored output of a job, in bytes and in pieces.
    max_output_bytes: int = 1024 * MEBIBYTE
    max_output_pieces: int = 1_000_000
    #: Largest page of a list, in bytes as its entries are stored.
    max_page_bytes: int = 16 * MEBIBYTE
    #: Largest bundle of a job, in bytes and in JSON values.
    max_bundle_bytes: int = 20 * MEBIBYTE
    max_bundle_values: int = 200_000
    #: Most bytes of the variables that one job brings back.
    max_result_bytes: int = 256 * MEBIBYTE
    #: Most bytes of the files that one job takes along, and of all such files that are kept for one user.
    max_job_file_bytes: int = 64 * MEBIBYTE
    max_user_file_bytes: int = 1024 * MEBIBYTE
    #: Most bytes of the log of one job, and of the logs of all jobs of one user.
    max_log_bytes: int = 64 * MEBIBYTE
    max_user_log_bytes: int = 1024 * MEBIBYTE
    #: Most bytes of the database that the jobs of one user may take; 0 = no limit.
    max_user_database_bytes: int = 4096 * MEBIBYTE
    #: Names and patterns of the secrets that jobs may have.
    secrets: tuple[str, ...] = ()
    #: Container images in which jobs may run beside their notebook's, by the name under which they are offered.
    images: Mapping[str, str] = field(default_factory=dict)
    #: Time for which ended work is kept; 0 = for ever.
    keep_finished: Seconds = DEFAULT_KEEP_FINISHED
    #: Time for which entries of the audit log are kept; 0 = for ever.
    keep_audit: Seconds = DEFAULT_KEEP_AUDIT

    def fixed_quota(self, user: str, groups: frozenset[str]) -> MilliGpu:
        """Return a user's fixed quota in milli-GPU: their own, else the largest of their groups, else the default."""
        if user in self.user_quotas:
            return self.user_quotas[user]
        of_groups = [quota for group, quota in self.group_quotas.items() if group in groups]
        return max(of_groups, default=self.default_quota)

    def nodes(self, nodes: Sequence[Node], held: Collection[str] = ()) -> tuple[Node, ...]:
        """Return these nodes with each device in its pool, without the devices that are in no pool.

        Devices of no pool whose ids are in `held` stay, with the pool "" and unhealthy, so that they take nothing new.
        """
        return tuple(self._in_their_pools(node, held) for node in nodes)

    def devices_outside_pools(self, nodes: Sequence[Node]) -> list[str]:
        """Return the ids of the devices of these nodes that are in no pool; [] if pools are of nodes or not set."""
        if self.device_pool is None:
            return []
        return [device.id for node in nodes for device in node.devices if device.id not in self.device_pool]

    def _in_their_pools(self, node: Node, held: Collection[str]) -> Node:
        """Return the node with each device in its pool, as `nodes` says; the same object if nothing changes.

        Callers compare nodes often, and the same object compares at once.
        """
        pools = [self._pool_of(device) for device in node.devices]
        if all(pool == device.pool for pool, device in zip(pools, node.devices, strict=True)):
            return node
        devices = []
        for pool, device in zip(pools, node.devices, strict=True):
            if pool is not None:
                devices.append(replace(device, pool=pool))
            elif device.id in held:
                withheld = device.healthy or device.withheld
                devices.append(replace(device, pool="", healthy=False, withheld=withheld))
        return replace(node, devices=tuple(devices))

    def queues(self, users: Mapping[str, frozenset[str]]) -> tuple[Queue, ...]:
        """Return the whole queue tree: the training queues, and the root of notebooks with one leaf for each user.

        `users` maps the name of each such user to the user's groups.
        """
        leaves = [self.build_leaf(user, users[user]) for user in sorted(users)]
        root = Queue(name=BUILD_ROOT, pool=self.build_pool, quota=MilliGpu(sum(leaf.quota for leaf in leaves)))
        return (root, *leaves, *self.training_tree())

    def build_leaf(self, user: str, groups: frozenset[str]) -> Queue:
        """Return the leaf queue of a user's notebooks, whose quota and limit are the user's fixed quota."""
        quota = self.fixed_quota(user, groups)
        return Queue(
            name=build_queue(user),
            pool=self.build_pool,
            parent=BUILD_ROOT,
            quota=quota,
            limit=quota,
            over_quota_weight=0,
        )

    def training_tree(self) -> tuple[Queue, ...]:
        """Return all training queues, parents before children."""
        return tuple(entry.queue for entry in self.training)

    def leaves(self) -> tuple[TrainingQueue, ...]:
        """Return the training queues that take jobs: those without queues below them."""
        names = {queue.name for queue in find_leaves(self.training_tree())}
        return tuple(entry for entry in self.training if entry.queue.name in names)

    def leaves_below(self, queue: str) -> frozenset[str]:
        """Return the names of the training queues that take jobs and are this queue or below it."""
        queues = {each.name: each for each in self.training_tree()}
        return frozenset(
            leaf.name
            for leaf in find_leaves(queues.values())
            if any(each.name == queue for each in path_of(leaf.name, queues))
        )

    def manages(self, caller: Caller, queue: str) -> bool:
        """Return whether the caller is a manager of the training queue of that name."""
        return any(entry.queue.name == queue and entry.is_managed_by(caller) for entry in self.training)

    def max_seconds_of(self, queue: str) -> Seconds | None:
        """Return the longest time that a job of the training queue may run; None if it has no limit, or is unknown."""
        return next((entry.max_seconds for entry in self.training if entry.queue.name == queue), None)

    def defaults_of(self, queue: str) -> Defaults:
        """Return the CPU and memory that tasks in a training queue have if their job names none."""
        return next((entry.defaults for entry in self.training if entry.queue.name == queue), Defaults())

    def leaves_of(self, user: str, groups: frozenset[str]) -> tuple[str, ...]:
        """Return the names of the training queues to which the user may send jobs."""
        return tuple(entry.queue.name for entry in self.leaves() if entry.admits(user, groups))

    def _pool_of(self, device: Device) -> str | None:
        """Return the name of the pool of a device; None if the device is in no pool."""
        if self.pod_pools:
            return device.pool if device.pool in self.pools else None
        return self.build_pool if self.device_pool is None else self.device_pool.get(device.id)


class SettingsSource(Protocol):
    """A source of settings, which also says whether a newer file was refused."""

    @property
    def current(self) -> Settings:
        """The last settings without an error."""
        ...

    @property
    def error(self) -> str | None:
        """A sentence that says why the present file is not in force; None if it is in force."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about entries in the settings in force that are probably mistakes."""
        ...

    @property
    def last_good(self) -> LastGood | None:
        """The settings in force in a form that can be stored; None if they cannot."""
        ...

    async def refresh(self) -> bool:
        """Read the file again if it has changed, without blocking the loop.

        Returns True if the settings changed or the new file was refused, and False if nothing changed.
        """
        ...


def build_settings(
    config: Config, nodes: Sequence[Node] | None, also: Mapping[str, Collection[str]] | None = None
) -> Settings:
    """Return the settings of a config; without pools of nodes, quotas are checked against the devices of `nodes`.

    With `nodes` None the devices are not known, and nothing is checked against them. `also` names the traits of further
    sections that other code reads. Raises `SettingsError` at the first fault.

    See docs/decisions/0458-doubt-quotas-that-this-machine-cannot-keep.md for a file that is only looked at.
    """
    _check_names(config, also or {})
    _check_urls(config)
    fixed, training, pools = FixedQuota(config=config), TrainingQueues(config=config), Pools(config=config)
    idle, fairness, placement = IdlePolicy(config=config), Fairness(config=config), Placement(config=config)
    waits = LongWaits(config=config)
    policy = Policy(
        placement=PlacementStrategy(placement.policy),
        fraction_placement=PlacementStrategy(placement.fractions),
        idle=_idle_rule(idle),
        min_runtime=_min_runtime(fairness),
        usage=_usage_rule(fairness),
        per_user=fairness.per_user,
        reclaim_margin=fairness.reclaim_margin,
        reserve_after=Seconds(waits.reserve_after) if waits.reserve_after else None,
        consolidate=waits.move,
        moved_after=Seconds(waits.moved_after),
    )
    on_cluster = config.SchedulerService.get("backend") == "kubernetes"
    by_nodes = pod_pools(pools.pools, on_cluster=on_cluster)
    if on_cluster or by_nodes:
        expect_no_over_subscription(config.Pools)
    # Quotas are checked against the nodes only if these are fixed; on a cluster nodes come and go.
    fixed_nodes = () if by_nodes or nodes is None else nodes
    devices = [device for node in fixed_nodes for device in node.devices]
    by_device = None if by_nodes else device_pools(pools.pools, None if nodes is None else devices)
    names = tuple(pools.pools) or ("default",)
    build, train = pool_for("build", pools.build, names), pool_for("train", pools.train, names)
    sizes = {name: len(devices) if by_device is None else list(by_device.values()).count(name) for name in names}
    if devices:
        check_fixed_quotas(fixed.default, fixed.groups, fixed.users, (build, sizes[build], pools.over_subscription))
    return Settings(
        default_quota=MilliGpu(fixed.default),
        group_quotas=fixed.groups,
        user_quotas=fixed.users,
        training=training_queues(training.queues, train, sizes[train] if devices else None, fixed_nodes),
        pools=names,
        device_pool=by_device,
        pod_pools=by_nodes,
        build_pool=build,
        train_pool=train,
        topology=tuple(placement.topology),
        over_subscription=pools.over_subscription,
        policy=policy,
        suspension=SuspensionRule(
            enabled=idle.suspend,
            jobs=training.suspend,
            return_within=Seconds(idle.return_within),
            host_memory=MiB(int(idle.suspended_memory * 1024)) if idle.suspended_memory else None,
        ),
        memory_watch=_watch_rule(pools),
        grace=Seconds(training.grace),
        cancel_grace=Seconds(training.cancel_grace),
        unused_after=Seconds(training.unused_after) if training.unused_after else None,
        max_jobs_per_user=int(training.max_jobs_per_user),
        max_jobs_per_queue=int(training.max_jobs_per_queue),
        max_job_disk=MiB(int(training.max_job_disk * 1024)),
        max_user_disk=MiB(int(training.max_user_disk * 1024)),
        max_waiting_jobs_per_user=int(training.max_waiting_jobs_per_user),
        max_waiting_jobs_per_queue=int(training.max_waiting_jobs_per_queue),
        max_waiting_tickets_per_user=int(training.max_waiting_tickets_per_user),
        max_streams_per_user=int(training.max_streams_per_user),
        max_output_bytes=int(training.max_output_mib * MEBIBYTE),
        max_output_pieces=int(training.max_output_pieces),
        max_page_bytes=int(training.max_page_mib * MEBIBYTE),
        max_bundle_bytes=int(training.max_bundle_mib * MEBIBYTE),
        max_bundle_values=int(training.max_bundle_values),
        max_result_bytes=int(training.max_result_mib * MEBIBYTE),
        max_job_file_bytes=int(training.max_job_files_mib * MEBIBYTE),
        max_user_file_bytes=int(training.max_user_files_mib * MEBIBYTE),
        max_log_bytes=int(training.max_log_mib * MEBIBYTE),
        max_user_log_bytes=int(training.max_user_logs_mib * MEBIBYTE),
        max_user_database_bytes=int(training.max_user_database_mib * MEBIBYTE),
        secrets=training.secrets,
        images=training.images,
        keep_finished=Seconds(training.keep_finished_days * DAY),
        keep_audit=Seconds(AuditLog(config=config).keep_days * DAY),
    )


def _watch_rule(pools: Pools) -> WatchRule:
    return WatchRule(
        enabled=pools.watch_memory,
        tolerance=MiB(int(pools.memory_tolerance)),
        reserve=MiB(int(pools.memory_reserve)),
        after={
            Act.WARN: Seconds(0),
            Act.INTERRUPT: Seconds(pools.interrupt_after),
            Act.TERMINATE: Seconds(pools.end_after),
            Act.KILL: KILL_AFTER,
        },
    )


def _idle_rule(idle: IdlePolicy) -> IdleRule:
    """Return the idle rule; raise `SettingsError` if the countdown is longer than the idle time."""
    if idle.warning > idle.after:
        raise SettingsError(
            "IdlePolicy.warning",
            idle.warning,
            f"the countdown is longer than the {idle.after:g} s of c.IdlePolicy.after",
            f"use at most {idle.after:g}",
        )
    return IdleRule(
        after=Seconds(idle.after),
        warning=Seconds(idle.warning),
        grace=Seconds(idle.grace),
        always=idle.always,
        stop=idle.stop,
        keep_step=Seconds(idle.keep_step),
        keep_total=Seconds(idle.keep_total),
    )


def _min_runtime(fairness: Fairness) -> MinRuntimeRule:
    return MinRuntimeRule(
        method=MinRuntimeMethod(fairness.min_runtime_method),
        preempt=Seconds(fairness.preempt_min_runtime),
        reclaim=Seconds(fairness.reclaim_min_runtime),
    )


def _usage_rule(fairness: Fairness) -> UsageRule:
    return UsageRule(
        half_life=Seconds(fairness.half_life) if fairness.half_life else None,
        weight=fairness.usage_weight,
        entry_cost=Seconds(fairness.entry_cost),
    )


def _check_urls(config: Config) -> None:
    """Raise `SettingsError` for a URL that names no place, or has credentials: these would be stored and shown."""
    for (section, trait), receiver in _STORED_URLS.items():
        url = config[section].get(trait) if section in config else None
        if not isinstance(url, str) or not url:
            continue
        if secret := explain_secret_in_url(url):
            fix = f"write it without them, and give credentials {receiver}"
            raise SettingsError(f"{section}.{trait}", "…", f"the URL has {secret}", fix)
        if fault := explain_fault_in_url(url):
            fix = "set the URL of a store that lasts, such as s3://bucket/folder"
            raise SettingsError(f"{section}.{trait}", "…", f"it {fault}", fix)


def _check_names(config: Config, also: Mapping[str, Collection[str]]) -> None:
    """Raise `SettingsError` for a trait that our sections do not have, and for a section whose name is nearly ours.

    Traitlets would ignore both.
    """
    known = {**also, **{section.__name__: section.class_trait_names(config=True) for section in SECTIONS}}
    for name in config:
        traits = known.get(name)
        if traits is None:
            if close := get_close_matches(name, known, n=1, cutoff=0.86):
                raise SettingsError(name, "…", "there is no such section", f"did you mean c.{close[0]}?")
            continue
        for trait in config[name]:
            if trait not in traits:
                value = config[name][trait] if can_be_shown(name) else "…"
                close = get_close_matches(trait, traits, n=1)
                guess = f"did you mean c.{name}.{close[0]}?" if close else f"use one of {', '.join(sorted(traits))}"
                raise SettingsError(f"{name}.{trait}", value, "there is no such trait", guess)
