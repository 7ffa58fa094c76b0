"""The idle rule: when the share of a notebook counts as unused, and when its owner is warned.

Rules
-----
Unknown is never idle: no report, an old report and an unknown kernel state all mean unknown. A busy kernel is never
idle.

Grace: no notebook is idle before `grace` has passed since its start. A notebook that its owner keeps is not warned.

Warning: the owner is warned once only `warning` of the time `after` is left. The warning names an absolute time, which
is at least `warning` from now and not before the notebook has been idle for `after`.

For one idle time: a warning ends when the notebook is used again, also if that is heard of only after its time. The
owner is then warned anew.

Asked again: the share of a warned notebook is not taken before a report from after the time that the warning named. A
cell that began in the last seconds of the countdown is in no earlier report.

Held: the share is not taken before a time that the owner was told, by a warning or after "Keep it". That holds also if
the warning was withdrawn, or the notebook used, since then.

See docs/decisions/0395-hold-each-time-that-the-owner-was-told.md,
docs/decisions/0468-take-a-share-only-on-a-report-from-after-the-countdown.md and
docs/decisions/0469-end-a-warning-with-the-idle-time-that-it-was-for.md.

What happens to idle notebooks is decided in `lending` and `reclaim_idle`.
"""

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.policy import IdleRule

#: Seconds by which two sums of the same times may differ.
_ROUNDING = 0.001


def idle_since(workload: Workload, rule: IdleRule, now: Instant) -> Instant | None:
    """Return since when the share of a notebook is unused; None if the share is in use or that is not known.

    None also for workloads that are no running notebook with a device, or that started less than `rule.grace` ago.
    """
    activity = workload.activity
    if workload.kind is not Kind.NOTEBOOK or workload.state is not State.RUNNING or workload.request.devices == 0:
        return None
    if activity is None or activity.busy is not False or activity.last_active is None:
        return None
    if workload.started_at is None or now < workload.started_at + rule.grace:
        return None
    if not is_heard(workload, rule, now):
        return None
    return Instant(max(activity.last_active, workload.started_at))


def is_heard(workload: Workload, rule: IdleRule, now: Instant) -> bool:
    """Tell whether the last report on a notebook is fresh; after a restart of the service, the saved one may be old."""
    return workload.activity is not None and now - workload.activity.sampled_at <= rule.fresh


def may_be_warned(workload: Workload, rule: IdleRule, now: Instant) -> bool:
    """Tell whether the owner of a notebook may be warned that its share will be taken.

    The notebook has been idle for `after` less `warning`, and its owner does not keep it.
    """
    return _is_idle_for_long(workload, rule, now) and now >= _kept_until(workload)


def is_refused(workload: Workload, rule: IdleRule, now: Instant) -> bool:
    """Tell whether an idle notebook keeps its share only because it could not be suspended and is not tried yet again.

    During that backoff the share is kept as if the owner had asked for it.
    """
    refusal = workload.suspension_refusal
    if refusal is None or now >= refusal.until or _kept_until(workload) > refusal.until:
        return False
    return _is_idle_for_long(workload, rule, now)


def _is_idle_for_long(workload: Workload, rule: IdleRule, now: Instant) -> bool:
    """Tell whether the notebook has been idle for so long that its owner could be warned."""
    since = idle_since(workload, rule, now)
    return since is not None and now >= since + rule.after - rule.warning


def _kept_until(workload: Workload) -> float:
    """Return until when the owner keeps the share; 0 if the owner does not."""
    return (workload.activity.kept_until or 0.0) if workload.activity is not None else 0.0


def warned_until(workload: Workload, rule: IdleRule, now: Instant) -> Instant | None:
    """Return the time that the warning of a notebook names; None without a warning.

    None also for a warning from before the notebook was last used. The warning of a notebook that is in use, or of
    which nothing is known, still counts.
    """
    told = None if workload.activity is None else workload.activity.expire_at
    since = idle_since(workload, rule, now)
    if told is None or (since is not None and told < since + rule.after - _ROUNDING):
        return None
    return told


def expiry(workload: Workload, rule: IdleRule, now: Instant) -> Instant:
    """Return when the share will be taken: as the owner was told or, before any warning, would be told now."""
    told = warned_until(workload, rule, now)
    if told is not None:
        return told
    since = idle_since(workload, rule, now)
    return Instant(max(now + rule.warning, (now if since is None else since) + rule.after, _promised(workload)))


def has_run_out(workload: Workload, rule: IdleRule, now: Instant) -> bool:
    """Tell whether the time of an idle notebook is over: by the clock, and by a report from after the time it was told.

    The caller checks that it is idle. A notebook that was told no time, since the policy has no time of a warning,
    needs no further report; where the policy has one, it is False before the warning.
    """
    told = warned_until(workload, rule, now)
    if max(expiry(workload, rule, now), _promised(workload)) > now:
        return False
    return told is None or (workload.activity is not None and workload.activity.sampled_at >= told)


def may_be_lent(workload: Workload, rule: IdleRule, now: Instant) -> bool:
    """Tell whether the share of a notebook may be lent without loss: it is idle, not kept, and its time is over.

    After a warning, the time is over as `has_run_out` tells; otherwise at the end of the idle time `after`, and not
    before a time that a withdrawn warning promised.
    """
    since = idle_since(workload, rule, now)
    if since is None or not may_be_warned(workload, rule, now):
        return False
    if warned_until(workload, rule, now) is not None:
        return has_run_out(workload, rule, now)
    return now >= max(since + rule.after, _promised(workload))


def _promised(workload: Workload) -> float:
    """Return the time before which a withdrawn warning promised to take nothing; 0 without one."""
    return (workload.activity.promised_until or 0.0) if workload.activity is not None else 0.0


def idle_time(workload: Workload, rule: IdleRule, now: Instant) -> float:
    """Return for how many seconds the share of the notebook has been unused; 0 if it is in use or that is not known."""
    since = idle_since(workload, rule, now)
    return 0.0 if since is None else now - since
