"""Why we decide otherwise: sentences, matched by what a case contains, never by which case it is.

Rules
-----
1. *Intended*: our design says otherwise. *Not yet*: our core has no rule for it; the sentence says so.
2. A reason explains only a disagreement, and only if its feature is in the case; all that fit are listed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .translate import KINDS
from .verdict import Case, Difference

Feature = Callable[[Case, Sequence[Difference]], bool]


@dataclass(frozen=True, kw_only=True, slots=True)
class Reason:
    """One way in which we decide otherwise."""

    name: str
    #: True: our design says so. False: there is no rule for it yet.
    intended: bool
    sentence: str
    feature: Feature


def explain(case: Case, differences: Sequence[Difference]) -> tuple[str, ...]:
    """The names of all reasons that fit."""
    return tuple(reason.name for reason in REASONS if reason.feature(case, differences))


def _jobs(case: Case) -> list[Case]:
    return case.get("jobs", [])


def _queue_cpu_or_memory(case: Case, _: Sequence[Difference]) -> bool:
    names = ("deserved_cpu_milli", "limit_cpu_milli", "deserved_memory_mb", "limit_memory_mb")
    return any(queue.get(name, -1) != -1 for queue in case.get("queues", []) for name in names)


def _expected(case: Case, job: Case, task: Case) -> Case:
    expected = case["expected"]
    return expected["tasks"].get(task["name"]) or expected["jobs"].get(job["name"]) or {}


def _only(differences: Sequence[Difference], expected: set[str], ours: set[str]) -> bool:
    """All differences are of this form."""
    return all(d.expected in expected and d.ours in ours for d in differences)


def _starts_now(_: Case, differences: Sequence[Difference]) -> bool:
    return _only(differences, {"Pipelined"}, {"Binding"})


def _other_devices(case: Case, _: Sequence[Difference]) -> bool:
    return any(job["kind"] not in KINDS for job in _jobs(case))


def _other_resources(case: Case, _: Sequence[Difference]) -> bool:
    """A reclaim decision in which something else than GPUs is over or under a share."""
    sides = [case[side] for side in ("reclaimer_queue", "reclaimee_queue") if isinstance(case.get(side), dict)]
    rows = [*sides, *(case.get("queues", []) if "reclaimer" in case else [])]
    return any(any(row["resources"][name].values()) for row in rows for name in ("CPU", "Memory"))


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
