"""Min runtime: how long a run is protected before it has to give way to others.

Rules
-----
1. Preemption inside a queue: the victim's queue decides (`preempt_min_runtime`), else the nearest queue above it that
   names a time, else the default of the policy.
2. Reclaim has two methods, of which the policy chooses one. `queue`: as for preemption, with `reclaim_min_runtime`.
   `lca`: the search begins where the paths of the two queues part, one step below their lowest common ancestor on the
   victim's side. So the time of a team holds against its sister teams, and the time of its department against other
   departments. Roots are children of one common ancestor that names no time. For one queue the methods agree.
3. Start. The time counts from the start of the present run. Work that has not started is not protected, nor are the
   surplus replicas of elastic work: they may go at any time.
4. Kept places. Work for which other work was told to stop in an earlier cycle counts as if it started now. Otherwise a
   queue could take the place in between, although it could take it neither from the work that stops nor from the work
   that starts there.
5. Exceptions. A lowered limit, a lost node and the owner are not others: no time protects against them.

See docs/decisions/0173-protect-work-for-which-a-place-is-kept.md.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.queue_tree import part_paths
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.policy import MinRuntimeMethod, MinRuntimeRule
from jupyter_gq.scheduling.workloads.replicas import Replica

from .accounts import Account, Accounts

#: The victim may go at once.
AT_ONCE = Seconds(0)


@dataclass(frozen=True, kw_only=True, slots=True)
class ProtectedVictims:
    """The victims that would give way to a pending workload once they have run long enough."""

    victims: tuple[Workload, ...]
    #: Seconds until the last of the victims may go.
    left: Seconds


def before_preemption(victim: Sequence[Queue], rule: MinRuntimeRule) -> Seconds:
    """Return for how many seconds a run is protected from preemption inside its queue.

    `victim` is the path of the victim's queue, from the leaf to the root. The first queue that names a time decides, or
    else the rule.
    """
    return next((q.preempt_min_runtime for q in victim if q.preempt_min_runtime is not None), rule.preempt)


def before_reclaim(taker: Sequence[Queue], victim: Sequence[Queue], rule: MinRuntimeRule) -> Seconds:
    """Return for how many seconds a run is protected from reclaim by another queue.

    `taker` and `victim` are the paths of the two queues, from the leaf to the root. The first queue of the victim's
    path that names a time decides, or else the rule; by the method LCA the path begins below the common ancestor.
    """
    _, below = part_paths(taker, victim)
    start = max(0, len(below) - 1) if rule.method is MinRuntimeMethod.LCA else 0
    return next((q.reclaim_min_runtime for q in victim[start:] if q.reclaim_min_runtime is not None), rule.reclaim)


def remaining_protection(victim: Workload, least: Seconds, now: Instant) -> Seconds:
    """Return for how many seconds the victim is still protected, if a run is protected for `least` seconds.

    0 = not protected. Replicas never are, and work that has not started is only if a place is kept for it.
    """
    if isinstance(victim, Replica):
        return AT_ONCE
    if victim.state is State.PENDING:
        return least if victim.nominated else AT_ONCE
    if not least or victim.started_at is None:
        return AT_ONCE
    return Seconds(max(0.0, victim.started_at + least - now))


class MinRuntimes:
    """The min runtimes of one snapshot, each pair of queues looked up once."""

    def __init__(self, accounts: Accounts, rule: MinRuntimeRule) -> None:
        self._rule = rule
        self._found: dict[tuple[str, str], Seconds] = {}
        #: False if no queue and no policy names a time: every answer is 0 then.
        self.in_use = bool(rule.preempt or rule.reclaim) or any(
            account.queue.preempt_min_runtime or account.queue.reclaim_min_runtime for account in accounts
        )

    def of(self, victim: Account, taker: Account) -> Seconds:
        """Return for how many seconds a run of the leaf `victim` is protected from work of the leaf `taker`.

        The rule of preemption decides if both are the same queue, otherwise the rule of reclaim.
        """
        if not self.in_use:
            return AT_ONCE
        key = (victim.queue.name, taker.queue.name)
        if key not in self._found:
            path = [each.queue for each in victim.chain]
            if victim is taker:
                self._found[key] = before_preemption(path, self._rule)
            else:
                self._found[key] = before_reclaim([each.queue for each in taker.chain], path, self._rule)
        return self._found[key]
