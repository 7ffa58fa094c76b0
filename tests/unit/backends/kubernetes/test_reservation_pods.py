"""WANTED -> BOUND -> HELD -> RELEASING: derived from the pods and the agents alone."""

import pytest

from jupyter_gq.backends.kubernetes.objects.names import reservation_name
from jupyter_gq.backends.kubernetes.shares.slots import SlotState
from jupyter_gq.domain.cluster import SHARE_LABEL
from jupyter_gq.domain.pod_pool import Hold

from .held_slot import KEY, NAME, OTHER, SLOT, held
from .paper import Paper


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


@pytest.mark.parametrize("trouble", ["", "The service may not delete the pod."])
def test_a_pod_that_does_not_go_closes_its_slot_alone_and_is_named(trouble):
    paper = held()
    paper.writes.trouble = trouble
    paper.slots.release(SLOT, KEY)
    assert not paper.slots.free(SLOT)
    paper.step()
    paper.pod(SLOT, terminating=True)
    paper.step(19)
    assert paper.slots.overdue_slots() == set()
    assert not paper.slots.free(SLOT)
    assert paper.slots.describe(SLOT) == f"Waits until the reservation of {SLOT} is gone."
    paper.step(1)
    assert paper.slots.overdue_slots() == {SLOT}
    assert not paper.slots.free(SLOT)
    why = trouble or "Something keeps it, such as a finalizer or its container."
    told = f"The reservation pod {NAME} should be gone and still holds its device: {why}"
    assert paper.slots.describe(SLOT) == told
    paper.slots.claim(SLOT, paper.pools[0], OTHER)
    paper.step()
    paper.step(30)
    assert paper.slots.failure(SLOT, OTHER) == f"{SLOT} could not be held: {told}"
    assert [device.healthy for device in paper.offered(blocked=paper.slots.overdue_slots()).devices] == [False, True]
    paper.gone(SLOT)
    assert paper.slots.overdue_slots() == set()


def test_a_share_that_comes_while_the_pod_of_another_goes_is_told_so():
    paper = held()
    paper.slots.release(SLOT, KEY)
    paper.slots.free(SLOT)
    paper.step()
    paper.slots.claim(SLOT, paper.pools[0], OTHER)
    paper.step()
    assert paper.slots.describe(SLOT) == f"The earlier reservation pod {NAME} is being deleted."


def test_while_the_api_server_is_away_no_pod_is_overdue():
    paper = held()
    paper.slots.release(SLOT, KEY)
    paper.slots.free(SLOT)
    paper.step()
    paper.clock.at += 500
    paper.slots.restart_clocks()
    assert paper.slots.overdue_slots() == set()
    paper.clock.at += 20
    assert paper.slots.overdue_slots() == {SLOT}


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


def test_a_busy_api_server_is_named_and_the_node_is_not_to_blame():
    paper = Paper()
    paper.writes.busy = "The API server is busy: too many requests."
    paper.slots.claim(SLOT, paper.pools[0], KEY)
    paper.step()
    assert paper.slots.describe(SLOT) == paper.writes.busy
    paper.step(30)
    assert paper.slots.failure(SLOT, KEY) == f"{SLOT} could not be held: {paper.writes.busy}"
    assert all(device.healthy for device in paper.offered().devices)


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
