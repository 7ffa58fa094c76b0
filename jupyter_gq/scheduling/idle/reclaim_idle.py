"""Idle notebooks give their share to somebody who waits for it (what idle means: `idle_rule`).

Rules
-----
1. A notebook is warned only if somebody waits whom this share would unblock, or if the policy says always.
2. At the time named, if somebody still waits: suspended without loss if possible and the one who waits is preemptible;
   otherwise evicted, and only for work within its quota, never for somebody's over-quota work.
3. Several shares for one who waits are taken together, when the last of their warnings is over.
4. Used again, or nobody waits any more: the warning is taken back.
"""

from collections.abc import Sequence

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import TaskPlacement, Workload
from jupyter_gq.scheduling.admit.held_devices import passing
from jupyter_gq.scheduling.admit.start import try_promise
from jupyter_gq.scheduling.admit.turns import take_turns
from jupyter_gq.scheduling.decision import Unwarn, Warn
from jupyter_gq.scheduling.evict import notices
from jupyter_gq.scheduling.evict.eviction import evict, suspend
from jupyter_gq.scheduling.evict.victim_search import make_room
from jupyter_gq.scheduling.policy import IdleRule
from jupyter_gq.scheduling.quota.accounts import entitled
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.workloads import gang

from .idle_rule import expiry, idle_since, may_be_warned


def take_idle(books: Books) -> None:
    """Warn, take, or take warnings back, for those who still wait after everything else."""
    rule, now = books.policy.idle, books.now
    idle = [w for w in books.notebooks() if may_be_warned(w, rule, now)]
    idle.sort(key=lambda w: _first_to_go(w, rule, now))
    wanted = _match(books, idle) if idle else {}
    if rule.always:
        for notebook in idle:
            if notebook.id not in wanted:
                wanted[notebook.id] = None
                if expiry(notebook, rule, now) <= now:
                    books.release(notebook)
                    _take(books, notebook, None)
    _tell(books, wanted)


def _first_to_go(workload: Workload, rule: IdleRule, now: Instant) -> tuple[bool, float, float, int, str]:
    """Those warned already, the earliest first; then the longest idle, then the largest."""
    warned = workload.activity is not None and workload.activity.expire_at is not None
    since = idle_since(workload, rule, now)
    return (not warned, expiry(workload, rule, now), since or 0.0, -gang.held(workload), workload.id)


def _match(books: Books, idle: Sequence[Workload]) -> dict[str, str | None]:
    """For each idle notebook that somebody waits for: who. Takes those whose time has come."""
    rule, now = books.policy.idle, books.now
    wanted: dict[str, str | None] = {}
    turn = take_turns(books)
    while (workload := turn.next()) is not None:
        with passing(books, workload):
            taken = _unblock(books, workload, [n for n in idle if n.id not in wanted])
        if taken is None:
            turn.pass_over()
            continue
        turn.done()
        wanted.update({notebook.id: workload.id for notebook in taken})
        place = books.promised[workload.id]
        waits_for = [n for n in idle if n in taken or (n.id in wanted and _overlap(n, place))]
        if any(expiry(notebook, rule, now) > now for notebook in waits_for):
            books.awaited[workload.id] = tuple(waits_for)
            continue
        for notebook in waits_for:
            if notebook.id not in books.evicted:
                _take(books, notebook, workload)
    return wanted


def _unblock(books: Books, workload: Workload, idle: Sequence[Workload]) -> list[Workload] | None:
    """The idle notebooks whose shares would let it start; promises it their room."""
    account = books.account(workload)
    if not account.known:
        return None
    if try_promise(books, workload):
        return []
    within = entitled(account, gang.smallest(workload))
    pool = account.queue.pool
    fitting = [n for n in idle if pool in books.pools_of(n) and (within or (n.suspendable and workload.preemptible))]
    return make_room(books, workload, lambda: fitting) if fitting else None


def _overlap(notebook: Workload, place: Sequence[TaskPlacement]) -> bool:
    held = {device for task in notebook.placement for device in task.devices}
    return any(device in held for task in place for device in task.devices)


def _take(books: Books, notebook: Workload, by: Workload | None) -> None:
    since = idle_since(notebook, books.policy.idle, books.now)
    idle_for = books.now - (books.now if since is None else since)
    name = None if by is None else by.id
    if notebook.suspendable and (by is None or by.preemptible):
        suspend(books, notebook, name, notices.suspended(notebook, by, idle_for))
    else:
        evict(books, notebook, EvictReason.IDLE, name, notices.evicted_idle(notebook, by, idle_for))


def _tell(books: Books, wanted: dict[str, str | None]) -> None:
    """Warn who is wanted and does not know it yet; tell the others that it is over."""
    rule, now = books.policy.idle, books.now
    for notebook in sorted(books.notebooks(), key=lambda w: w.id):
        warned = notebook.activity is not None and notebook.activity.expire_at is not None
        if warned and notebook.id not in wanted:
            books.instructions.append(Unwarn(workload=notebook.id))
        elif not warned and notebook.id in wanted:
            by = wanted[notebook.id]
            since = idle_since(notebook, rule, now)
            sentence = notices.warned(None if by is None else books.workloads[by], now - (since or now))
            at = expiry(notebook, rule, now)
            books.instructions.append(Warn(workload=notebook.id, expire_at=at, by=by, sentence=sentence))
