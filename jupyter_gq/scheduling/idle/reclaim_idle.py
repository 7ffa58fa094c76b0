"""Take the shares of idle notebooks for pending work, after a warning (see `idle_rule`).

Rules
-----
Warned for a reason: a notebook is warned only if its share would let a pending workload start, or if the policy says
always.

Taken in time: after the time that the warning names, the share is taken with the next report that shows the notebook as
idle, if work still waits for it. The notebook is suspended without loss if possible and if that work is preemptible.
Otherwise it is evicted, but only for work within its quota, and only if the policy allows that servers are stopped.

Told what is lost: a warning says whether the share is lent or the server stopped. If the server is to be stopped after
all, the owner is warned anew, with the whole time of a warning. A warning of a stop stays if the share can be lent
after all.

Together: if one workload needs several shares, they are taken together, when the last of the warnings has run out.

Taken back: if the notebook is used again, or if no work waits for its share any more, the warning is taken back. While
nothing is heard of the notebook, the share is not taken. The warning stays until the time that it names, because a
service that was restarted hears of the notebook a moment later.

See docs/decisions/0308-let-an-administrator-forbid-that-idle-servers-are-stopped.md,
docs/decisions/0396-warn-anew-if-the-server-is-to-be-stopped.md and
docs/decisions/0441-keep-a-warning-until-something-is-heard.md.
"""

from collections.abc import Sequence
from dataclasses import replace

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement, Workload, devices_of
from jupyter_gq.scheduling.admit.job_order import job_order
from jupyter_gq.scheduling.admit.start import try_nominate
from jupyter_gq.scheduling.decision import Unwarn, Warn
from jupyter_gq.scheduling.evict import notices
from jupyter_gq.scheduling.evict.eviction import suspend
from jupyter_gq.scheduling.evict.victim_search import make_room
from jupyter_gq.scheduling.evict.victims import staying_notebooks
from jupyter_gq.scheduling.policy import IdleRule
from jupyter_gq.scheduling.quota.reclaim_rights import is_guaranteed
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.findings import Findings
from jupyter_gq.scheduling.workloads import gang

from .idle_rule import expiry, has_run_out, idle_since, idle_time, is_heard, is_refused, may_be_warned, warned_until


def reclaim_idle_shares(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, findings: Findings
) -> None:
    """Warn owners of idle notebooks, take shares whose time has come, and take needless warnings back.

    The shares go to work that is still pending after all other steps. If `IdleRule.always` is set, shares that no work
    wants are taken too.
    """
    rule, now = inputs.policy.idle, inputs.now
    staying = staying_notebooks(inputs.index, evictions)
    idle = [each for each in staying if may_be_warned(each, rule, now) and (rule.stop or each.suspendable)]
    findings.refused_notebooks.update((each.id, each) for each in staying if is_refused(each, rule, now))
    idle.sort(key=lambda notebook: _reclaim_order(notebook, rule, now))
    wanted = _match(inputs, allocations, evictions, findings, idle) if idle else {}
    if rule.always:
        for notebook in idle:
            if notebook.id not in wanted:
                wanted[notebook.id] = None
                if has_run_out(notebook, rule, now) and not _is_misled(notebook, None, rule, now):
                    allocations.release(notebook)
                    _take(inputs, allocations, evictions, notebook, None)
    _tell(inputs, evictions, wanted)


def _reclaim_order(notebook: Workload, rule: IdleRule, now: Instant) -> tuple[bool, float, float, int, str]:
    """Return a sort key for idle notebooks: warned ones first, then by the time when the share is taken.

    Of equals, the longest idle comes first, then the largest.
    """
    since = idle_since(notebook, rule, now)
    return (
        warned_until(notebook, rule, now) is None,
        expiry(notebook, rule, now),
        since or 0.0,
        -gang.held(notebook),
        notebook.id,
    )


def _match(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, findings: Findings, idle: Sequence[Workload]
) -> dict[str, str | None]:
    """Nominate pending work for the shares of idle notebooks, and take the shares whose time has come.

    A workload that still waits for such a time is noted in `findings`. Returns the id of the workload that wants each
    notebook's share, by the id of the notebook.
    """
    rule, now = inputs.policy.idle, inputs.now
    wanted: dict[str, str | None] = {}
    order = job_order(inputs.index, allocations, evictions)
    while (workload := order.next()) is not None:
        with allocations.lifting_reservations(workload):
            may_take = rule.stop or workload.preemptible  # for other work, servers are stopped
            free = [notebook for notebook in idle if may_take and notebook.id not in wanted]
            taken = _unblock(inputs.index, allocations, workload, free)
        if taken is None:
            order.skip_class()
            continue
        order.done()
        wanted.update(dict.fromkeys(taken, workload.id))
        place = allocations.nominated[workload.id]
        waits_for = [n for n in idle if n.id in taken or (n.id in wanted and _overlap(n, place))]
        if any(
            not has_run_out(notebook, rule, now) or _is_misled(notebook, workload, rule, now) for notebook in waits_for
        ):
            findings.awaited_notebooks[workload.id] = tuple(waits_for)
            continue
        for notebook in waits_for:
            if notebook.id not in evictions.evicted:
                _take(inputs, allocations, evictions, notebook, workload)
    return wanted


def _unblock(
    index: ClusterIndex, allocations: Allocations, workload: Workload, idle: Sequence[Workload]
) -> list[str] | None:
    """Nominate the workload, by releasing idle notebooks if needed, and return the ids of the released ones.

    None means that this is not possible. Work above its guarantees may only take what can be suspended. A notebook that
    will be stopped instead, since the workload is not preemptible, gives its CPU and memory back too.
    """
    account = allocations.account(workload)
    if not account.known:
        return None
    if try_nominate(allocations, workload):
        return []
    within = is_guaranteed(account, workload)
    pool = account.queue.pool
    fitting = [n for n in idle if pool in index.pools_of(n) and (within or (n.suspendable and workload.preemptible))]
    if not workload.preemptible:
        fitting = [replace(notebook, suspendable=False) for notebook in fitting]
    taken = make_room(allocations, workload, lambda: fitting) if fitting else None
    return None if taken is None else [notebook.id for notebook in taken]


def _overlap(notebook: Workload, place: Sequence[TaskPlacement]) -> bool:
    return not devices_of(notebook.placement).isdisjoint(devices_of(place))


def _take(
    inputs: CycleInputs, allocations: Allocations, evictions: Evictions, notebook: Workload, by: Workload | None
) -> None:
    """Suspend or evict a released notebook for the workload `by`; None = for no workload.

    The notebook is suspended if it can be and `by` is preemptible.
    """
    idle_for = idle_time(notebook, inputs.policy.idle, inputs.now)
    name = None if by is None else by.id
    if _lends(notebook, by):
        suspend(allocations, evictions, notebook, name, notices.describe_suspension(notebook, by, idle_for))
    else:
        evictions.evict(notebook, EvictReason.IDLE, name, notices.describe_idle_eviction(notebook, by, idle_for))


def _lends(notebook: Workload, by: Workload | None) -> bool:
    """Tell whether the share is suspended for `by`, None = for no workload; else the server is stopped."""
    return notebook.suspendable and (by is None or by.preemptible)


def _is_misled(notebook: Workload, by: Workload | None, rule: IdleRule, now: Instant) -> bool:
    """Tell whether the owner was warned of a loan without loss, while the server is to be stopped for `by`."""
    return (
        warned_until(notebook, rule, now) is not None
        and notebook.activity is not None
        and notebook.activity.told_lent
        and not _lends(notebook, by)
    )


def _tell(inputs: CycleInputs, evictions: Evictions, wanted: dict[str, str | None]) -> None:
    """Warn owners of notebooks in `wanted` that were not warned yet or must be told worse; withdraw other warnings."""
    index, rule, now = inputs.index, inputs.policy.idle, inputs.now
    for notebook in sorted(staying_notebooks(index, evictions), key=lambda each: each.id):
        if notebook.id not in wanted:
            has_warning = notebook.activity is not None and notebook.activity.expire_at is not None
            if has_warning and not _may_still_hold(notebook, rule, now):
                evictions.warnings.append(Unwarn(workload=notebook.id))
        else:
            by = wanted[notebook.id]
            preemptor = None if by is None else index.workloads[by]
            if warned_until(notebook, rule, now) is None or _is_misled(notebook, preemptor, rule, now):
                at = Instant(max(expiry(notebook, rule, now), now + rule.warning))
                evictions.warnings.append(_warn(notebook, preemptor, rule, now, at))


def _may_still_hold(notebook: Workload, rule: IdleRule, now: Instant) -> bool:
    """Tell whether a warned notebook, of which nothing is heard now, may turn out to be idle before its time."""
    return now < expiry(notebook, rule, now) and not is_heard(notebook, rule, now)


def _warn(notebook: Workload, by: Workload | None, rule: IdleRule, now: Instant, at: Instant) -> Warn:
    """Return the warning that the share is taken at the time `at` for `by`; None = for no workload."""
    lends = _lends(notebook, by)
    may_keep = notebook.activity is not None and notebook.activity.kept_total < rule.keep_total
    sentence = notices.describe_warning(by, idle_time(notebook, rule, now), lends=lends, may_keep=may_keep)
    return Warn(workload=notebook.id, expire_at=at, by=None if by is None else by.id, sentence=sentence, lends=lends)
