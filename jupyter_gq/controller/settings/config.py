"""The administrator's settings: traits of the hub's config file, and the frozen settings that are made from them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Protocol

from traitlets.config import Config, Configurable

from jupyter_gq.domain.amount import MilliGpu, Seconds
from jupyter_gq.domain.cluster import Device, Node
from jupyter_gq.domain.pod_pool import PodPool
from jupyter_gq.domain.queue import BUILD_ROOT, Queue, build_queue
from jupyter_gq.scheduling.policy import (
    IdleRule,
    MinRuntimeMethod,
    MinRuntimeRule,
    PlacementStrategy,
    Policy,
    UsageRule,
)

from .last_good import LastGood
from .pools import device_pools, pod_pools, pool_for
from .queue_resources import Defaults
from .queues import TrainingQueue, check_fixed_quotas, training_queues
from .traits import DictByName, Flag, GpuRequest, GpuRequestsByName, Number, OneOf, SettingsError, Word

MEBIBYTE = 1024 * 1024
DEFAULT_GRACE = Seconds(30)
DEFAULT_CANCEL_GRACE = Seconds(5)
LONGEST_GRACE = 3600
DAY = 86400.0
DEFAULT_KEEP_FINISHED = Seconds(30 * DAY)


class FixedQuota(Configurable):
    """The GPUs that each user can always have for notebooks, over all servers: by user, else group, else default."""

    default = GpuRequest(
        "0.25",
        help="GPUs of a user for whom neither `users` nor `groups` says anything. A fraction of one GPU or a whole "
        "number. Default: 0.25.",
    ).tag(config=True)
    groups = GpuRequestsByName(
        help="GPUs by hub group, such as {'vision': '0.5'}. A user in several groups has the largest of their amounts. "
        "Default: none.",
    ).tag(config=True)
    users = GpuRequestsByName(
        help="GPUs by user name, such as {'ann': 2}. An entry here takes precedence over `groups` and `default`. "
        "Default: none.",
    ).tag(config=True)


class TrainingQueues(Configurable):
    """The queues where jobs wait, and their guarantees."""

    queues = DictByName(
        help="""Queues by name. Each queue is a dict. Default: none, so nothing can be sent to training.

        `quota`: guaranteed GPUs. Default: 0; for a queue with queues below it, the sum of their quotas.

        `limit`: GPUs that the queue never exceeds. Default: None, no limit.

        `over_quota_weight`: how the idle GPUs are divided among the queues that want them. Default: 1.

        `priority`: idle GPUs go to queues of higher priority first. Default: 0.

        `preempt_min_runtime`, `reclaim_min_runtime`: seconds that a job runs at least before it is paused for a job of
        higher priority in its own queue, or for another queue. Default: the value of the nearest queue above that has
        one, else the value in c.Fairness.

        `quota_cpus`, `limit_cpus`, `quota_memory`, `limit_memory`: guarantees and limits of CPU cores and memory of
        the nodes. Default: None, not counted.

        `default_cpus`, `default_memory`: CPU cores and memory of each task of a job that names none. Default: the value
        of the nearest queue above that has one, else none.

        `parent`: name of the queue above. Default: None.

        `users`, `groups`: names of the users and hub groups that may use the queue. Default: everybody.

        `max_priority`: highest priority that these users may give to a job, from 0 to 100. Default: the value of the
        nearest queue above that has one, else 0.

        `managers`, `manager_groups`: names of the users and hub groups that may use this queue and the queues below it
        with any priority up to 100, as administrators may. Default: nobody.""",
    ).tag(config=True)
    grace = Number(
        30,
        maximum=LONGEST_GRACE,
        help="Seconds that a job has to save its state when it is paused, at most an hour. Then it is ended. The "
        "workload for which it is paused waits so long for the GPUs. Default: 30.",
    ).tag(config=True)
    cancel_grace = Number(
        5,
        maximum=LONGEST_GRACE,
        help="Seconds that a cancelled job has before it is ended, at most an hour. Default: 5.",
    ).tag(config=True)
    max_jobs_per_user = Number(
        1000,
        minimum=1,
        unit="jobs",
        help="Most jobs of one user that may wait and run at one time, over all queues; one more is refused. "
        "Default: 1000.",
    ).tag(config=True)
    max_jobs_per_queue = Number(
        10_000,
        minimum=1,
        unit="jobs",
        help="Most jobs that may wait and run in one queue at one time; one more is refused. Default: 10000.",
    ).tag(config=True)
    max_streams_per_user = Number(
        64,
        minimum=1,
        unit="streams",
        help="Most event streams that one user may have open at one time: each JupyterLab server has one. Default: 64.",
    ).tag(config=True)
    max_bundle_mib = Number(
        20,
        minimum=0.001,
        maximum=128,
        unit="MiB",
        help="Largest bundle of cells that a job may bring, in MiB. Default: 20.",
    ).tag(config=True)
    max_bundle_values = Number(
        200_000,
        minimum=1,
        unit="values",
        help="""Most JSON values (texts, numbers, lists, objects) that the bundle of a job may have: each takes some 60
        bytes of the service's memory while it is read. Default: 200000.""",
    ).tag(config=True)
    keep_finished_days = Number(
        30,
        unit="days",
        help="""Days for which a job that has ended is kept, with its output and files. After that the list of jobs
        does not show it; output under the cells of notebooks stays. 0: for ever. Default: 30.""",
    ).tag(config=True)


class Pools(Configurable):
    """The division of the devices into pools, for notebooks and for training."""

    pools = DictByName(
        help="""Pools by name. Each pool is a dict. Default: one pool "default" with every device.

        On one machine, a pool has `devices`: a number of devices, taken in the order of their index, or a list of
        indices and UUIDs. For example: {'build': {'devices': 1}, 'train': {'devices': [1, 'GPU-5c1e...']}}.

        On Kubernetes, a pool has `nodes`: labels of its nodes, such as
        {'build': {'nodes': {'jupyter-gq.org/pool': 'build'}}}. {} means every node. A node belongs to the first pool
        whose labels it has. The other keys are optional:

        `resource`: name of the resource that is one whole GPU. Default: "nvidia.com/gpu".

        `provider`: the software that divides devices into shares: "reservation", "hami" or "kai". Default:
        "reservation".

        `visibility`: how a container is made to see its device: "env", "env-cdi", "volume-mount" or "cdi-annotation".
        Default: "env".

        `hold`: how long the pool keeps its devices reserved for shares: "demand", while shares use them, or "always".
        Default: "demand".

        `tolerations`: taints of the nodes that the pods tolerate, as in a pod. Default: none.

        `scale_up`: a cluster autoscaler adds nodes to the pool. `gpus`, `cpus` and `memory` are what a new node has,
        and `nodes` is the largest number of nodes: {'gpus': 8, 'nodes': 4, 'cpus': 64, 'memory': '512G'}. `cpus` and
        `memory` may be left out. Default: None, no nodes are added.""",
    ).tag(config=True)
    build = Word("", help='Pool of the notebooks. Default: the pool named "build", or the only one.').tag(config=True)
    train = Word("", help='Pool of the jobs. Default: the pool named "train", or the only one.').tag(config=True)
    over_subscription = Number(
        1.0,
        minimum=1,
        unit="times the build pool",
        help="""How many times the devices of the build pool may be promised to the users in c.FixedQuota.users. If the
        value is above 1, a notebook within its quota may have to wait; the options page says so. Default: 1.0.""",
    ).tag(config=True)


class IdlePolicy(Configurable):
    """The times after which an idle notebook loses its share."""

    after = Number(1800, minimum=1, help="Seconds of idleness before the share is taken. Default: 1800.").tag(
        config=True
    )
    warning = Number(600, help="Seconds of countdown in the notebook, the last part of `after`. Default: 600.").tag(
        config=True
    )
    grace = Number(600, help="Seconds after its start in which a notebook never counts as idle. Default: 600.").tag(
        config=True
    )
    keep_step = Number(1800, help='Seconds for which one "Keep it" keeps the share. Default: 1800.').tag(config=True)
    keep_total = Number(
        3600,
        help='Seconds for which all "Keep it" together keep the share until the notebook is used again. Default: 3600.',
    ).tag(config=True)
    always = Flag(False, help="True: idle notebooks lose their share even if nobody waits for it. Default: False.").tag(
        config=True
    )


class Fairness(Configurable):
    """The order among jobs, and the protection of running ones."""

    preempt_min_runtime = Number(
        0,
        help="""Seconds that a job runs at least before it is paused for a job of higher priority in its own queue.
        Applies to queues that have no value on their path. Default: 0.""",
    ).tag(config=True)
    reclaim_min_runtime = Number(
        0,
        help="""Seconds that a job runs at least before it is paused for another queue. Applies to queues that have no
        value on their path. Default: 0.""",
    ).tag(config=True)
    min_runtime_method = OneOf(
        tuple(MinRuntimeMethod),
        "lca",
        help="""The queue whose reclaim_min_runtime protects a job against another queue. "queue": the job's own queue,
        else the nearest queue above that has a value. "lca": the search begins just below the lowest common ancestor of
        the two queues. The value of a team then holds against its sister teams, and the value of its department against
        other departments. Default: "lca".""",
    ).tag(config=True)

    half_life = Number(
        0,
        unit="seconds (0: off)",
        help="""Seconds in which the past use of a queue is halved, such as 604800 for a week. If two queues want the
        same idle GPUs, the queue that has used less lately gets more of them. Guaranteed quotas do not change.
        Default: 0, past use does not count.""",
    ).tag(config=True)
    usage_weight = Number(
        1.0,
        unit="times",
        help="""How much past use counts beside over_quota_weight, if c.Fairness.half_life is set. Default: 1.0.""",
    ).tag(config=True)
    entry_cost = Number(
        0,
        help="""Seconds of use that the first start of a job adds to the past use of its queue, so that a burst of
        short jobs counts at once. Takes effect if c.Fairness.half_life is set. Default: 0.""",
    ).tag(config=True)
    per_user = Flag(
        False,
        help="""True: among jobs of equal priority in a queue, jobs of the user who uses least of the queue at the
        moment start first, and older jobs before newer ones. False: older jobs start first. Default: False.""",
    ).tag(config=True)
    reclaim_margin = Number(
        1.0,
        minimum=1,
        unit="times",
        help="""A department above its fair share may take GPUs back from another department that is further above its
        own. The value says how much further, as a factor. Default: 1.0.""",
    ).tag(config=True)


class LongWaits(Configurable):
    """The measures for jobs that wait although GPUs are free here and there."""

    reserve_after = Number(
        1800,
        help="""Seconds after which a waiting job gets a reservation: GPUs that become free are kept for it, and other
        jobs start elsewhere. 0: no reservations; small jobs can then keep a large job from starting.
        Default: 1800.""",
    ).tag(config=True)
    move = Flag(
        True,
        help="""True: running jobs are moved if that makes room for a waiting job and each moved job has a new place. A
        moved job continues from its last checkpoint. Default: True.""",
    ).tag(config=True)
    moved_after = Number(600, help="Seconds that a job runs at least before it is moved. Default: 600.").tag(
        config=True
    )


class Placement(Configurable):
    """The choice among the devices that fit."""

    policy = OneOf(
        tuple(PlacementStrategy),
        "pack",
        help="""Placement of work with whole GPUs and of work without a GPU. "pack" fills the fullest device or node
        first, "spread" the emptiest. "fragmentation" takes the place after which the usual requests can use most of
        what is left: whole nodes, CPU and rare models are spared for the work that needs them. Default: "pack".""",
    ).tag(config=True)
    fractions = OneOf(
        tuple(PlacementStrategy),
        "fragmentation",
        help="""Placement of work with a fraction of a GPU, by the same words. Default: "fragmentation".""",
    ).tag(config=True)


#: The sections of the config file that belong to the service.
SECTIONS: tuple[type[Configurable], ...] = (
    FixedQuota,
    TrainingQueues,
    Pools,
    IdlePolicy,
    Fairness,
    LongWaits,
    Placement,
)


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
    #: How many times the build pool may be promised.
    over_subscription: float = 1.0
    #: The policy of the scheduling cycle.
    policy: Policy = field(default_factory=Policy)
    #: Time that a paused job has to save its state.
    grace: Seconds = DEFAULT_GRACE
    #: Time that a cancelled job has to save its state.
    cancel_grace: Seconds = DEFAULT_CANCEL_GRACE
    #: Most jobs that wait and run, and most open event streams.
    max_jobs_per_user: int = 1000
    max_jobs_per_queue: int = 10_000
    max_streams_per_user: int = 64
    #: Largest bundle of a job, in bytes and in JSON values.
    max_bundle_bytes: int = 20 * MEBIBYTE
    max_bundle_values: int = 200_000
    #: Time for which ended work is kept; 0 = for ever.
    keep_finished: Seconds = DEFAULT_KEEP_FINISHED

    def fixed_quota(self, user: str, groups: frozenset[str]) -> MilliGpu:
        """Return a user's fixed quota: of the user, or else the largest of the groups, or else the default."""
        if user in self.user_quotas:
            return self.user_quotas[user]
        of_groups = [quota for group, quota in self.group_quotas.items() if group in groups]
        return max(of_groups, default=self.default_quota)

    def nodes(self, nodes: Sequence[Node], held: Collection[str] = ()) -> tuple[Node, ...]:
        """Return these nodes with each device in its pool; devices that are in no pool are left out.

        Devices of no pool that `held` names stay, with the pool "", and take nothing new.
        """
        return tuple(self._in_their_pools(node, held) for node in nodes)

    def devices_outside_pools(self, nodes: Sequence[Node]) -> list[str]:
        """Return the ids of the devices of these nodes that are in no pool; none where pools are of nodes."""
        if self.device_pool is None:
            return []
        return [device.id for node in nodes for device in node.devices if device.id not in self.device_pool]

    def _in_their_pools(self, node: Node, held: Collection[str]) -> Node:
        """Return the node with each device in its pool; the same object if nothing changes.

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
                devices.append(replace(device, pool="", healthy=False))
        return replace(node, devices=tuple(devices))

    def queues(self, users: Mapping[str, frozenset[str]]) -> tuple[Queue, ...]:
        """Return the whole queue tree: training, and the build root with one leaf for each of these users.

        `users` maps each name to the user's groups.
        """
        leaves = [self.build_leaf(user, users[user]) for user in sorted(users)]
        root = Queue(name=BUILD_ROOT, pool=self.build_pool, quota=MilliGpu(sum(leaf.quota for leaf in leaves)))
        return (root, *leaves, *self.training_tree())

    def build_leaf(self, user: str, groups: frozenset[str]) -> Queue:
        """Return the leaf queue of a user's notebooks, whose limit is its quota."""
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
        parents = {entry.queue.parent for entry in self.training}
        return tuple(entry for entry in self.training if entry.queue.name not in parents)

    def defaults_of(self, queue: str) -> Defaults:
        """Return the CPU and memory of tasks in a queue whose jobs name none."""
        return next((entry.defaults for entry in self.training if entry.queue.name == queue), Defaults())

    def named_users(self) -> frozenset[str]:
        """Return the names of all users in the settings."""
        return frozenset(self.user_quotas).union(*(entry.users | entry.managers for entry in self.training))

    def named_groups(self) -> frozenset[str]:
        """Return the names of all groups in the settings."""
        return frozenset(self.group_quotas).union(*(entry.groups | entry.manager_groups for entry in self.training))

    def leaves_of(self, user: str, groups: frozenset[str]) -> tuple[str, ...]:
        """Return the names of the queues to which the user may send jobs."""
        return tuple(entry.queue.name for entry in self.leaves() if entry.admits(user, groups))

    def _pool_of(self, device: Device) -> str | None:
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
        """Why the present file is not in force; None if it is."""
        ...

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what in the settings in force is probably not meant."""
        ...

    @property
    def last_good(self) -> LastGood | None:
        """The settings in force in a form that can be stored; None if they cannot."""
        ...

    async def refresh(self) -> bool:
        """Read the file again if it has changed, without blocking the loop; tell whether anything changed."""
        ...


def build_settings(
    config: Config, nodes: Sequence[Node], also: Mapping[str, Collection[str]] | None = None
) -> Settings:
    """Return the settings of a config, checked against the devices of these nodes.

    Raises `SettingsError` at the first fault. `also` names the traits of further sections that other code reads.
    """
    _check_names(config, also or {})
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
    devices = [device for node in nodes for device in node.devices]
    by_nodes = pod_pools(pools.pools, on_cluster=config.SchedulerService.get("backend") == "kubernetes")
    # Quotas are checked against the nodes only if these are fixed; on a cluster nodes come and go.
    devices = [] if by_nodes else devices
    by_device = None if by_nodes else device_pools(pools.pools, devices)
    names = tuple(pools.pools) or ("default",)
    build, train = pool_for("build", pools.build, names), pool_for("train", pools.train, names)
    sizes = {name: len(devices) if by_device is None else list(by_device.values()).count(name) for name in names}
    if devices:
        check_fixed_quotas(fixed.default, fixed.groups, fixed.users, (build, sizes[build], pools.over_subscription))
    return Settings(
        default_quota=MilliGpu(fixed.default),
        group_quotas=fixed.groups,
        user_quotas=fixed.users,
        training=training_queues(training.queues, train, sizes[train] if devices else None, () if by_nodes else nodes),
        pools=names,
        device_pool=by_device,
        pod_pools=by_nodes,
        build_pool=build,
        train_pool=train,
        over_subscription=pools.over_subscription,
        policy=policy,
        grace=Seconds(training.grace),
        cancel_grace=Seconds(training.cancel_grace),
        max_jobs_per_user=int(training.max_jobs_per_user),
        max_jobs_per_queue=int(training.max_jobs_per_queue),
        max_streams_per_user=int(training.max_streams_per_user),
        max_bundle_bytes=int(training.max_bundle_mib * MEBIBYTE),
        max_bundle_values=int(training.max_bundle_values),
        keep_finished=Seconds(training.keep_finished_days * DAY),
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


def _check_names(config: Config, also: Mapping[str, Collection[str]]) -> None:
    """Raise `SettingsError` for a misspelt name, which traitlets would ignore."""
    known = {**also, **{section.__name__: section.class_trait_names(config=True) for section in SECTIONS}}
    for name in config:
        traits = known.get(name)
        if traits is None:
            if close := get_close_matches(name, known, n=1, cutoff=0.86):
                raise SettingsError(name, "…", "there is no such section", f"did you mean c.{close[0]}?")
            continue
        for trait in config[name]:
            if trait not in traits:
                value = config[name][trait]
                close = get_close_matches(trait, traits, n=1)
                guess = f"did you mean c.{name}.{close[0]}?" if close else f"use one of {', '.join(sorted(traits))}"
                raise SettingsError(f"{name}.{trait}", value, "there is no such trait", guess)
