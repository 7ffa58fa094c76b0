"""As many free slots take new work as devices are left, whichever device has failed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.backends.kubernetes.nodes.open_slots import SlotHealth, choose_open_slots
from jupyter_gq.backends.kubernetes.objects.names import reservation_name
from jupyter_gq.domain.pod_pool import Hold, Provider
from tests.unit.backends.kubernetes.paper import GPU, Paper

from .paper_backend import PaperBackend

SLOTS = [f"n1/{index}" for index in range(6)]
_some = st.sets(st.sampled_from(SLOTS))


def open_of(node):
    """The numbers of the slots that take something new."""
    return [device.index for device in node.devices if device.healthy]


@given(
    st.integers(0, 6),
    _some,
    _some,
    st.integers(0, 3),
    st.dictionaries(st.sampled_from(SLOTS), st.sampled_from(SlotHealth)),
)
def test_no_more_free_slots_are_open_than_devices_are_left(working, used, blocked, foreign, known):
    health = lambda slot: known.get(slot, SlotHealth.UNKNOWN)  # noqa: E731
    found = choose_open_slots(SLOTS, working, used=used, blocked=blocked, foreign=foreign, health=health)
    free = found - used
    taken = len(used | blocked)
    assert len(free) == min(len(SLOTS) - taken, max(0, working - taken - foreign))
    assert not found & blocked
    assert len(found & used) <= working
    closed = set(SLOTS) - used - blocked - free
    assert all(health(slot) <= health(other) for slot in free for other in closed), "known ones come first"


@pytest.mark.parametrize("used", [["n1/3"], ["n1/0"], ["n1/0", "n1/3"], [], SLOTS[:4]])
def test_a_failed_device_closes_one_free_slot_wherever_work_runs(used):
    paper = Paper(gpus=4)
    paper.offered()
    paper.node(devices={GPU: 3})
    node = paper.offered(used=used)
    numbers = {int(slot[-1]) for slot in used}
    assert len(node.devices) == 4, "what was offered stays on the books"
    assert len(set(open_of(node)) - numbers) == max(0, 3 - len(used))
    assert len(numbers & set(open_of(node))) == min(3, len(used)), "further shares may join"


def test_when_the_work_on_a_failed_node_has_ended_all_that_works_is_free():
    paper = Paper(gpus=4)
    assert len(open_of(paper.offered(used=SLOTS[:4]))) == 4
    paper.node(devices={GPU: 3})
    assert open_of(paper.offered(used=["n1/1", "n1/3"])) == [0, 1, 3]
    assert len(open_of(paper.offered())) == 3
    paper.node(devices={GPU: 4})
    assert open_of(paper.offered()) == [0, 1, 2, 3]


def test_old_pods_and_foreign_pods_hold_devices_too():
    paper = Paper(gpus=4)
    paper.offered()
    paper.node(devices={GPU: 3})
    paper.report(others=[("theirs", "GPU-2")])
    assert open_of(paper.offered(used=["n1/3"], blocked=["n1/2"])) == [3]
    assert open_of(paper.offered(blocked=["n1/3"])) == [0]
    later = Paper(gpus=3)
    assert open_of(later.offered(blocked=["n1/3"])) == [0, 1], "a service that begins now has never seen four"


def test_a_failure_that_the_agent_and_the_device_plugin_tell_counts_once():
    paper = Paper(gpus=4)
    paper.offered()

    def failed(report):
        report.devices[1].healthy = False

    paper.report()
    failed(paper.agents._reports["n1"].report)
    assert len(open_of(paper.offered())) == 3, "the agent sees it first"
    paper.node(devices={GPU: 3})
    assert len(open_of(paper.offered())) == 3


def held_on(paper, slot, device):
    """A reservation of that slot holds that device."""
    paper.slots.claim(slot, paper.pools[0], ("job-1", 1))
    paper.step()
    paper.pod(slot, phase="Running")
    paper.report([(reservation_name(slot), device)])
    paper.step()


def test_shares_join_where_the_device_works_and_not_where_it_has_failed():
    paper = Paper(gpus=4)
    paper.nodes.device_of_slot = paper.slots.device_name
    held_on(paper, "n1/3", "GPU-1")
    paper.node(devices={GPU: 3})
    assert 3 in open_of(paper.offered(used=["n1/3"])), "another device has failed"
    paper.agents._reports["n1"].report.devices[1].healthy = False
    assert open_of(paper.offered(used=["n1/3"])) == [0, 1]


def test_a_device_that_is_reserved_already_is_used_before_others():
    paper = Paper(gpus=4)
    paper.offered()
    paper.nodes.device_of_slot = paper.slots.device_name
    held_on(paper, "n1/3", "GPU-1")
    paper.slots.release("n1/3", ("job-1", 1))
    paper.node(devices={GPU: 2})
    assert open_of(paper.offered()) == [0, 3], "the reservation lingers, and no other pod gets that device"


def test_a_slot_of_hami_is_the_device_of_its_number_although_another_one_is_gone():
    paper = Paper(gpus=4, provider=Provider.HAMI)
    paper.node(devices={GPU: 40})
    paper.report()
    assert open_of(paper.offered()) == [0, 1, 2, 3]
    del paper.agents._reports["n1"].report.devices[1]
    assert open_of(paper.offered()) == [0, 2, 3]
    paper.agents._reports["n1"].report.devices[1].healthy = False
    assert open_of(paper.offered(used=["n1/3"])) == [0, 3]


@pytest.mark.asyncio
async def test_hami_gives_the_device_of_the_slot_and_not_the_next_one_of_the_list():
    paper = PaperBackend(pool={"provider": Provider.HAMI})
    paper.node("n1", devices={GPU: 20})
    paper.report()
    await paper.launch("job", "a", "n1/1")
    del paper.runs.agents._reports["n1"].report.devices[0]
    (added,) = paper.runs.training._devices.prepare(paper.runs.training.runs["job-a", 1].workload)
    assert added.additions.annotations["nvidia.com/use-gpuuuid"] == "GPU-1"
    await paper.launch("job", "b", "n1/0")
    (missing,) = paper.runs.training._devices.prepare(paper.runs.training.runs["job-b", 1].workload)
    assert missing.additions is None, "the first of the list is in use"
    await paper.close()


@pytest.mark.asyncio
async def test_a_pool_that_keeps_its_devices_reserved_wants_no_more_than_there_are():
    paper = PaperBackend(pool={"hold": Hold.ALWAYS})
    paper.node("n1", devices={GPU: 4})
    paper.report()
    await paper.runs.observe()
    assert len(wanted(paper)) == 4
    await paper.launch("job", "a", "n1/3")
    paper.node("n1", devices={GPU: 3})
    paper.runs._is_stale = True
    await paper.runs.observe()
    assert len(wanted(paper)) == 3
    assert "n1/3" in wanted(paper)
    await paper.close()


def wanted(paper):
    return [slot.name for slot in paper.runs.reservation_pods._slots if slot.is_wanted]
