"""Why we decide otherwise: sentences, matched by what a case contains, never by which case it is.

Rules
-----
1. *Intended*: our design says otherwise. *Not yet*: our core has no rule for it; the sentence says so.
2. A reason explains only a disagreement, and only if its feature is in the case; all that fit are listed.
3. A reason about CPU and memory is put to the test: it fits only if the disagreement vanishes when our core decides on
   the case without them. Where nothing is short any more, more work has a place than before; what counts is that all
   work has one that should have one.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass

from .translate import KINDS, WITHOUT_BOUND
from .verdict import Case, Difference

#: Our decision on a case, as its differences from what is expected.
Decide = Callable[[Case], Sequence[Difference]]
Feature = Callable[[Case, Sequence[Difference], Decide], bool]

#: Ways to ask for a part of a device.
PARTS = frozenset({"fraction", "memory"})
#: What a table says of the CPU and memory of a queue.
HOST_BOUNDS = ("deserved_cpu_milli", "limit_cpu_milli", "deserved_memory_mb", "limit_memory_mb")
HOST_RESOURCES = ("CPU", "Memory")
#: Statuses of tasks that have a place, now or as soon as it is free.
PLACED = frozenset({"Running", "Binding", "Pipelined"})


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One way in which we decide otherwise."""

    name: str
    #: True: our design says so. False: there is no rule for it yet.
    intended: bool
    sentence: str
    feature: Feature


def explain(case: Case, differences: Sequence[Difference], decide: Decide) -> tuple[str, ...]:
    """The names of all reasons that fit; `decide` is asked about variants of the case."""
    return tuple(reason.name for reason in REASONS if reason.feature(case, differences, decide))


def _jobs(case: Case) -> list[Case]:
    return case.get("jobs", [])


def _queue_cpu_or_memory(case: Case, _: Sequence[Difference], decide: Decide) -> bool:
    """Some queue says something of CPU or memory, and without both all work that should has a place."""
    if not any(queue.get(name, WITHOUT_BOUND) != WITHOUT_BOUND for queue in case["queues"] for name in HOST_BOUNDS):
        return False
    left = decide(_without_host(case))
    return not any(d.expected in PLACED and d.ours not in PLACED for d in left)


def _without_host(case: Case) -> Case:
    """The case with jobs that need no CPU and no memory, and queues that say nothing of them."""
    bare = deepcopy(case)
    for queue in bare.get("queues", []):
        queue.update({name: WITHOUT_BOUND for name in HOST_BOUNDS if name in queue})
    for job in _jobs(bare):
        job.update(cpu_cores_per_task=0.0, memory_bytes_per_task=0.0)
    return bare


def _starts_now(case: Case, differences: Sequence[Difference], _: Decide) -> bool:
    """A part of a device is being freed or promised, and each task that differs gets another such part at once."""
    awaited = {"Releasing", "Pipelined"}
    freed = any(task["state"] in awaited for job in _jobs(case) if job["kind"] in PARTS for task in job["tasks"])
    kinds = {task["name"]: job["kind"] for job in _jobs(case) for task in job["tasks"]}
    return freed and all(
        d.expected == "Pipelined" and d.ours == "Binding" and kinds.get(d.what) in PARTS for d in differences
    )


def _other_devices(case: Case, _: Sequence[Difference], __: Decide) -> bool:
    return any(job["kind"] not in KINDS for job in _jobs(case))


def _other_resources(case: Case, _: Sequence[Difference], decide: Decide) -> bool:
    """A reclaim decision in which something else than GPUs is used or shared, and which is the same without that."""
    rows = _resource_rows(case)
    if not any(any(row["resources"][name].values()) for row in rows for name in HOST_RESOURCES):
        return False
    return not decide(_without_other_resources(case))


def _resource_rows(case: Case) -> list[Case]:
    sides = [case[side] for side in ("reclaimer_queue", "reclaimee_queue") if isinstance(case.get(side), dict)]
    return [*sides, *(case.get("queues", []) if "reclaimer" in case else [])]


def _without_other_resources(case: Case) -> Case:
    bare = deepcopy(case)
    for row in _resource_rows(bare):
        for name in HOST_RESOURCES:
            row["resources"][name] = dict.fromkeys(row["resources"][name], 0.0)
    for name in HOST_RESOURCES:
        (bare.get("reclaimee_remaining") or {}).pop(name, None)
    return bare


REASONS: tuple[Reason, ...] = (
    Reason(
        name="other-devices",
        intended=False,
        sentence="Devices are asked for as whole ones, fractions or memory; not as slices (MIG) or resource claims.",
        feature=_other_devices,
    ),
    Reason(
        name="queue-cpu-memory",
        intended=True,
        sentence="Our queues have quotas and limits of CPU and memory, but what is above the quotas is not divided "
        "into shares, and whose turn it is goes by GPUs.",
        feature=_queue_cpu_or_memory,
    ),
    Reason(
        name="only-gpus-shared",
        intended=True,
        sentence="A queue is over its share when it is so in GPUs; what it uses of CPU and memory takes nothing back.",
        feature=_other_resources,
    ),
    Reason(
        name="starts-now",
        intended=True,
        sentence="What fits on free devices starts at once; it does not wait for a part of a shared one to be freed.",
        feature=_starts_now,
    ),
)

BY_NAME = {reason.name: reason for reason in REASONS}
