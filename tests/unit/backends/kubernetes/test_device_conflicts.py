"""Two slots that seem to have one device, and what the kubelet and the agents remember of pods that are gone."""

from jupyter_gq.backends.kubernetes.objects.names import reservation_name

from .held_slot import KEY, NAME, OTHER, SLOT, held
from .paper import Paper

BESIDE = "n1/1"
FIRST, FURTHER = reservation_name(BESIDE), reservation_name(BESIDE, 1)


def given_the_device_of_others(paper=None):
    """The reservation under the shares of a slot vanished, and its device was given to the pod of another slot."""
    paper = paper or Paper()
    paper.work("w", SLOT, "GPU-0")
    paper.slots.claim(BESIDE, paper.pools[0], OTHER)
    paper.pod(BESIDE, phase="Running")
    paper.report([(FIRST, "GPU-0")])
    paper.step()
    return paper


def test_no_slot_is_given_the_device_on_which_the_shares_of_another_run():
    paper = given_the_device_of_others()
    assert paper.slots.reserved_device(BESIDE) is None
    assert paper.slots.reserved_device(SLOT).id == "GPU-0", "who needs it has it, whatever the pod is called"
    paper.step()
    assert paper.writes.made == [FURTHER]
    paper.pod(BESIDE, 1, phase="Running")
    paper.report([(FIRST, "GPU-0"), (FURTHER, "GPU-1")])
    paper.step(1)
    assert paper.slots.reserved_device(BESIDE).id == "GPU-1"
    assert paper.slots.reserved_device(SLOT).id == "GPU-0"
    paper.slots.release(BESIDE, OTHER)
    paper.step()
    paper.step(500)
    assert [uid for uid in paper.writes.deleted if uid.startswith(FURTHER)] == paper.writes.deleted != []
    paper.gone(BESIDE, 1)
    paper.clock.at += 1
    paper.report([(FIRST, "GPU-0")])
    paper.step()
    assert paper.slots.reserved_device(SLOT).id == "GPU-0"
    paper.work_gone("w")
    paper.step()
    paper.step(61)
    assert len(paper.writes.deleted) == 2, "nobody needs it any more"


def test_a_device_that_a_pod_was_told_to_name_is_given_to_no_other_before_that_pod_is_there():
    paper = Paper()
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.slots.fix_device(SLOT, KEY, "GPU-0")
    paper.slots.claim(BESIDE, paper.pools[0], OTHER)
    paper.pod(BESIDE, phase="Running")
    paper.report([(FIRST, "GPU-0")])
    paper.step()
    assert paper.slots.reserved_device(BESIDE) is None
    assert paper.slots.reserved_device(SLOT).id == "GPU-0"
    paper.slots.release(SLOT, KEY)
    assert paper.slots.reserved_device(BESIDE).id == "GPU-0", "it was never made"


def test_who_runs_on_a_device_keeps_it_although_others_do_as_well():
    paper = Paper()
    paper.work("w", SLOT, "GPU-0")
    paper.work("x", BESIDE, "GPU-0")
    paper.pod(SLOT, phase="Running")
    paper.report([(NAME, "GPU-0")])
    paper.step()
    paper.step(500)
    assert paper.writes.deleted == []


def test_a_pod_that_holds_the_device_of_other_shares_does_not_keep_its_slot_from_a_whole_device():
    paper = given_the_device_of_others()
    paper.slots.release(BESIDE, OTHER)
    paper.writes.made.clear()
    assert paper.slots.free(BESIDE)
    paper.step()
    paper.step(500)
    assert paper.writes.deleted == [], "it holds the device of running shares"


def test_while_it_is_not_known_which_device_a_pod_holds_it_may_be_that_of_other_shares():
    """As after a restart, before the agent has spoken."""
    paper = Paper()
    paper.work("w", SLOT, "GPU-0")
    paper.pod(BESIDE, phase="Running")
    paper.step()
    paper.step(500)
    assert not [uid for uid in paper.writes.deleted if uid.startswith(FIRST)]
    paper.report([(FIRST, "GPU-1")])
    paper.step(1)
    assert [uid for uid in paper.writes.deleted if uid.startswith(FIRST)]


def unplaced(why, **report):
    """Shares run, their reservation is gone, and the scheduler finds no place for a new one; somebody else waits."""
    paper = Paper()
    paper.slots.claim(SLOT, paper.pools[0], KEY, "GPU-0")
    paper.slots.claim(SLOT, paper.pools[0], OTHER)
    paper.work("w", SLOT, "GPU-0")
    paper.report(**report)
    paper.step()
    paper.pod(SLOT, phase="Pending", node="", unschedulable=why)
    paper.step(31)
    return paper


def test_what_keeps_a_reservation_out_says_nothing_of_the_device():
    """A cordon, a taint, no processor left: the shares that run have their device."""
    paper = unplaced("0/1 nodes are available: 1 node(s) were unschedulable.")
    assert paper.slots.failure(SLOT, KEY) == ""
    assert "were unschedulable" in paper.slots.failure(SLOT, OTHER), "who waits is refused"
    assert paper.slots.failing == {OTHER}


def test_who_runs_on_a_device_that_the_kubelet_gave_to_others_is_told():
    paper = unplaced("0/1 nodes: 1 Insufficient nvidia.com/gpu.", others=[("thief", "GPU-0")])
    assert "The device GPU-0 on which shares run is held by another pod." in paper.slots.failure(SLOT, KEY)
    assert KEY in paper.slots.failing


def test_a_device_that_is_there_no_more_is_told_to_who_ran_on_it():
    paper = unplaced("0/1 nodes: 1 Insufficient nvidia.com/gpu.", others=[("a", "GPU-1"), ("b", "GPU-2")])
    assert "held by another pod" in paper.slots.failure(SLOT, KEY)


def test_what_a_silent_agent_said_last_convicts_nobody():
    paper = unplaced("0/1 nodes: 1 Insufficient nvidia.com/gpu.")
    paper.report(others=[("thief", "GPU-0")])
    paper.slots.claim(SLOT, paper.pools[0], KEY, "GPU-0")
    paper.gone(SLOT)
    paper.step(61)
    paper.pod(SLOT, phase="Pending", node="", unschedulable="no")
    paper.step(31)
    assert paper.slots.failure(SLOT, KEY) == ""


def test_who_was_told_hears_that_its_device_is_held_again():
    paper = unplaced("0/1 nodes: 1 Insufficient nvidia.com/gpu.", others=[("thief", "GPU-0")])
    paper.slots.release(SLOT, OTHER)
    paper.gone(SLOT)
    paper.clock.at += 30
    paper.report()
    paper.step()
    paper.pod(SLOT, phase="Running", node="n1")
    paper.report([(NAME, "GPU-0")])
    paper.step()
    assert (paper.slots.failure(SLOT, KEY), paper.slots.failing) == ("", set())


def test_what_was_said_before_a_pod_was_there_is_of_an_older_one_of_its_name():
    """As after a restart, or while the agent is silent: that the older one was there is not known, or forgotten."""
    paper = Paper()
    paper.report([(NAME, "GPU-1")])
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.step()
    paper.clock.at += 1
    paper.pod(SLOT)
    paper.pod(SLOT, phase="Running")
    assert paper.slots.reserved_device(SLOT) is None
    paper.clock.at += 1
    paper.pod(SLOT, reason="anything")
    paper.report([(NAME, "GPU-0")])
    assert paper.slots.reserved_device(SLOT).id == "GPU-0"


def test_what_a_silent_agent_said_of_a_pod_that_is_gone_is_not_said_of_the_next_one():
    paper = held()
    paper.step(61)
    paper.gone(SLOT)
    paper.step()
    paper.clock.at += 1
    paper.pod(SLOT, phase="Running")
    assert paper.slots.reserved_device(SLOT) is None


def test_the_kubelet_remembers_further_pods_of_a_slot_too():
    paper = given_the_device_of_others()
    paper.pod(BESIDE, 1, phase="Running")
    paper.report([(FIRST, "GPU-0"), (FURTHER, "GPU-1")])
    paper.slots.release(BESIDE, OTHER)
    paper.gone(BESIDE, 1)
    paper.clock.at += 1
    paper.report([(FIRST, "GPU-0"), (FURTHER, "GPU-1")])
    assert not paper.slots.free(BESIDE)
    paper.report([(FIRST, "GPU-0")])
    assert paper.slots.free(BESIDE)


def test_nothing_new_counts_on_a_pod_that_is_being_deleted():
    """The deletion is on its way, and the watch has not shown it."""
    paper = held()
    paper.slots.release(SLOT, KEY)
    paper.step()
    paper.report([(NAME, "GPU-1")])
    paper.step(60)
    assert len(paper.writes.deleted) == 1
    paper.slots.claim(SLOT, paper.pools[0], OTHER)
    assert paper.slots.reserved_device(SLOT) is None
    paper.pod(SLOT, message="seen before it was deleted")
    paper.writes.deleted.clear()
    paper.step()
    assert (paper.slots.reserved_device(SLOT), len(paper.writes.deleted)) == (None, 1), (
        "it is asked for until it is gone"
    )
    paper.gone(SLOT)
    paper.clock.at += 1
    paper.report([])
    paper.step()
    assert paper.writes.made == [NAME]
