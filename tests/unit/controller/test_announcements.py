"""Who waits is told of it when it looks different, however many wait."""

from jupyter_gq.controller.views.announcements import AT_ONCE, Announcements
from jupyter_gq.domain.reasons import Explanation, PendingReason
from jupyter_gq.scheduling.decision import Pending


def waiting(names, sentence="It waits.", start=1):
    why = Explanation(reason=PendingReason.NO_FREE_DEVICE, sentence=sentence)
    return {name: Pending(workload=name, position=at, why=why) for at, name in enumerate(names, start)}


def everybody(name):
    return True


def test_it_is_told_once_until_it_looks_different():
    announcements = Announcements()
    assert announcements.take_changed(waiting("ab"), everybody) == ["a", "b"]
    assert announcements.take_changed(waiting("ab"), everybody) == []
    assert announcements.take_changed(waiting("b"), everybody) == ["b"]
    assert announcements.take_changed(waiting("b", "It waits longer."), everybody) == ["b"]


def test_of_thousands_a_few_are_told_at_a_time_and_nobody_is_passed_over():
    announcements, names = Announcements(), [f"job-{number}" for number in range(3 * AT_ONCE)]
    told = []
    for step in range(6):  # each step all of them look different
        now = announcements.take_changed(waiting(names, f"{step} of 10 GPUs are idle."), everybody)
        assert len(now) == AT_ONCE
        told.extend(now)
    assert sorted(told) == sorted(names * 2)


def test_what_nobody_hears_is_no_news_to_who_begins_to_listen():
    announcements = Announcements()
    assert announcements.take_changed(waiting("ab"), lambda name: name == "a") == ["a"]
    assert announcements.take_changed(waiting("ab"), everybody) == []
    assert announcements.take_changed(waiting("ab", start=2), everybody) == ["a", "b"]


def test_who_waits_no_more_is_not_told_of():
    announcements, names = Announcements(), [f"job-{number}" for number in range(AT_ONCE + 1)]
    announcements.take_changed(waiting(names), everybody)
    assert announcements.take_changed({}, everybody) == []
