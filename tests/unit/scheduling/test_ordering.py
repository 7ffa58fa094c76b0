"""Whose turn it is."""

from jupyter_gq.scheduling.ordering import Line, Turn
from jupyter_gq.scheduling.quota import Accounts, charge
from tests.builders import a_job, a_node, a_queue


def turn_of(accounts, jobs):
    """Everybody waits."""
    lines = {}
    for job in jobs:
        lines.setdefault(job.queue, Line()).add(job)
    return Turn(accounts, lines, lambda job: True)


def order(queues, jobs, using=None, gpus=8):
    """The ids in the order in which they would be served, each admitted when its turn comes."""
    accounts = Accounts(queues, [a_node("n", gpus)])
    for job in jobs:
        accounts.demand(accounts.of(job.queue), job.milli)
    for name, milli in (using or {}).items():
        accounts.demand(accounts.of(name), milli)
        charge(accounts.of(name), milli, fixed=False)
    accounts.divide()
    turn = turn_of(accounts, jobs)
    found = []
    while (job := turn.next()) is not None:
        found.append(job.id)
        charge(accounts.of(job.queue), job.milli, fixed=False)
        turn.done()
    return found


def test_inside_a_queue_priority_then_seniority_then_id():
    jobs = [
        a_job("late", "q", submitted=9),
        a_job("b", "q", submitted=1),
        a_job("a", "q", submitted=1),
        a_job("urgent", "q", submitted=99, priority=1),
    ]
    assert order([a_queue("q", 4)], jobs) == ["urgent", "a", "b", "late"]


def test_a_queue_within_its_quota_goes_before_one_that_borrows():
    jobs = [a_job("borrower", "rich", submitted=0), a_job("entitled", "poor", submitted=5)]
    assert order([a_queue("rich", 1), a_queue("poor", 1)], jobs, {"rich": 1000}) == ["entitled", "borrower"]


def test_queues_take_turns_by_the_part_of_their_share_that_they_use():
    jobs = [a_job(f"{q}{i}", q, submitted=i) for q in ("large", "small") for i in range(3)]
    found = order([a_queue("large", 4, over_quota_weight=0), a_queue("small", 2, over_quota_weight=0)], jobs)
    assert found == ["large0", "small0", "large1", "large2", "small1", "small2"]


def test_a_queue_priority_decides_between_those_equally_entitled():
    jobs = [a_job("low", "a"), a_job("high", "b", submitted=9)]
    assert order([a_queue("a", 2), a_queue("b", 2, priority=1)], jobs) == ["high", "low"]


def test_who_stays_within_his_fair_share_goes_before_a_higher_queue_priority():
    queues = [a_queue("hungry", priority=5, over_quota_weight=0), a_queue("fair")]
    assert order(queues, [a_job("h", "hungry"), a_job("f", "fair")], gpus=1) == ["f", "h"]


def test_who_is_above_his_fair_share_goes_last_whatever_his_queue_priority():
    queues = [a_queue("over", priority=9, over_quota_weight=0), a_queue("under", over_quota_weight=0)]
    assert order(queues, [a_job("o", "over"), a_job("u", "under")], {"over": 1000})[0] == "u"


def test_the_guarantee_goes_before_a_fair_share_of_the_surplus_and_before_queue_priority():
    queues = [a_queue("wealthy", priority=9), a_queue("modest", 1)]
    assert order(queues, [a_job("w", "wealthy"), a_job("m", "modest")], gpus=4) == ["m", "w"]


def test_departments_are_compared_before_their_queues():
    queues = [a_queue("x", 1), a_queue("x/a", 1, parent="x"), a_queue("y", 1), a_queue("y/b", 1, parent="y")]
    jobs = [a_job("xa", "x/a", submitted=0), a_job("yb", "y/b", submitted=5)]
    assert order(queues, jobs, {"x": 500}, gpus=4) == ["yb", "xa"]


def test_those_passed_over_take_their_class_with_them_and_nobody_else():
    accounts = Accounts([a_queue("q", 1)])
    jobs = [a_job(f"big{i}", "q", 4, submitted=i) for i in range(3)] + [a_job("small", "q", 1, submitted=9)]
    turn = turn_of(accounts, jobs)
    assert turn.next().id == "big0"
    turn.pass_over()
    assert turn.next().id == "small"
    turn.done()
    assert turn.next() is None


def test_a_queue_touched_by_others_is_compared_anew():
    accounts = Accounts([a_queue("a", 2), a_queue("b", 2)])
    charge(accounts.of("b"), 1000, fixed=False)
    turn = turn_of(accounts, [a_job("x", "a"), a_job("y", "b")])
    assert turn.next().id == "x"
    charge(accounts.of("b"), -1000, fixed=False)
    charge(accounts.of("a"), 1000, fixed=False)
    turn.touch(accounts.of("a"))
    turn.touch(accounts.of("b"))
    assert turn.next().id == "y"
