"""The part of a workload's record that the scheduling core does not need: what its owner is told, and where it runs.

Each field has a default that means "nothing yet". `store.codec` writes and reads these records; no other module knows
the names under which they are stored.

See docs/decisions/0065-type-what-a-record-remembers.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .amount import NO_GPU, Instant, MiB, MilliGpu, Seconds
from .workload import Backoff, SuspensionRefusal, TaskPlacement

#: Reason of an `Eviction` that nobody ordered: the notebook's server failed.
ENDED: Final = "ENDED"


@dataclass(frozen=True, kw_only=True, slots=True)
class Eviction:
    """The last time that a run was taken back."""

    #: Value of an `EvictReason`, or `ENDED`.
    reason: str
    #: Explanation for the owner.
    sentence: str
    #: Name of the queue, job or user that got the devices; None if there is none.
    by: str | None
    at: Instant


@dataclass(frozen=True, kw_only=True, slots=True)
class Suspension:
    """The suspension of the share of a notebook or job: decided, and then in effect until the share is back."""

    #: Explanation for the owner: for whom and why.
    sentence: str
    #: Id of the workload for which the share is suspended; None = for no workload.
    by: str | None
    #: When the scheduler decided it.
    decided_at: Instant
    #: When the devices were found to be free; None = the share is still in use.
    since: Instant | None = None
    #: Host memory that the saved GPU state takes; of a job until then, its GPU memory at the decision. None = unknown.
    memory: MiB | None = None
    #: Duration of the move to host memory; None = unknown.
    seconds: Seconds | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Place:
    """Node and devices of a run, for people to read."""

    node: str
    #: Ids of the devices of all tasks; empty for CPU only.
    devices: tuple[str, ...]

    @classmethod
    def of(cls, placement: tuple[TaskPlacement, ...]) -> "Place":
        """Return the place with the node of the first task ("" without tasks) and the devices of all tasks in order."""
        devices = tuple(device for task in placement for device in task.devices)
        return cls(node=placement[0].node if placement else "", devices=devices)


@dataclass(frozen=True, kw_only=True, slots=True)
class SourceCell:
    """A notebook cell that a job runs."""

    cell_id: str
    #: SHA-256 of the source, hexadecimal.
    source_hash: str
    #: Duration of its last run in the notebook; None = unknown.
    seconds: float | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """How far a job says that it is."""

    #: From 0 to 1; None = unknown.
    fraction: float | None = None
    text: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class CodeError:
    """The exception that ended the code of a job."""

    ename: str
    evalue: str


@dataclass(frozen=True, kw_only=True, slots=True)
class WorkloadDetail:
    """The facts that the service remembers of a workload beside the `Workload` itself."""

    #: Why the workload ended or was interrupted, for its owner; "" = nothing to say.
    sentence: str = ""
    #: The last eviction; None = never evicted.
    eviction: Eviction | None = None
    #: GPUs above the quota of the queue at the last admission.
    over_quota: MilliGpu = NO_GPU
    #: Node and devices of the present or last run; None before the first admission.
    place: Place | None = None
    #: The pause since the last place was refused, whether it is over or not; None = the last place was not refused.
    backoff: Backoff | None = None

    #: Hub groups of the owner at the request, for the time after a restart of the service: they decide the quota of
    #: notebooks, and who sees the owner's names.
    owner_groups: frozenset[str] = frozenset()

    # Jobs: from the manifest.

    #: Name of the notebook server that the job was sent from.
    server: str = ""
    #: Path of the notebook, relative to the root folder of that server.
    notebook_path: str = ""
    #: Absolute working folder of the kernel.
    cwd: str = ""
    #: `Manifest.mode`: "replay" or "notebook".
    mode: str = ""
    #: Cells whose output goes back to the notebook.
    targets: tuple[SourceCell, ...] = ()
    #: Cells that run before the targets.
    prefix: tuple[SourceCell, ...] = ()
    #: Ids of cells that the owner left out of those proposed to run first, one for each run left out; None = unknown.
    left_out_cells: tuple[str, ...] | None = None
    #: Whether variables of the notebook's kernel went along, in place of cells; None = unknown, as of jobs of older
    #: releases.
    carries_variables: bool | None = None
    #: Hash of the request, if it came with an idempotency key; "" = none, as of jobs of older releases.
    request_hash: str = ""
    #: Names of the variables that the job brings back.
    returns: tuple[str, ...] = ()
    #: Names of the secrets that the job has; the values are known only where it runs.
    secrets: tuple[str, ...] = ()
    #: Image of all runs of the job, where jobs are pods: that of the server that it was sent from, or of the chosen
    #: software; "" = unknown.
    image: str = ""
    #: Name of the software that the owner chose: an image or a kernel; "" = that of the notebook.
    software: str = ""
    #: Id of the owner's ended job with a copy of whose checkpoints this one begins; "" = none.
    continue_from: str = ""
    #: Name of the owner's group of jobs, such as a sweep; "" = none.
    group: str = ""
    #: Jobs of the group that may run at the same time; 0 = no limit.
    group_parallel: int = 0
    #: Name of the number by which the jobs of the group are compared; "" = the first number of each.
    group_metric: str = ""
    #: Which number is the best: "max" or "min".
    group_mode: str = "max"

    # Jobs: from their runs.

    #: What the present run says of its progress; None = nothing.
    progress: Progress | None = None
    #: The last exception that the job showed; None = none.
    error: CodeError | None = None
    #: SHA-256 of the tokens of the present run's tasks except the first, by the number of the task.
    task_tokens: Mapping[int, str] = field(default_factory=dict)
    #: Tasks of the present run that have fetched their bundle; their pods get no other token.
    tasks_with_bundle: tuple[int, ...] = ()
    #: The uid of the pod that got the token of a task, by the number of the task: after a task has left an elastic run,
    #: a pod that joins may get its number.
    task_pods: Mapping[int, str] = field(default_factory=dict)
    #: Number of runs that vanished in a row, none of which made progress.
    consecutive_losses: int = 0

    # Notebooks.

    #: Process of the server, once its spawner has reported it; None before, and where servers are pods.
    pid: int | None = None
    #: Start of that process in seconds since the epoch, as the operating system tells it.
    pid_started: float = 0.0
    #: True = the spawner gave the ticket back and ends the server itself.
    given_back: bool = False
    #: Devices that the pod of the present run was told to name, by slot.
    named_devices: Mapping[str, str] = field(default_factory=dict)
    #: Text of the idle warning while there is one.
    warning: str = ""
    #: The suspension of the share, from the decision until the share is back; None = the share is not suspended.
    suspension: Suspension | None = None
    #: The failure of the last attempts to suspend the share; None = the last attempt did not fail.
    suspension_refusal: SuspensionRefusal | None = None

    #: Stored keys that this release does not know, kept for the release that wrote them. Values are JSON.
    unknown: Mapping[str, object] = field(default_factory=dict)
