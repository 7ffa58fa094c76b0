"""Accounts: charges and checks walk to the root; fair shares go down the tree."""

import pytest

from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.scheduling.quota.accounts import Accounts, LimitKind, add_usage, first_exceeded_limit, is_entitled
from tests.builders import a_node, a_queue


def department():
    return Accounts(
        [
            a_queue("dept", 2, 3),
            a_queue("dept/a", 1, parent="dept"),
            a_queue("dept/b", 1, parent="dept"),
        ]
    )


def test_a_charge_reaches_every_ancestor_and_no_sibling():
    accounts = department()
    add_usage(accounts.of("dept/a"), 500, fixed=True)
    used = {a.queue.name: (a.used, a.lasting, a.fixed_used, a.fixed_lasting) for a in accounts}
    assert used == {"dept": (500,) * 4, "dept/a": (500,) * 4, "dept/b": (0,) * 4}


def test_a_limit_above_holds_for_the_leaf():
    accounts = department()
    add_usage(accounts.of("dept/b"), 2000, fixed=False)
    assert first_exceeded_limit(accounts.of("dept/a"), 1000, fixed=False, now=True) is None
    found = first_exceeded_limit(accounts.of("dept/a"), 1001, fixed=False, now=True)
    assert (found.kind, found.account.queue.name) == (LimitKind.LIMIT, "dept")


def test_a_missing_limit_forbids_nothing():
    accounts = Accounts([a_queue("q")])
    assert first_exceeded_limit(accounts.of("q"), 10**9, fixed=False, now=True) is None


def test_work_that_cannot_be_paused_must_fit_every_quota():
    accounts = department()
    add_usage(accounts.of("dept/a"), 1000, fixed=False)
    assert first_exceeded_limit(accounts.of("dept/a"), 1000, fixed=True, now=True) is None
    add_usage(accounts.of("dept/a"), 1, fixed=True)
    assert first_exceeded_limit(accounts.of("dept/a"), 1000, fixed=True, now=True).kind is LimitKind.QUOTA


def test_what_is_stopping_counts_now_but_not_later():
    accounts = Accounts([a_queue("q", 1, 1)])
    add_usage(accounts.of("q"), 1000, fixed=True, later=False)
    assert first_exceeded_limit(accounts.of("q"), 1000, fixed=True, now=True).kind is LimitKind.LIMIT
    assert first_exceeded_limit(accounts.of("q"), 1000, fixed=True, now=False) is None


def test_what_is_promised_counts_now_too():
    accounts = Accounts([a_queue("q", 1, 1)])
    add_usage(accounts.of("q"), 1000, fixed=True, now=False)
    assert first_exceeded_limit(accounts.of("q"), 1, fixed=True, now=True) is not None


def test_entitled_means_within_the_quota_of_every_ancestor():
    accounts = department()
    add_usage(accounts.of("dept/b"), 1001, fixed=False)
    assert is_entitled(accounts.of("dept/a"), 999)
    assert not is_entitled(accounts.of("dept/a"), 1000)


def test_fair_shares_go_down_the_tree_within_each_pool():
    queues = [*[each.queue for each in department()], a_queue("other", 1), a_queue("else", pool="build")]
    accounts = Accounts(queues, [a_node("n", 4), a_node("m", 2, pool="build")])
    for leaf in ("dept/a", "dept/b", "other", "else"):
        accounts.demand(accounts.of(leaf), 10_000)
    accounts.divide()
    shares = {each.queue.name: each.fair_share for each in accounts}
    assert shares == {"dept": 3000, "dept/a": 2000, "dept/b": 1000, "other": 1000, "else": 2000}


def test_demand_above_a_limit_is_not_passed_on():
    accounts = Accounts([a_queue("d"), a_queue("d/a", limit=1, parent="d"), a_queue("e")], [a_node("n", 4)])
    accounts.demand(accounts.of("d/a"), 10_000)
    accounts.demand(accounts.of("e"), 10_000)
    accounts.divide()
    assert accounts.of("d").fair_share == 1000
    assert accounts.of("e").fair_share == 3000


def test_shares_follow_a_demand_that_changes():
    """Divided again and again, they are what they would be if they were divided once."""
    queues = [a_queue("d", 2), a_queue("d/a", 1, limit=3, parent="d"), a_queue("d/b", 1, parent="d"), a_queue("e", 1)]
    kept = Accounts(queues, [a_node("n", 8)])
    total = dict.fromkeys(("d/a", "d/b", "e"), 0)
    for leaf, milli in [("d/a", 9000), ("e", 500), ("d/b", 4000), ("d/a", -8000), ("e", 7000), ("d/b", -4000)]:
        kept.demand(kept.of(leaf), milli)
        kept.divide()
        total[leaf] += milli
        fresh = Accounts(queues, [a_node("n", 8)])
        for name, demand in total.items():
            fresh.demand(fresh.of(name), demand)
        fresh.divide()
        assert [(a.demand, a.fair_share) for a in kept] == [(a.demand, a.fair_share) for a in fresh]


def test_a_queue_that_the_configuration_does_not_know_has_nothing():
    account = Accounts([]).of("gone")
    assert not account.known
    assert account.queue.quota == 0


@pytest.mark.parametrize("parents", [{"a": "a"}, {"a": "b", "b": "a"}, {"a": "b", "b": "c", "c": "b"}])
def test_queues_that_are_no_tree_are_refused(parents):
    with pytest.raises(InvalidSnapshot, match="tree"):
        Accounts([a_queue(name, parent=parent) for name, parent in parents.items()])
