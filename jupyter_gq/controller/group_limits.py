"""The limit on jobs of one group, such as a sweep, that run at the same time.

Rules
-----
Stored with each job: no kernel, page or server has to stay for it, and a restart of the service changes nothing.

Input of the cycle: a job beyond the limit is held in what the core sees, so it has no demand and no place in line, and
the cycle explains it. The record of the job stays as it is.

Order: the jobs of a group take their turns by submission; a paused job comes before those that were sent after it.

See docs/decisions/0128-limit-groups-of-jobs-in-the-input-of-the-cycle.md.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Hold, Workload
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store.protocol import Record


def hold_beyond_limits(records: Sequence[Record], views: Sequence[Workload]) -> tuple[Workload, ...]:
    """Return the views of these records, in the same order, with pending jobs beyond the limit of their group held.

    Limits of different jobs of a group may differ: each job has its own.
    """
    groups: dict[tuple[str, str], list[Workload]] = defaultdict(list)
    limits = {record.workload.id: record.detail.group_parallel for record in records if record.detail.group_parallel}
    for record, view in zip(records, views, strict=True):
        if record.detail.group:
            groups[view.owner, record.detail.group].append(view)
    held = {name: hold for members in groups.values() for name, hold in _find_held(members, limits).items()}
    return tuple(replace(view, hold=held[view.id]) if view.id in held else view for view in views)


def hold_newcomer(records: Sequence[Record], workload: Workload, group: str, parallel: int | None) -> Workload:
    """Return a workload that has not been sent, held if it would have to wait for its turn in a group of its owner.

    `records` are those of all unfinished workloads. `parallel` is the number of jobs of the group that may run at the
    same time. Without a group or such a number, the workload is returned as it is.
    """
    if not group or not parallel:
        return workload
    newcomer = Record(workload=workload, detail=WorkloadDetail(group=group, group_parallel=parallel))
    together = [*records, newcomer]
    return hold_beyond_limits(together, [record.workload for record in together])[-1]


def _find_held(members: Sequence[Workload], limits: dict[str, int]) -> dict[str, Hold]:
    """Return a hold for each pending member of one group that must wait for its turn, by the id of the member.

    `limits` are the numbers of jobs that may run at the same time, by id. A member that a person holds does not count
    as one that runs or takes a turn.
    """
    taken = sum(member.state is not State.PENDING for member in members)
    held = {}
    for member in sorted(members, key=lambda each: each.submission):
        if member.state is not State.PENDING or member.hold is not None:
            continue
        limit = limits.get(member.id)
        if limit is None or taken < limit:
            taken += 1
            continue
        sentence = f"Waiting: its group may run at most {limit} at the same time. It takes its turn by itself."
        held[member.id] = Hold(by=member.owner, at=member.submitted_at, sentence=sentence)
    return held
