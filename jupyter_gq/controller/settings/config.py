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
        help="GPUs of a user who is named nowhere else. A fraction of one GPU or a whole number. Default: 0.25.",
    ).tag(config=True)
    groups = GpuRequestsByName(
        help="GPUs by hub group, such as {'vision': '0.5'}; of several groups the largest counts. Default: none.",
    ).tag(config=True)
    users = GpuRequestsByName(
        help="GPUs by user name, such as {'ann': 2}; comes before groups and the default. Default: none.",
    ).tag(config=True)


class TrainingQueues(Configurable):
    """The queues where jobs wait, and their guarantees."""

    queues = DictByName(
        help="""Queues by name. Each is a dict with any of: quota (GPUs guaranteed, default 0), limit (GPUs never
        exceeded, default None: no limit), over_quota_weight (part of the idle GPUs, default 1), priority (idle GPUs go
        to higher ones first, default 0), preempt_min_runtime and reclaim_min_runtime (seconds that a job runs before it
        is paused for a higher priority of its own queue, and for another queue; default: as the queue above says, else
        as c.Fairness says), parent (name of a queue above), users, groups (lists of names; neither:
        everybody). Default: none, so nothing can be sent to training.""",
    ).tag(config=True)
    grace = Number(
        30,
        maximum=LONGEST_GRACE,
        help="Seconds that a paused job has to save its state before it is ended, at most an hour: until then it keeps "
        "its GPUs from those for whom it was paused. Default: 30.",
    ).tag(config=True)
    cancel_grace = Number(
        5,
        maximum=LONGEST_GRACE,
        help="Seconds that a cancelled job has before it is ended, at most an hour. Default: 5.",
    ).tag(config=True)
    max_bundle_mib = Number(
        20, minimum=0.001, unit="MiB", help="Largest bundle of cells that a job may bring, in MiB. Default: 20."
    ).tag(config=True)
    keep_finished_days = Number(
        30,
        unit="days",
        help="""Days for which a job that has ended is kept, with its output and files. Then it is gone from the list;
        what stands under the cells of notebooks stays. 0: for ever. Default: 30.""",
    ).tag(config=True)


class Pools(Configurable):
    """Which devices serve notebooks, and which serve training."""

    pools = DictByName(
        help="""Pools by name, such as {'build': {'devices': 1}, 'train': {'devices': [1, 'GPU-5c1e...']}}: a number of
        devices, taken in the order of their index, or a list of indices and UUIDs. On Kubernetes a pool has the labels
        of its nodes instead, such as {'build': {'nodes': {'jupyter-gq.org/pool': 'build'}}} ({} = every node; of
        several pools the first that fits), and any of: resource (name of a whole GPU, default "nvidia.com/gpu"),
        provider (of fractions: "reservation", "hami" or "kai", default "reservation"), visibility (how a container sees
        its device: "env", "env-cdi", "volume-mount" or "cdi-annotation", default "env"), hold ("demand" or "always",
        default "demand": devices are held for fractions while there are any), tolerations (as in a pod, default none),
        scale_up (a cluster autoscaler adds nodes to it: {'gpus': 8, 'nodes': 4, 'cpus': 64, 'memory': '512G'} is what
        a new node has, and the most nodes that the pool may have in all; cpus and memory may be left out; default off).
        Default: one pool "default" with every device.""",
    ).tag(config=True)
    build = Word("", help='Pool of the notebooks. Default: the pool named "build", or the only one.').tag(config=True)
    train = Word("", help='Pool of the jobs. Default: the pool named "train", or the only one.').tag(config=True)
    over_subscription = Number(
        1.0,
        minimum=1,
        unit="times the build pool",
        help="""How many times the build pool may be promised to the users named in c.FixedQuota.users. Above 1 a
        notebook within its quota may have to wait, and the options page says so. Default: 1.0.""",
    ).tag(config=True)


class IdlePolicy(Configurable):
    """The times after which an idle notebook loses its share."""

    after = Number(1800, minimum=1, help="Seconds of idleness before the share is taken. Default: 1800.").tag(
        config=True
    )
    warning = Number(600, help="Seconds of countdown in the notebook, the last part of `after`. Default: 600.").tag(
        config=True
    )
    grace = Number(600, help="Seconds after the start without any verdict. Default: 600.").tag(config=True)
    keep_step = Number(1800, help='Seconds that one "Keep it" gives. Default: 1800.').tag(config=True)
    keep_total = Number(3600, help='Seconds of "Keep it" in all, until the notebook is used again. Default: 3600.').tag(
        config=True
    )
    always = Flag(False, help="True: idle notebooks end even when nobody waits for their share. Default: False.").tag(
        config=True
    )


class Fairness(Configurable):
    """The order among jobs, and the protection of running ones."""

    preempt_min_runtime = Number(
        0,
        help="""Seconds that a job runs before it is paused for one of higher priority in its own queue, where no queue
        on its path says otherwise. Default: 0.""",
    ).tag(config=True)
    reclaim_min_runtime = Number(
        0,
        help="""Seconds that a job runs before it is paused for another queue, where no queue on its path says
        otherwise. Default: 0.""",
    ).tag(config=True)
    min_runtime_method = OneOf(
        tuple(MinRuntimeMethod),
        "lca",
        help="""Whose reclaim_min_runtime protects a job against another queue. "queue": that of its own queue, else of
        the nearest one above it. "lca": the search begins below the lowest common ancestor of the two queues, so that
        what a team sets holds against its sister teams, and what its department sets against other departments.
        Default: "lca".""",
    ).tag(config=True)

    half_life = Number(
        0,
        unit="seconds (0: off)",
        help="""Seconds after which half of what a queue has used is forgotten. With it, of two queues that want the
        same idle GPUs the one gets more that has used less lately, such as 604800 for a week; the guaranteed quotas
        stay as they are. Default: 0, past use does not count.""",
    ).tag(config=True)
    usage_weight = Number(
        1.0,
        unit="times",
        help="""How much past use counts beside over_quota_weight, where c.Fairness.half_life is set. Default: 1.0.""",
    ).tag(config=True)
    entry_cost = Number(
        0,
        help="""Seconds that a job counts as having run as soon as it starts for the first time, so that a burst of
        short jobs counts at once, where c.Fairness.half_life is set. Default: 0.""",
    ).tag(config=True)
    per_user = Flag(
        False,
        help="""True: inside a queue, among jobs of equal priority, those of the user go first who has less of the
        queue at that moment; then the older ones. False: the older ones. Default: False.""",
    ).tag(config=True)
    reclaim_margin = Number(
        1.0,
        minimum=1,
        unit="times",
        help="""A team within its share may take GPUs back for a department that is above its own from another that
        then still is so many times as far above its own. Default: 1.0.""",
    ).tag(config=True)


class LongWaits(Configurable):
    """The measures for jobs that wait although GPUs are free here and there."""

    reserve_after = Number(
        1800,
        help="""Seconds after which a waiting job gets a reservation: GPUs are held for it as they free, and other jobs
        go around it. 0: nobody gets one, and small jobs can keep a large one from starting. Default: 1800.""",
    ).tag(config=True)
    move = Flag(
        True,
        help="""True: running jobs are moved together where that makes room for one that waits, if each of them has a
        new place. A moved job goes on from its last checkpoint. Default: True.""",
    ).tag(config=True)
    moved_after = Number(600, help="Seconds that a job runs before it may be moved. Default: 600.").tag(config=True)


class Placement(Configurable):
    """How a device is chosen among those that fit."""

    policy = OneOf(
        tuple(PlacementStrategy),
        "pack",
        help="""For whole GPUs, and for work without any. "pack" fills the fullest device or node first, "spread" the
        emptiest, "fragmentation" takes the place that leaves most that the work of these days can use: it spares whole
        nodes, CPU and rare models for those who need them. Default: "pack".""",
    ).tag(config=True)
    fractions = OneOf(
        tuple(PlacementStrategy),
        "fragmentation",
        help="""The same for fractions of a GPU. Default: "fragmentation".""",
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
    #: Largest bundle of a job, in bytes.
    max_bundle_bytes: int = 20 * MEBIBYTE
    #: Time for which ended work is kept; 0 = for ever.
    keep_finished: Seconds = DEFAULT_KEEP_FINISHED

    def fixed_quota(self, user: str, groups: frozenset[str]) -> MilliGpu:
        """Return a user's fixed quota: of the user, or else the largest of the groups, or else the default."""
        if user in self.user_quotas:
            return self.user_quotas[user]
        of_groups = [quota for group, quota in self.group_quotas.items() if group in groups]
        return max(of_groups, default=self.default_quota)

    def nodes(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Return these nodes with each device in its pool; devices that are in no pool are left out."""
        return tuple(map(self._in_their_pools, nodes))

    def _in_their_pools(self, node: Node) -> Node:
        """Return the node with each device in its pool; the same object if nothing changes.

        Callers compare nodes often, and the same object compares at once.
        """
        pools = [self._pool_of(device) for device in node.devices]
        if all(pool == device.pool for pool, device in zip(pools, node.devices, strict=True)):
            return node
        placed = zip(pools, node.devices, strict=True)
        return replace(node, devices=tuple(replace(device, pool=pool) for pool, device in placed if pool is not None))

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
        max_bundle_bytes=int(training.max_bundle_mib * MEBIBYTE),
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
