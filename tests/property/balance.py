"""The accounts and the ledger at the end of a cycle, compared with what the core gives for what was decided."""

from dataclasses import replace

from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.policy import Policy
from jupyter_gq.scheduling.quota.accounts import Accounts
from jupyter_gq.scheduling.quota.usage_accounting import UsageAccounting
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.state.cycle_state import CycleState


def accounts_follow_what_was_decided(state: CycleState, policy: Policy) -> None:
    """Assert that each account is what it was at the beginning, with all that the cycle admits, nominates and stops.

    In the ledger, as much of each device is nominated as nominees and work that moves get of it. Shares that suspended
    notebooks want back are kept there too, without a nomination, so that with such notebooks the ledger may have more.

    Work that moves counts at its new place. Idle notebooks whose time has not come count as gone for the work that
    waits for it.
    """
    index, allocations, evictions = state.inputs.index, state.allocations, state.evictions
    again = ClusterIndex(index.snapshot(), policy)
    again.set_time(state.inputs.now)
    usage = UsageAccounting(again.accounts)
    for started in allocations.admitted.values():
        usage.add_admitted(started)
    for name, place in allocations.nominated.items():
        usage.add_nominated(allocations.nominee(name), place)
        again.ledger.nominate(allocations.nominee(name), place)
    awaited = {each.id: each for waits in state.findings.awaited_notebooks.values() for each in waits}
    gone = [evictions.stopping[name] for name, each in evictions.evicted.items() if isinstance(each, Evict)]
    gone += [eviction.replica for eviction in evictions.replicas.values()]
    gone += [each for name, each in awaited.items() if name not in evictions.evicted]
    for each in gone:
        usage.add_held(each, -1, now=False)
    for name, place in evictions.migrations.items():
        usage.add_held(replace(index.workloads[name], placement=place), now=False)
        again.ledger.nominate(index.workloads[name], place)
    lends = bool(index.holders.lenders.by_id)
    for kept, nominated in zip(index.ledger._sums.nominated, again.ledger._sums.nominated, strict=True):
        assert kept == nominated or (lends and kept > nominated)
    assert _sums(index.accounts) == _sums(again.accounts)


def _sums(accounts: Accounts) -> dict[str, object]:
    """What a cycle changes of each account, by queue."""
    return {account.queue.name: sums for account, sums in accounts.copy()}
