"""The sections of the hub's config file that the service reads: each is a class with one trait for each setting."""

from traitlets.config import Configurable

from jupyter_gq.scheduling.policy import MinRuntimeMethod, PlacementStrategy

from .traits import (
    DictByName,
    Flag,
    FlagOrNone,
    GpuRequest,
    GpuRequestsByName,
    ImagesByName,
    NodeLabels,
    Number,
    OneOf,
    Patterns,
    Word,
)

LONGEST_GRACE = 3600


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

        `users`, `groups`: names of the users and hub groups that may use the queue. Default: those of the nearest queue
        above that names some, else everybody.

        `max_priority`: highest priority that these users may give to a job, from 0 to 100. Default: the value of the
        nearest queue above that has one, else 0.

        `max_seconds`: seconds that a job may run, over all of its runs and not counting pauses. A job at its limit is
        told to save its state and ends. A job may have a smaller limit of its own. Of the values of the queue and of
        all queues above it, the smallest counts. Default: no limit beside those of the queues above.

        `managers`, `manager_groups`: names of the users and hub groups that may use this queue and the queues below it
        with any priority up to 100, as administrators may. Default: nobody.""",
    ).tag(config=True)
    grace = Number(
        30,
        maximum=LONGEST_GRACE,
        help="Seconds that a job has to save its state when it is paused, at most an hour. Then it is ended. The "
        "workload for which it is paused waits so long for the GPUs. A notebook server has as long to end when its "
        "share is taken or given back. Default: 30.",
    ).tag(config=True)
    suspend = FlagOrNone(
        None,
        help="""True: wherever the driver can do it, the GPU memory of a job on one GPU, or a part of one, is moved to
        the memory of the machine when the job is paused, and back when it goes on, so that nothing is lost. False: a
        paused job is ended, and goes on from its checkpoint if it has one. None: as c.IdlePolicy.suspend. Ignored on
        Kubernetes, where a paused job is always ended. Default: None.""",
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
    max_job_disk = Number(
        100,
        unit="GiB",
        help="GiB of disk that the files of one job may take on this machine: its checkpoints, outputs and logs. A job "
        "that takes more is ended. They are measured every minute while the job runs. On a cluster, the pods' own "
        "limits count. 0 = no limit. Default: 100.",
    ).tag(config=True)
    max_user_disk = Number(
        500,
        unit="GiB",
        help="GiB of disk that the files of all jobs of one user may take on this machine, also of jobs that have "
        "ended. A user above the limit can send no new job; jobs that wait or run go on. 0 = no limit. Default: 500.",
    ).tag(config=True)
    max_jobs_per_queue = Number(
        10_000,
        minimum=1,
        unit="jobs",
        help="Most jobs that may wait and run in one queue at one time; one more is refused. Default: 10000.",
    ).tag(config=True)
    max_waiting_jobs_per_user = Number(
        1000,
        minimum=1,
        unit="jobs",
        help="Most jobs of one user that may wait at one time, over all queues; one more is refused. Default: 1000.",
    ).tag(config=True)
    max_waiting_jobs_per_queue = Number(
        10_000,
        minimum=1,
        unit="jobs",
        help="Most jobs that may wait in one queue at one time; one more is refused. Default: 10000.",
    ).tag(config=True)
    max_waiting_tickets_per_user = Number(
        16,
        minimum=1,
        unit="servers",
        help="Most servers of one user that may wait for a GPU at one time; one more is refused. Default: 16.",
    ).tag(config=True)
    max_output_mib = Number(
        1024,
        minimum=1,
        unit="MiB",
        help="""Most output of one job that the service stores, in MiB. The rest is left out, and a line in the output
        says so; the job goes on. Default: 1024.""",
    ).tag(config=True)
    max_output_pieces = Number(
        1_000_000,
        minimum=100,
        unit="pieces",
        help="""Most pieces of output of one job that the service stores: prints, pictures, and the begin and end of
        cells. The rest is left out, and a line in the output says so; the job goes on. Default: 1000000.""",
    ).tag(config=True)
    max_page_mib = Number(
        16,
        minimum=0.001,
        maximum=1024,
        unit="MiB",
        help="""Largest page of a list of jobs, notebooks, acts in the audit log or pieces of output, in MiB; the next
        page has the rest. A page with one entry may be larger. Default: 16.""",
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
    max_result_mib = Number(
        256,
        unit="MiB",
        help="""Most MiB of the variables that one job brings back, together; on Kubernetes also of its files. What is
        above that is not kept, and its owner is told; the job goes on. Default: 256.""",
    ).tag(config=True)
    max_job_files_mib = Number(
        64,
        minimum=0.001,
        maximum=1024,
        unit="MiB",
        help="""Most MiB of the files of the notebook's folder and of the variables of its kernel that one job takes
        along, together. Larger data stays where it is. Default: 64.""",
    ).tag(config=True)
    max_user_files_mib = Number(
        1024,
        minimum=0.001,
        unit="MiB",
        help="""Most MiB of the files and variables that jobs took along, and on Kubernetes brought back, which the
        database keeps for one user. Equal files are kept once, and until the last job with them is deleted.
        Default: 1024.""",
    ).tag(config=True)
    max_user_database_mib = Number(
        4096,
        unit="MiB",
        help="""Most MiB of the database that the jobs of one user may take with their outputs, and on Kubernetes with
        their cells and logs, also jobs that have ended. A user above the limit can send no new job; jobs that wait or
        run go on. 0 = no limit. Default: 4096.""",
    ).tag(config=True)
    max_log_mib = Number(
        64,
        minimum=1,
        maximum=65536,
        unit="MiB",
        help="""Most MiB of the log of one job that are kept, over all tasks of its last run. The beginning of a longer
        log is dropped, and readers of the log are told; the job goes on. Default: 64.""",
    ).tag(config=True)
    max_user_logs_mib = Number(
        1024,
        minimum=1,
        unit="MiB",
        help="""Most MiB of the logs of all jobs of one user that are kept. Above that, the logs of the jobs that ended
        first lose all but their end, and readers of these logs are told; looked at once an hour. Default: 1024.""",
    ).tag(config=True)
    secrets = Patterns(
        (),
        help="""Names of the secrets that jobs may have, such as ["HF_TOKEN", "WANDB_API_KEY", "AWS_*"]; `*` stands for
        any text. On one machine, users store them with `jupyter-gq secret set`; on Kubernetes, they are in a Secret of
        each user (`c.KubernetesBackend.user_secret`). The service never reads their values. Default: none.""",
    ).tag(config=True)
    images = ImagesByName(
        help="""Container images in which users may let their jobs run, by the name that users see, such as
        {"PyTorch 2.9": "registry.example.org/torch:2.9"}. Each image needs the package jupyter-gq. Without a choice, a
        job runs in the image of its notebook. A job keeps its image when the entry changes. On Kubernetes only; on one
        machine, users choose among the kernels of their server. Default: none.""",
    ).tag(config=True)
    unused_after = Number(
        900,
        help="""Seconds for which a running job may use none of its GPUs before its owner is told; nothing else happens.
        On simulated GPUs, up to 5 % count as no use. 0: owners are never told. Default: 900.""",
    ).tag(config=True)
    keep_finished_days = Number(
        30,
        unit="days",
        help="""Days for which a job that has ended is kept, with its output and files. After that the list of jobs
        does not show it; output under the cells of notebooks stays. 0: for ever. Default: 30.""",
    ).tag(config=True)


class Pools(Configurable):
    """The division of the devices into pools, for notebooks and for training, and the memory limits of shares."""

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
        help="""How many times the devices of the build pool may be promised to the users in c.FixedQuota.users. The
        quotas of groups and the default are not added up. If users are promised more than there is, a notebook within
        its quota may have to wait; the options page says so. Only for one machine: it is refused on Kubernetes, where
        nodes come and go. Default: 1.0.""",
    ).tag(config=True)

    watch_memory = Flag(
        True,
        help="""True: the device memory of each share of a part of a GPU is measured every five seconds, on this machine
        and on nodes whose agent may end programs. The user of a share above its limit is warned. Then the program of
        the share that holds most is interrupted, and ended if that does not help. Other programs are left alone. False:
        only the frameworks keep the limits. Default: True.""",
    ).tag(config=True)
    interrupt_after = Number(
        60,
        help="Seconds from the warning until the largest program of a share above its memory limit is interrupted. "
        "Default: 60.",
    ).tag(config=True)
    end_after = Number(
        60,
        help="Seconds from the interrupt until the largest program of a share that is still above its memory limit is "
        "told to end; it is killed ten seconds later. Default: 60.",
    ).tag(config=True)
    memory_tolerance = Number(
        256,
        unit="MiB",
        help="MiB above its memory limit that a share may hold while its GPU has more free memory than "
        "`memory_reserve`. Default: 256.",
    ).tag(config=True)
    memory_reserve = Number(
        256,
        unit="MiB",
        help="MiB of each GPU that should stay free. While less is free, shares have no tolerance above their limits. "
        "Default: 256.",
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
    suspend = FlagOrNone(
        None,
        help="""True: wherever the driver can do it, the GPU memory of an idle notebook is moved to the memory of the
        machine and back, and its GPU is lent to jobs meanwhile. None: only on simulated devices, because suspension has
        not been verified on real GPUs yet. False: a notebook loses its share only with its server. Default: None.""",
    ).tag(config=True)
    return_within = Number(
        60,
        minimum=1,
        help="""Seconds within which a suspended notebook has its GPU back once a cell waits for it. Jobs that borrowed
        the GPU then have less than c.TrainingQueues.grace to save their state, if that is needed. Default: 60.""",
    ).tag(config=True)
    suspended_memory = Number(
        0,
        unit="GiB",
        help="""GiB of the machine's memory that the GPU memory of all suspended notebooks and jobs may take. No more
        of them are suspended then. 0: only the free memory of the machine limits it. Default: 0.""",
    ).tag(config=True)
    always = Flag(False, help="True: idle notebooks lose their share even if nobody waits for it. Default: False.").tag(
        config=True
    )
    stop = Flag(
        True,
        help="""True: the server of an idle notebook that cannot be suspended is stopped, so that others get its share.
        False: no server is stopped because its GPU is idle; such a share stays with its owner. Default: True.""",
    ).tag(config=True)


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
    moved_after = Number(
        600,
        help="""Seconds that a job runs at least before it is moved. Other jobs are not moved for a job above its quota
        that went back to its queue within so many seconds. Default: 600.""",
    ).tag(config=True)


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
    topology = NodeLabels(
        (),
        help="""Labels of nodes from wide to narrow, such as ['topology.kubernetes.io/zone', 'example.com/rack']. Nodes
        with the same labels are near each other, and a job can ask that all its tasks run within one "zone" or "rack":
        the last part of the label. One "node" can always be asked for. Default: none.""",
    ).tag(config=True)


class AuditLog(Configurable):
    """The record of who did what: `jupyter-gq audit` reads it."""

    keep_days = Number(
        365,
        unit="days",
        help="Days for which an entry of the audit log is kept. 0: for ever. Default: 365.",
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
    AuditLog,
)


def can_be_shown(section: str) -> bool:
    """Return whether values of a section can be shown; options of a backend, for instance, may be secret."""
    return any(section == each.__name__ for each in SECTIONS)
