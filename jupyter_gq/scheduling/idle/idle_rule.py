"""The idle rule: a notebook that nobody uses gives its share back, after a warning, to somebody who waits for it.

Rules
-----
1. Unknown is never idle: no report, an old report, an unknown kernel state. A busy kernel is never idle.
2. No verdict before `grace` has passed since the start. What the owner keeps is kept.
3. The owner is warned from `warning` before `after` on. The warning names an absolute time: at least `warning` from
   now, and not before `after` of idleness.

Who is warned, and what happens then, is decided in `idle`.
"""

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.policy import IdleRule


def idle_since(workload: Workload, rule: IdleRule, now: Instant) -> Instant | None:
    """Since when the notebook's share has been unused; None when it is in use, or unknown, or too new to judge."""
    activity = workload.activity
    if workload.kind is not Kind.NOTEBOOK or workload.state is not State.RUNNING or workload.request.devices == 0:
        return None
    if activity is None or activity.busy is not False or activity.last_active is None:
        return None
    if workload.started_at is None or now < workload.started_at + rule.grace:
        return None
    if now - activity.sampled_at > rule.fresh:
        return None
    return Instant(max(activity.last_active, workload.started_at))


def may_be_warned(workload: Workload, rule: IdleRule, now: Instant) -> bool:
    """It has been idle for so long that its owner may be warned, and he has not said "Keep it"."""
    since = idle_since(workload, rule, now)
    if since is None or now < since + rule.after - rule.warning:
        return False
    kept = workload.activity.kept_until if workload.activity is not None else None
    return kept is None or now >= kept


def expiry(workload: Workload, rule: IdleRule, now: Instant) -> Instant:
    """When its share will be taken: as the owner has been told, or as he would be told now."""
    activity = workload.activity
    if activity is not None and activity.expire_at is not None:
        return activity.expire_at
    since = idle_since(workload, rule, now)
    return Instant(max(now + rule.warning, (now if since is None else since) + rule.after))
