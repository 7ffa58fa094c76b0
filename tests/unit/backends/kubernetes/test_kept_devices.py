"""Devices of pods whose run nobody knows: they are found again and given to no other."""

from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.names import reservation_name
from jupyter_gq.domain.pod_pool import Provider

from .held_slot import KEY, NAME, SLOT, held
from .paper import Paper


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
