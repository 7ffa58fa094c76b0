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


def _elastic_moves(case: Case, differences: Sequence[Difference]) -> bool:
    """A part of a job whose smallest gang is less than all of it is expected to go on at another place."""
    tasks = {task["name"]: task for job in _jobs(case) if _is_elastic(job) for task in job["tasks"]}
    return any(
        d.what in tasks and tasks[d.what]["state"] == "Running" and d.expected == "Pipelined" for d in differences
    )


def _is_elastic(job: Case) -> bool:
    return int(job["min_available"]) < len(job["tasks"])


def _expected(case: Case, job: Case, task: Case) -> Case:
    expected = case["expected"]
    return expected["tasks"].get(task["name"]) or expected["jobs"].get(job["name"]) or {}


def _only(differences: Sequence[Difference], expected: set[str], ours: set[str]) -> bool:
    """All differences are of this form."""
    return all(d.expected in expected and d.ours in ours for d in differences)


def _starts_now(_: Case, differences: Sequence[Difference]) -> bool:
    return _only(differences, {"Pipelined"}, {"Binding"})


def _room_left_over(case: Case, differences: Sequence[Difference]) -> bool:
    """Within one step that evicts, another one is promised what is left of the room that was made."""
    procedure = case.get("procedure", {})
    evicting = procedure.get("kind") == "single_action" and procedure["actions"][0] in {"reclaim", "preempt"}
    return evicting and _only(differences, {"Pending"}, {"Pipelined"})


def _above_share(case: Case, _: Sequence[Difference]) -> bool:
    """The one that takes would lift a queue above its leaf over what that queue deserves, and several stand there."""
    if "reclaimer" in case:
        return _lifts_above(case)
    departments = {q["name"]: q for q in case.get("queues", []) if q.get("is_department")}
    if len(departments) < 2:
        return False
    parent = {queue["name"]: queue["parent"] for queue in case["queues"]}
    used = dict.fromkeys(departments, 0.0)
    for job in _jobs(case):
        running = sum(task["state"] == "Running" for task in job["tasks"])
        used[parent[job["queue"]]] = used.get(parent[job["queue"]], 0.0) + running * float(job["gpus_per_task"])
    for job in _jobs(case):
        above = departments.get(parent[job["queue"]])
        starts = any(_expected(case, job, task).get("status") in {"Pipelined", "Running"} for task in job["tasks"])
        waits = all(task["state"] == "Pending" for task in job["tasks"])
        if above is not None and waits and starts:
            needs = float(job["gpus_per_task"]) * int(job["min_available"])
            if 0 <= above["deserved_gpus"] < used[above["name"]] + needs:
                return True
    return False


def _lifts_above(case: Case) -> bool:
    """As `_above_share`, for the tables that state fair shares."""
    rows = {row["id"]: row for row in case["queues"]}
    name = rows[case["reclaimer"]["queue"]]["parent"]
    while name is not None:
        gpu = rows[name]["resources"]["GPU"]
        if gpu["allocated"] + case["reclaimer"]["gpus"] > gpu["fair_share"]:
            return True
        name = rows[name]["parent"]
    return False


def _other_devices(case: Case, _: Sequence[Difference]) -> bool:
    return any(job["kind"] not in KINDS for job in _jobs(case))


def _saturation(case: Case, _: Sequence[Difference]) -> bool:
    return (case.get("saturation_multiplier") or 1.0) != 1.0


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
        name="saturation",
        intended=True,
        sentence="How far a queue may come towards its fair share by taking is not adjustable: up to all of it.",
        feature=_saturation,
    ),
    Reason(
        name="queue-cpu-memory",
        intended=True,
        sentence="Quotas, limits and shares of our queues are about GPUs only, not about CPU and memory.",
        feature=_queue_cpu_or_memory,
    ),
    Reason(
        name="only-gpus-shared",
        intended=True,
        sentence="A queue is over its share when it is so in GPUs; what it uses of CPU and memory takes nothing back.",
        feature=_other_resources,
    ),
    Reason(
        name="elastic-moves",
        intended=False,
        sentence="What elastic work holds above its smallest gang is not moved yet.",
        feature=_elastic_moves,
    ),
    Reason(
        name="share-first",
        intended=True,
        sentence="Nobody takes anything back if that lifts a queue above his own over its fair share, even where the "
        "other queue is further above its own.",
        feature=_above_share,
    ),
    Reason(
        name="starts-now",
        intended=True,
        sentence="What fits on free devices starts at once; it does not wait for a part of a shared one to be freed.",
        feature=_starts_now,
    ),
    Reason(
        name="room-left-over",
        intended=True,
        sentence="Room that an eviction leaves over is promised in the same cycle to the next one who fits into it.",
        feature=_room_left_over,
    ),
)

BY_NAME = {reason.name: reason for reason in REASONS}
