"""WANTED -> BOUND -> HELD -> RELEASING: derived from the pods and the agents alone."""

import pytest

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.names import reservation_name
from jupyter_gq.backends.kubernetes.shares.slots import SlotState
from jupyter_gq.domain.cluster import SHARE_LABEL
from jupyter_gq.domain.pod_pool import Hold, Provider

from .paper import Paper

SLOT = "n1/0"
NAME = reservation_name(SLOT)
KEY, OTHER = ("job-1", 1), ("job-2", 1)


def held(paper=None, key=KEY, device="GPU-1"):
    """A slot whose device is held for a run."""
    paper = paper or Paper()
    paper.slots.claim(SLOT, paper.pools[0], key)
    paper.step()
    paper.pod(SLOT, phase="Running")
    paper.report([(NAME, device)])
    paper.step(1)
    return paper


def test_a_slot_goes_its_way():
    paper = Paper()
    assert paper.slots.state(SLOT) is SlotState.FREE
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    assert paper.slots.state(SLOT) is SlotState.WANTED
    paper.step()
    paper.step()
    assert paper.writes.made == [NAME]
    paper.pod(SLOT)
    assert paper.slots.state(SLOT) is SlotState.BOUND
    paper.pod(SLOT, phase="Running")
    assert paper.slots.reserved_device(SLOT) is None, "nobody has said which device it is"
    paper.report([(NAME, "GPU-1")])
    assert paper.slots.state(SLOT) is SlotState.RESERVED
    assert paper.slots.reserved_device(SLOT).id == "GPU-1"
    paper.slots.release(SLOT, KEY)
    assert paper.slots.state(SLOT) is SlotState.RELEASING
    paper.step()
    paper.step(59)
    assert paper.writes.deleted == [], "it lingers"
    paper.report([(NAME, "GPU-1")])
    paper.step(2)
    assert len(paper.writes.deleted) == 1
    paper.gone(SLOT)
    assert paper.slots.state(SLOT) is SlotState.RELEASING, "the kubelet has not forgotten it"
    paper.clock.at += 1
    paper.report([])
    paper.step()
    assert paper.slots.state(SLOT) is SlotState.FREE


def test_a_second_share_needs_no_other_pod_and_keeps_the_first_ones():
    paper = held()
    paper.slots.claim(SLOT, paper.pools[0], OTHER)
    paper.slots.release(SLOT, KEY)
    paper.step(100)
    assert (paper.writes.made, paper.writes.deleted) == ([NAME], [])


def test_what_lingers_goes_at_once_for_a_whole_device_and_is_free_when_the_kubelet_says_so():
    paper = held()
    paper.slots.release(SLOT, KEY)
    assert not paper.slots.free(SLOT)
    paper.step()
    assert len(paper.writes.deleted) == 1
    paper.gone(SLOT)
    paper.report([(NAME, "GPU-1")])
    assert not paper.slots.free(SLOT)
    paper.clock.at += 1
    paper.report([])
    assert paper.slots.free(SLOT)


def test_a_new_reservation_is_not_taken_for_the_old_one_of_the_same_name():
    paper = held()
    paper.gone(SLOT)
    paper.step()
    assert paper.writes.made == [], "the kubelet still names the old one"
    paper.clock.at += 1
    paper.report([])
    paper.step()
    assert paper.writes.made == [NAME]


def test_not_held_in_time_refuses_who_waits_and_pauses_the_node():
    paper = Paper()
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.step()
    paper.pod(SLOT, unschedulable="0/3 nodes")
    paper.step(29)
    assert paper.slots.failure(SLOT, KEY) == ""
    paper.step(2)
    assert (
        paper.slots.failure(SLOT, KEY) == f"{SLOT} could not be held: The cluster finds no free device on n1: 0/3 nodes"
    )
    assert len(paper.writes.deleted) == 1
    assert not any(device.healthy for device in paper.offered().devices)


@pytest.mark.parametrize("held_back", ["", "its scheduling gates have not been removed: quota"])
def test_a_node_does_not_pause_if_no_scheduler_has_looked_at_the_reservation_pod(held_back):
    paper = Paper()
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.step()
    paper.pod(SLOT, node="", held_back=held_back)
    paper.step(29)
    assert paper.slots.failure(SLOT, KEY) == ""
    paper.step(2)
    told = f"No scheduler has looked at the reservation pod {NAME}."
    if held_back:
        told = f"The cluster does not place the reservation pod {NAME} yet: {held_back}"
    assert paper.slots.failure(SLOT, KEY) == f"{SLOT} could not be held: {told}"
    assert all(device.healthy for device in paper.offered().devices)


@pytest.mark.parametrize("name", ["0", "nvidia0", "0000:03:00.0", "GPU", "gpu-1"])
def test_a_share_gets_no_device_that_its_plugin_calls_otherwise_than_by_uuid(name):
    """The number 0 would be the first GPU of the driver, whoever uses it."""
    paper = Paper()
    paper.report()
    assert SHARE_LABEL[0] in paper.offered().labels
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.step()
    paper.pod(SLOT, phase="Running")
    paper.report([(NAME, name)])
    paper.step(1)
    assert paper.slots.reserved_device(SLOT) is None
    assert f"calls a device of nvidia.com/gpu {name}, which is no UUID" in paper.slots.failure(SLOT, KEY)
    assert len(paper.writes.deleted) == 1, "at once, and the node is not to blame"
    node = paper.offered()
    assert all(device.healthy for device in node.devices), "whole devices go there"
    assert SHARE_LABEL[0] not in node.labels
    paper.gone(SLOT)
    paper.report([])
    assert SHARE_LABEL[0] not in paper.offered().labels, "it is remembered when nothing is given away"
    paper.report([("theirs", "GPU-0")])
    assert SHARE_LABEL[0] in paper.offered().labels, "the administrator has changed the plugin"


def test_a_pool_that_keeps_its_devices_reserved_uses_no_node_without_uuids():
    paper = Paper(hold=Hold.ALWAYS)
    paper.report([("any", "0")])
    assert "which is no UUID" in paper.offered().closed
    other = Paper(hold=Hold.ALWAYS)
    other.report([("any", "MIG-1")])
    assert other.offered().closed == "", "slices have UUIDs of their own"


def test_a_refused_reservation_is_told_at_once_and_the_node_is_not_to_blame():
    paper = Paper()
    paper.writes.refusal = "exceeded quota"
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.step()
    assert "exceeded quota" in paper.slots.failure(SLOT, KEY)
    assert all(device.healthy for device in paper.offered().devices)


def test_after_a_restart_a_reservation_lingers_anew():
    paper = Paper()
    paper.pod(SLOT, phase="Running")
    paper.step()
    paper.step(59)
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.step(100)
    assert paper.writes.deleted == [], "its run was told to us again in time"


def test_a_silent_agent_costs_no_running_share_its_reservation():
    paper = Paper()
    paper.slots.claim(SLOT, paper.pools[0], KEY, "GPU-1")
    paper.pod(SLOT, phase="Running")
    paper.step()
    paper.step(1000)
    assert paper.writes.deleted == []
    assert paper.slots.failure(SLOT, KEY) == ""


def test_the_device_of_running_shares_is_looked_for_until_it_is_back():
    paper = held(Paper(gpus=3))
    paper.slots.claim(SLOT, paper.pools[0], KEY, "GPU-1")
    paper.gone(SLOT)
    paper.clock.at += 1
    paper.report([])
    paper.step()
    wrong = paper.pod(SLOT, phase="Running")
    paper.report([(NAME, "GPU-0")])
    assert paper.slots.reserved_device(SLOT) is None
    paper.step()
    second = reservation_name(SLOT, 1)
    assert second in paper.writes.made
    paper.pod(SLOT, 1, phase="Running")
    paper.report([(NAME, "GPU-0"), (second, "GPU-1")])
    assert paper.slots.reserved_device(SLOT).id == "GPU-1"
    paper.step(1)
    assert paper.writes.deleted == [wrong.uid], "the wrong one goes"
    assert paper.slots.failure(SLOT, KEY) == ""


def test_no_more_are_made_than_the_node_has_and_then_its_runs_are_told():
    paper = held(Paper(gpus=2))
    paper.slots.claim(SLOT, paper.pools[0], KEY, "GPU-9")
    paper.pod(SLOT, 1, phase="Running")
    paper.report([(NAME, "GPU-0"), (reservation_name(SLOT, 1), "GPU-1")])
    paper.step()
    paper.step(31)
    assert reservation_name(SLOT, 2) not in paper.writes.made
    assert "held by another pod" in paper.slots.failure(SLOT, KEY)


def test_an_ended_reservation_is_swept_away_and_made_anew():
    paper = held()
    paper.pod(SLOT, phase="Failed", reason="Evicted")
    paper.step()
    assert len(paper.writes.deleted) == 1
    paper.gone(SLOT)
    paper.clock.at += 1
    paper.report([])
    paper.step()
    assert paper.writes.made == [NAME]


def test_a_kept_slot_is_held_without_a_run_and_let_go_when_it_is_not_kept_any_more():
    paper = Paper()
    paper.slots.keep_always({SLOT}, paper.nodes.pool)
    paper.step()
    assert paper.writes.made == [NAME]
    paper.pod(SLOT, phase="Running")
    paper.report([(NAME, "GPU-0")])
    paper.step(500)
    assert paper.writes.deleted == []
    paper.slots.keep_always(set(), paper.nodes.pool)
    paper.step()
    paper.step(61)
    assert len(paper.writes.deleted) == 1


def test_nothing_lingers_on_a_cordoned_node():
    """Its drain waits for the reservations to go, and they for their shares."""
    paper = held()
    paper.node(cordoned=True)
    paper.step(500)
    assert paper.writes.deleted == [], "its share is there"
    paper.slots.release(SLOT, KEY)
    paper.step()
    assert len(paper.writes.deleted) == 1


def test_after_a_restart_it_lingers_on_a_cordoned_node_too():
    """Whoever will use it is told to us right after the first look."""
    paper = Paper()
    paper.node(cordoned=True)
    paper.pod(SLOT, phase="Running")
    paper.step()
    paper.step(59)
    assert paper.writes.deleted == []
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.step(500)
    assert paper.writes.deleted == []
    paper.slots.release(SLOT, KEY)
    paper.step()
    assert len(paper.writes.deleted) == 1, "its drain waits for that"


def test_what_was_said_before_a_pod_was_gone_says_nothing_of_what_the_kubelet_remembers():
    paper = held()
    paper.slots.release(SLOT, KEY)
    paper.report([])
    paper.clock.at += 1
    paper.gone(SLOT)
    assert not paper.slots.free(SLOT)
    paper.clock.at += 1
    paper.report([])
    assert paper.slots.free(SLOT)


def test_a_quota_that_refuses_a_reservation_ends_no_share_that_runs():
    paper = held()
    paper.slots.claim(SLOT, paper.pools[0], KEY, "GPU-1")
    paper.slots.claim(SLOT, paper.pools[0], OTHER)
    paper.gone(SLOT)
    paper.clock.at += 1
    paper.report([])
    paper.writes.refusal = "exceeded quota"
    paper.step()
    assert paper.slots.failure(SLOT, KEY) == ""
    assert "exceeded quota" in paper.slots.failure(SLOT, OTHER)


def kept(paper, device="GPU-1"):
    """For as long as the test waits, the reservation stands."""
    for _ in range(50):
        paper.report([(NAME, device)])
        paper.step(10)
    return paper.writes.deleted == [] and paper.slots.reserved_device(SLOT).id == device


def test_a_pod_whose_run_nobody_knows_keeps_its_device():
    """The store may be a restored backup, or the run ended for us when its node was lost, and its pod did not."""
    paper = Paper()
    paper.work("w", SLOT, "GPU-1")
    paper.pod(SLOT, phase="Running")
    assert kept(paper)
    paper.work("w", SLOT, "GPU-1", terminating=True)
    assert kept(paper), "its processes run until it is gone"
    paper.work_gone("w")
    paper.step()
    paper.step(59)
    assert paper.writes.deleted == [], "it lingers"
    paper.step(2)
    assert len(paper.writes.deleted) == 1


def test_a_pod_that_has_ended_keeps_no_device():
    paper = held()
    paper.slots.release(SLOT, KEY)
    paper.work("w", SLOT, "GPU-1")
    paper.step(100)
    paper.work("w", SLOT, "GPU-1", phase="Succeeded")
    paper.step()
    paper.step(61)
    assert len(paper.writes.deleted) == 1


def test_the_device_of_a_pod_whose_run_nobody_knows_is_looked_for():
    paper = Paper()
    paper.work("w", SLOT, "GPU-1")
    paper.report([])
    paper.step()
    assert paper.writes.made == [NAME]
    paper.pod(SLOT, phase="Running")
    paper.report([(NAME, "GPU-0")])
    assert paper.slots.reserved_device(SLOT) is None
    paper.step()
    assert paper.writes.made == [NAME, reservation_name(SLOT, 1)]


def test_what_pods_of_another_installation_or_another_provider_name_is_not_ours_to_hold():
    paper = Paper()
    paper.work("w", SLOT, "GPU-1", labels={names.INSTALLATION: "another"})
    paper.report([])
    paper.step()
    hami = Paper(provider=Provider.HAMI)
    hami.work("w", SLOT, "GPU-1")
    hami.report([])
    hami.step()
    hami.step(100)
    assert paper.writes.made == hami.writes.made == []
    assert not hami.nodes.back_off.until("n1")


def test_what_was_held_for_running_pods_is_held_on_although_its_pool_left_the_settings():
    paper = Paper()
    paper.pools.clear()
    paper.pod(SLOT, phase="Running")
    paper.work("w", SLOT, "GPU-1")
    paper.report([(NAME, "GPU-1")])
    paper.step()
    paper.step(500)
    paper.gone(SLOT)
    paper.step(500)
    assert (paper.writes.deleted, paper.writes.made) == ([], []), "and nothing is made by no rules"


def test_nothing_is_reserved_on_a_node_that_is_gone():
    paper = Paper()
    paper.work("w", SLOT, "GPU-1")
    paper.nodes.apply_change(paper.view, None)
    paper.step()
    paper.step(100)
    assert paper.writes.made == []


def test_pods_that_were_seen_before_their_node_count_like_others():
    paper = Paper()
    paper.nodes.apply_change(paper.view, None)
    paper.work("w", SLOT, "GPU-1")
    paper.pod(SLOT, phase="Running")
    paper.nodes.apply_change(None, paper.view)
    assert kept(paper)


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
