"""The table of least run times, through our own rule (`scheduling.quota.min_runtime`)."""

from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.queue import Queue
from jupyter_gq.scheduling.policy import MinRuntimeMethod, MinRuntimeRule
from jupyter_gq.scheduling.quota.accounts import Account, Accounts
from jupyter_gq.scheduling.quota.min_runtime import before_preemption, before_reclaim

from .translate import POOL
from .verdict import Case, Difference, Untranslatable


def decide(case: Case) -> list[Difference]:
    """The difference between the time that the table expects and ours."""
    rows = {row["name"]: row for row in case["queues"]}
    accounts = Accounts(_queue(row) for row in rows.values() if row.get("registered", True))
    victim = _path(case["victim_queue"], rows, accounts)
    rule = MinRuntimeRule(
        method=MinRuntimeMethod.QUEUE if case["method"] == "queue" else MinRuntimeMethod.LCA,
        preempt=Seconds(case["defaults_s"]["preempt"]),
        reclaim=Seconds(case["defaults_s"]["reclaim"]),
    )
    if case["method"] == "preempt":
        ours = before_preemption(victim, rule)
    elif case["method"] in {"queue", "lca"}:
        ours = before_reclaim(_path(case["reclaimer_queue"], rows, accounts), victim, rule)
    else:
        raise Untranslatable(f"the method {case['method']!r} is not known")
    if ours == case["expected_s"]:
        return []
    return [Difference(what="least run time", expected=f"{case['expected_s']} s", ours=f"{ours:g} s")]


def _path(name: str | None, rows: dict[str, Case], accounts: Accounts) -> list[Queue]:
    """From the leaf to the root; what is not in the peer's table of queues has nothing above it."""
    if name is None or name not in rows:
        return []
    row = rows[name]
    account = accounts.of(name) if row.get("registered", True) else Account(_queue({**row, "parent": None}))
    return [each.queue for each in account.chain]


def _queue(row: Case) -> Queue:
    preempt, reclaim = row.get("preempt_min_runtime_s"), row.get("reclaim_min_runtime_s")
    return Queue(
        name=row["name"],
        pool=POOL,
        parent=row["parent"],
        preempt_min_runtime=None if preempt is None else Seconds(preempt),
        reclaim_min_runtime=None if reclaim is None else Seconds(reclaim),
    )
