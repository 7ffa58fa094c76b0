"""The idle rule: unknown is never idle, busy is never idle, a warning comes first, and only for somebody who waits."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.reasons import EvictReason, PendingReason
from jupyter_gq.scheduling.cycle import run_cycle
from jupyter_gq.scheduling.decision import Evict, Suspend, Unwarn, Warn
from jupyter_gq.scheduling.idle.idle_rule import expiry, has_run_out, idle_since, may_be_lent, may_be_warned
from jupyter_gq.scheduling.policy import IdleRule, Policy
from tests.builders import NOW, Cluster, a_job, a_notebook, acts, admitted, apply, idle, running, stopped, why

RULE = IdleRule()
#: After 30 min the share is taken, after 20 min the owner may be warned.
WARNED, TAKEN = 1200, 1800


def bobs(for_seconds=1500, **fields):
    return idle(running(a_notebook("bob", "0.5"), "n-0"), for_seconds, **fields)


def waiting_for(*notebooks, always=False, stop=True, waiting=("0.75",), now=NOW):
    cluster = Cluster().node("n", 1, pool="build").fixed(bob="0.5", eve="0.5", carol="1").add(*notebooks)
    cluster.add(*[a_notebook("carol", gpus, name=str(i)) for i, gpus in enumerate(waiting)])
    return run_cycle(cluster.snapshot(), Policy(idle=replace(RULE, always=always, stop=stop)), now)


def test_an_idle_notebook_is_known_by_its_last_use():
    assert idle_since(bobs(1500), RULE, NOW) == NOW - 1500


@pytest.mark.parametrize(
    "notebook",
    [
        replace(bobs(), activity=None),
        bobs(busy=None),
        bobs(busy=True),
        bobs(sampled_at=NOW - RULE.fresh - 1),
        replace(bobs(), activity=replace(bobs().activity, last_active=None)),
        replace(bobs(), started_at=None),
        replace(bobs(), started_at=NOW - RULE.grace + 1),
        a_notebook("bob"),
        running(a_job("train", "q"), "n-0"),
        idle(running(a_notebook("bob", 0)), 9999),
    ],
    ids=["no report", "unknown", "busy", "old report", "never used", "no start", "new", "waits", "a job", "CPU only"],
)
def test_what_is_unknown_busy_or_new_is_never_idle(notebook):
    assert idle_since(notebook, RULE, NOW) is None
    assert not may_be_warned(notebook, RULE, NOW)


def test_the_warning_begins_before_the_end():
    assert not may_be_warned(bobs(WARNED - 1), RULE, NOW)
    assert may_be_warned(bobs(WARNED), RULE, NOW)


def test_the_owner_has_the_whole_warning_even_if_idle_for_long():
    assert expiry(bobs(WARNED + 100), RULE, NOW) == NOW + RULE.warning
    assert expiry(bobs(WARNED), RULE, NOW) == NOW + TAKEN - WARNED
    assert expiry(bobs(9999), RULE, NOW) == NOW + RULE.warning
    assert expiry(bobs(9999, expire_at=NOW + 7), RULE, NOW) == NOW + 7


def test_a_warning_names_no_earlier_time_than_one_that_was_withdrawn():
    told = NOW + RULE.warning + 7
    assert expiry(bobs(9999, promised_until=told), RULE, NOW) == told


def test_a_warning_that_has_run_out_takes_nothing_before_a_later_time_that_was_promised():
    told = bobs(9999, expire_at=NOW - 1)
    assert has_run_out(told, RULE, NOW)
    assert not has_run_out(bobs(9999, expire_at=NOW - 1, promised_until=NOW + 7), RULE, NOW)


def test_a_sample_exactly_as_old_as_allowed_counts():
    assert idle_since(bobs(sampled_at=NOW - RULE.fresh), RULE, NOW) is not None


def test_what_the_owner_keeps_is_kept():
    assert not may_be_warned(bobs(kept_until=NOW + 1), RULE, NOW)
    assert may_be_warned(bobs(kept_until=NOW), RULE, NOW)


def test_somebody_waits_and_the_owner_is_warned():
    decision = waiting_for(bobs())
    sentence = (
        "Your server stops: variables are lost, files are kept. Run a cell or press Keep it to keep it. "
        "Idle for 25 min, and carol's server '0' (0.75 GPU) waits for its share."
    )
    (warn,) = decision.instructions
    assert replace(warn, sentence=reveal(warn.sentence)) == Warn(
        workload="nb-bob", expire_at=NOW + RULE.warning, by="nb-carol0", sentence=sentence
    )
    assert why(decision, "nb-carol0").why.reason is PendingReason.WAITS_FOR_IDLE
    assert reveal(why(decision, "nb-carol0").why.sentence) == (
        "Waiting: bob's server (0.5 GPU) is idle and must give the GPU up in 10 min unless used again."
    )


def test_one_behind_the_one_who_gets_the_share_is_told_of_that_one():
    eves = idle(running(a_notebook("eve", "0.5"), "n-0"), 1500, busy=True)
    decision = waiting_for(bobs(), eves, waiting=("0.4", "0.3"))
    assert why(decision, "nb-carol0").why.reason is PendingReason.WAITS_FOR_IDLE
    assert why(decision, "nb-carol1").why.blockers[0] == "nb-carol0"


def test_nobody_waits_and_nobody_is_warned():
    assert waiting_for(bobs(9999), waiting=()).instructions == ()


def test_one_whom_this_share_would_not_help_is_no_reason():
    busy = idle(running(a_notebook("eve", "0.5"), "n-0"), 1500, busy=True)
    assert waiting_for(bobs(), busy).instructions == ()


def test_only_as_many_are_warned_as_are_needed_the_longest_idle_first():
    eves = idle(running(a_notebook("eve", "0.5"), "n-0"), 1700)
    decision = waiting_for(bobs(), eves, waiting=("0.5",))
    assert [i.workload for i in decision.instructions] == ["nb-eve"]


def test_of_two_that_are_idle_for_as_long_the_larger_is_warned():
    larger = idle(running(a_notebook("eve", "0.5"), "n-0"), 1500)
    smaller = idle(running(a_notebook("bob", "0.25"), "n-0"), 1500)
    decision = waiting_for(smaller, larger, waiting=("0.5",))
    assert [each.workload for each in acts(decision)] == [larger.id]


def test_one_who_was_warned_stays_the_one():
    eves = idle(running(a_notebook("eve", "0.5"), "n-0"), 1700)
    assert waiting_for(bobs(1740, expire_at=NOW + 60), eves, waiting=("0.5",)).instructions == ()


def test_at_the_time_named_the_share_is_taken_for_the_one_who_waits():
    decision = waiting_for(bobs(1860, expire_at=NOW))
    (instruction,) = acts(decision)
    assert replace(instruction, sentence=reveal(instruction.sentence)) == Evict(
        workload="nb-bob",
        reason=EvictReason.IDLE,
        by="nb-carol0",
        sentence="Stopped: your server was idle for 31 min and carol's server '0' (0.75 GPU) waited for its 0.5 GPU. "
        "Your files are saved, and the variables of its kernels are lost.",
    )
    assert why(decision, "nb-carol0").why.reason is PendingReason.WAITS_FOR_EVICTION


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize("suspendable", [False, True])
def test_no_server_is_stopped_or_warned_if_the_policy_forbids_it(always, suspendable):
    """Carol's server cannot use a lent share, so one that can be suspended stays as well, unless it always goes."""
    for notebook in (bobs(), bobs(1860, expire_at=NOW), bobs(9999, expire_at=NOW - 9)):
        decision = waiting_for(replace(notebook, suspendable=suspendable), always=always, stop=False)
        assert not [each for each in acts(decision) if isinstance(each, Evict)]
        assert [each for each in decision.instructions if isinstance(each, Warn)] == [] or (always and suspendable)
    suspended = [each for each in acts(decision) if isinstance(each, Suspend)]
    assert len(suspended) == (always and suspendable)


def test_a_policy_without_stops_still_lends_to_jobs():
    notebook = replace(bobs(1860, expire_at=NOW), suspendable=True)
    cluster = Cluster().node("n", 1).fixed(bob="0.5").queue("q", 0).add(notebook, a_job("train", "q"))
    for stop in (False, True):
        decision = run_cycle(cluster.snapshot(), Policy(idle=replace(RULE, stop=stop)), NOW)
        assert [type(each) for each in acts(decision)] == [Suspend]


@pytest.mark.parametrize("always", [False, True])
def test_a_share_is_taken_only_on_a_report_from_after_the_time_named(always):
    """A cell that began in the last seconds of the countdown is in no earlier report."""
    before, after = bobs(1860, expire_at=NOW - 4, sampled_at=NOW - 5), bobs(1860, expire_at=NOW - 4, sampled_at=NOW - 4)
    waiting = () if always else ("0.75",)
    decision = waiting_for(before, always=always, waiting=waiting)
    assert decision.instructions == ()
    assert always or why(decision, "nb-carol0").why.reason is PendingReason.WAITS_FOR_IDLE
    assert [each.workload for each in acts(waiting_for(after, always=always, waiting=waiting))] == ["nb-bob"]


@pytest.mark.parametrize("always", [False, True])
@pytest.mark.parametrize(("idle_for", "warning"), [(1200, 600), (1799, 600), (5, 1800)])
def test_a_warning_from_before_the_last_use_takes_nothing_and_the_owner_is_warned_anew(idle_for, warning, always):
    """The use was heard of after the time named, as after an outage, or was too short to be seen as busy."""
    bob = bobs(idle_for, expire_at=NOW - 3600 if idle_for > 5 else NOW - 1)
    cluster = Cluster().node("n", 1, pool="build").fixed(bob="0.5", carol="1").add(bob)
    if not always:
        cluster.add(a_notebook("carol", "0.75"))
    rule = replace(RULE, warning=warning, always=always)
    decision = run_cycle(cluster.snapshot(), Policy(idle=rule), NOW)
    (warning_anew,) = acts(decision)
    assert (type(warning_anew), warning_anew.expire_at) == (Warn, max(NOW + warning, NOW - idle_for + rule.after))


def test_a_warning_from_before_the_last_use_is_taken_back_when_nobody_waits():
    assert waiting_for(bobs(1200, expire_at=NOW - 3600), waiting=()).instructions == (Unwarn(workload="nb-bob"),)


def test_a_share_is_not_lent_by_a_warning_from_before_the_last_use():
    bob = replace(bobs(1200, expire_at=NOW - 3600), suspendable=True)
    assert not may_be_lent(bob, RULE, NOW)
    assert may_be_lent(replace(bob, activity=replace(bob.activity, last_active=NOW - 1800)), RULE, NOW)


def test_the_one_who_waits_is_told_when_the_time_is_over():
    before = bobs(1860, expire_at=NOW - 4, sampled_at=NOW - 5)
    assert "must give the GPU up now unless used again" in reveal(why(waiting_for(before), "nb-carol0").why.sentence)


def test_not_a_second_earlier():
    assert waiting_for(bobs(1860, expire_at=NOW + 1)).instructions == ()


def test_shares_for_one_who_waits_are_taken_together():
    eves = idle(running(a_notebook("eve", "0.5"), "n-0"), 1900, expire_at=NOW + 30)
    first = bobs(2000, expire_at=NOW - 5)
    assert waiting_for(first, eves, waiting=("1",)).instructions == ()
    decision = waiting_for(first, replace(eves, activity=replace(eves.activity, expire_at=NOW)), waiting=("1",))
    assert sorted(i.workload for i in acts(decision)) == ["nb-bob", "nb-eve"]


@pytest.mark.parametrize(
    "change", [{"busy": True}, {"busy": None}, {"sampled_at": NOW - 1000}, {"kept_until": NOW + 100}]
)
def test_a_warning_is_taken_back_when_the_notebook_is_used_or_kept_or_unknown(change):
    decision = waiting_for(bobs(1860, expire_at=NOW, **change))
    assert decision.instructions == (Unwarn(workload="nb-bob"),)


def test_a_warning_is_taken_back_when_nobody_waits_any_more():
    assert waiting_for(bobs(1860, expire_at=NOW), waiting=()).instructions == (Unwarn(workload="nb-bob"),)


def test_by_policy_nobody_needs_to_wait():
    (warn,) = waiting_for(bobs(), waiting=(), always=True).instructions
    assert (warn.workload, warn.by) == ("nb-bob", None)
    lost, kept = "Your server stops: variables are lost, files are kept.", "Run a cell or press Keep it to keep it."
    assert warn.sentence == f"{lost} {kept} Idle for 25 min."
    (evict,) = waiting_for(bobs(1860, expire_at=NOW), waiting=(), always=True).instructions
    assert evict.sentence.startswith("Stopped: your server was idle for 31 min. Your files are saved")


def in_a_shared_pool(notebook, job):
    cluster = Cluster().node("n", 1, pool="all").fixed(pool="all", bob="0.5").queue("q", "0.5", pool="all")
    return run_cycle(cluster.add(notebook, job).snapshot(), Policy(), NOW)


def test_training_within_its_quota_may_wait_for_an_idle_notebook():
    blocked = bobs(), a_job("train", "q", "0.5")
    cluster = Cluster().node("n", 1, pool="all").fixed(pool="all", bob="0.75").queue("q", "0.5", pool="all")
    notebook = idle(running(a_notebook("bob", "0.75"), "n-0"), 1500)
    decision = run_cycle(cluster.add(notebook, blocked[1]).snapshot(), Policy(), NOW)
    assert [type(i) for i in decision.instructions] == [Warn]


def test_over_quota_work_never_takes_an_idle_notebook():
    assert in_a_shared_pool(bobs(), a_job("train", "q", "0.75")).instructions == ()


def test_a_notebook_that_can_be_suspended_loses_nothing_even_to_over_quota_work():
    notebook = replace(bobs(1860, expire_at=NOW), suspendable=True)
    (instruction,) = acts(in_a_shared_pool(notebook, a_job("train", "q", "0.75")))
    assert isinstance(instruction, Suspend)
    assert reveal(instruction.sentence) == (
        "Suspended: your 0.5 GPU was idle for 31 min, and ann's train (0.75 GPU) waited for a GPU. "
        "The next cell that you run brings it back, with the variables of kernels that still run."
    )


def test_a_suspended_notebook_keeps_its_quota_and_lends_its_bytes():
    cluster = Cluster().node("n", 1, pool="all").fixed(pool="all", bob="0.5").queue("q", "0.5", pool="all")
    notebook = replace(bobs(1860, expire_at=NOW), suspendable=True)
    snapshot = cluster.add(notebook, a_job("train", "q", 1), a_notebook("bob", "0.25", name="second")).snapshot()
    decision = run_cycle(snapshot, Policy(), NOW)
    after = run_cycle(apply(snapshot, decision), Policy(), NOW)
    assert admitted(after) == ["train"]
    assert why(after, "nb-bobsecond").why.reason is PendingReason.QUEUE_LIMIT


def test_a_warning_says_that_a_share_which_is_lent_costs_nothing():
    (warn,) = in_a_shared_pool(replace(bobs(), suspendable=True), a_job("train", "q", "0.75")).instructions
    assert reveal(warn.sentence) == (
        "Nothing is lost: the GPU is lent until your next cell. Run a cell or press Keep it to keep it. "
        "Idle for 25 min, and ann's train (0.75 GPU) waits for its share."
    )
    assert warn.lends


def test_a_warning_does_not_offer_what_has_been_used_up():
    (warn,) = waiting_for(bobs(kept_total=RULE.keep_total)).instructions
    assert "Run a cell to keep it. Idle" in warn.sentence


def test_who_was_told_that_nothing_is_lost_is_warned_anew_before_the_server_is_stopped():
    """The owner has the whole time of a warning, and only then the server is stopped."""
    told = replace(bobs(1860, expire_at=NOW, told_lent=True), suspendable=True)
    (warn,) = waiting_for(told).instructions
    assert (warn.expire_at, warn.lends) == (NOW + RULE.warning, False)
    assert "variables are lost" in warn.sentence
    (again,) = waiting_for(replace(told, activity=replace(told.activity, expire_at=NOW + 9000))).instructions
    assert again.expire_at == NOW + 9000
    (evict,) = acts(waiting_for(replace(told, activity=replace(told.activity, told_lent=False))))
    assert isinstance(evict, Evict)


def test_after_the_stop_the_one_who_waited_gets_it():
    snapshot = Cluster().node("n", 1, pool="build").fixed(bob="0.5", carol="1").snapshot()
    snapshot = replace(snapshot, workloads=(bobs(1860, expire_at=NOW), a_notebook("carol", "1")))
    snapshot = apply(snapshot, run_cycle(snapshot, Policy(), NOW))
    assert run_cycle(snapshot, Policy(), NOW).instructions == ()
    assert admitted(run_cycle(stopped(snapshot), Policy(), NOW)) == ["nb-carol"]
