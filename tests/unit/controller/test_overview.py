"""The totals: what the options page offers, queues, pools, devices, health."""

from dataclasses import replace

import pytest

from jupyter_gq.controller.views.overview import over_quota_by_job
from jupyter_gq.domain.amount import MiB, MilliGpu
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.share_level import ShareLevel
from tests.builders import a_job, running
from tests.fakes import a_node

from .world import ADMIN, ANN, BOB, CAROL, World, a_submission, story_settings

pytestmark = pytest.mark.asyncio


async def test_the_choices_are_the_steps_up_to_the_quota_and_the_quota_itself(tmp_path):
    world = World(tmp_path, settings=story_settings(FixedQuota={"users": {"bob": "0.4", "ann": 1}}))
    assert [choice.gpus for choice in world.controller.overview.describe_user(BOB).choices] == ["0", "0.25", "0.4"]
    assert [choice.gpus for choice in world.controller.overview.describe_user(ANN).choices] == [
        "0",
        "0.25",
        "0.5",
        "0.75",
        "1",
    ]
    world.close()


async def test_what_is_beyond_the_quota_says_so_with_its_numbers(world):
    await world.start_server(ANN, "0.25")
    free, half = world.controller.overview.describe_user(ANN).choices[1:]
    assert (free.available, free.starts_now, free.sentence) == (True, True, "Starts now.")
    assert (half.available, half.starts_now) == (False, False)
    assert "0.25 of it is in use (ann's server (0.25 GPU))" in reveal(half.sentence)


async def test_what_would_have_to_wait_says_why(world):
    await world.start_server(ANN, "0.5")
    await world.start_server(CAROL, "0.5")
    choice = world.controller.overview.describe_user(BOB).choices[1]
    assert (choice.available, choice.starts_now) == (True, False)
    assert choice.sentence.startswith("Would wait: ")
    assert "no device is idle; carol's server (0.5 GPU) is in the way" in reveal(choice.sentence)


async def test_choices_follow_what_happens(world):
    """They are kept from one request to the next, but never longer than they are true."""
    assert world.controller.overview.describe_user(ANN).choices == world.controller.overview.describe_user(ANN).choices
    before = world.controller.overview.describe_user(ANN).choices[2].available
    world.ask(ANN, "0.25")
    assert (before, world.controller.overview.describe_user(ANN).choices[2].available) == (True, False)
    world.settings.current = story_settings(FixedQuota={"groups": {"vision": "0.75"}})
    assert [choice.available for choice in world.controller.overview.describe_user(ANN).choices] == [
        True,
        True,
        True,
        False,
    ]


async def test_choices_follow_whether_servers_can_be_seen(world):
    """Nothing is recorded when a backend is lost or found, and the choices change all the same."""
    world.servers.observe, observe = cannot_be_seen, world.servers.observe
    await world.step()
    blind = world.controller.overview.describe_user(ANN).choices[1]
    assert (blind.available, blind.starts_now) == (True, False)
    assert blind.sentence.startswith("Would wait: the state of running work is unknown")
    world.servers.observe = observe
    await world.step()
    assert world.controller.overview.describe_user(ANN).choices[1].starts_now


async def cannot_be_seen():
    raise BackendError("it does not answer")


async def test_a_group_that_the_hub_adds_changes_the_quota_at_once(world):
    assert world.controller.overview.describe_user(BOB).quota == "0.25"
    both = type(BOB)(user="bob", groups=frozenset({"nlp", "vision"}))
    assert world.controller.overview.describe_user(both).quota == "0.5"
    assert world.ask(both, "0.5").phase == "waiting"


async def test_members_see_their_queues_and_those_above_administrators_all(tmp_path):
    queues = {
        "science": {"quota": 1},
        "vision": {"quota": "0.5", "parent": "science", "groups": ["vision"]},
        "nlp": {"quota": "0.5", "parent": "science", "groups": ["nlp"], "limit": 1, "priority": 2},
    }
    world = World(tmp_path, settings=story_settings(TrainingQueues={"queues": queues}))
    world.send(ANN, "vision")
    world.send(ANN, "vision")
    await world.step(2)
    seen = {queue.name: queue for queue in world.controller.overview.list_queues(ANN).queues}
    assert set(seen) == {"science", "vision"}
    vision = seen["vision"]
    assert (vision.used, vision.over_quota, vision.running, vision.waiting, vision.member) == ("1", "0.5", 1, 1, True)
    assert (seen["science"].used, seen["science"].over_quota, seen["science"].member) == ("1", "0", False)
    everything = {queue.name: queue for queue in world.controller.overview.list_queues(ADMIN).queues}
    assert set(everything) == {"science", "vision", "nlp"}
    assert (everything["nlp"].limit, everything["nlp"].priority, everything["nlp"].parent) == ("1", 2, "science")
    world.close()


async def test_pools_and_devices_say_what_is_free(world):
    await world.start_server(ANN, "0.5")
    await world.start_server(BOB, "0.25")
    me = world.controller.overview.describe_user(ANN)
    build, train = me.pools
    assert (build.name, build.devices, build.model, build.memory_mib) == ("build", 1, "A100-40GB", 40960)
    assert (build.total, build.free, build.largest_fraction) == ("1", "0.25", "0.25")
    assert (train.free, me.build_pool, me.largest_request) == ("1", "build", "1")
    assert me.devices_sentence == "Simulated devices, for tests."
    assert me.level_sentence.startswith("A part of a GPU has a memory limit that is cooperative. The usual frameworks")
    used = [(device.id, device.pool, device.used) for device in world.controller.overview.list_devices(ANN).devices]
    assert used == [("GPU-sim-box-0", "build", "0.75"), ("GPU-sim-box-1", "train", "0")]


@pytest.mark.parametrize(
    ("memory", "gpus", "level"), [(40_960, "0.5", "cooperative"), (0, "0.5", "advisory"), (0, "1", "hardware")]
)
async def test_a_share_is_shown_with_the_level_that_holds_on_its_device(tmp_path, memory, gpus, level):
    """Without the memory of a device, frameworks are told no limit; a whole device needs none."""
    nodes = (a_node(2, memory=memory),)
    settings = story_settings(nodes, FixedQuota={"default": "1", "groups": {}})
    world = World(tmp_path, nodes=nodes, settings=settings)
    await world.start_server(ANN, gpus)
    view = world.notebook(ANN)
    assert (view.enforcement, view.enforcement_sentence) == (level, ShareLevel(level).meaning)
    world.close()


async def test_only_administrators_see_who_is_on_a_device(world):
    await world.start_server(ANN, "0.5")
    assert world.controller.overview.list_devices(ANN).devices[0].holders == []
    (holder,) = world.controller.overview.list_devices(ADMIN).devices[0].holders
    assert (holder["owner"], holder["gpus"]) == ("ann", "0.5")


async def test_a_holder_of_a_device_has_the_parts_of_all_its_tasks_there(world):
    world.send(ANN, "vision", "0.25", tasks=3)
    await world.step(2)
    devices = world.controller.overview.list_devices(ADMIN).devices
    (found,) = [(device.used, device.holders[0]["gpus"]) for device in devices if device.holders]
    assert found == ("0.75", "0.75")


async def test_health_shows_a_refused_policy(world):
    assert (world.controller.status.check_health().status, world.controller.status.check_health().policy) == (
        "ok",
        "ok",
    )
    world.settings.error = "hub.py, line 3: c.FixedQuota.default = 1.5: ..."
    assert world.controller.status.check_health().status == "degraded"
    assert world.controller.status.check_health().policy == world.settings.error


async def test_work_that_is_not_preemptible_uses_the_quota_first():
    queue = Queue(name="vision", pool="default", quota=MilliGpu(4000))
    fixed = running(a_job("fixed", "vision", 3, preemptible=False), "n1-0", "n1-1", "n1-2", since=20)
    old = running(a_job("old", "vision", 2), "n1-3", "n1-4", since=0)
    young = running(a_job("young", "vision", 1), "n1-5", since=10)
    assert over_quota_by_job([fixed, old, young], [queue]) == {"old": 1000, "young": 1000}


async def test_all_of_a_borrower_counts_as_over_quota_and_leaves_the_quota_to_the_others():
    queue = Queue(name="vision", pool="default", quota=MilliGpu(2000))
    borrower = running(a_job("borrower", "vision", 1), "n1-0", since=0)
    young = running(a_job("young", "vision", 2), "n1-1", "n1-2", since=10)
    assert over_quota_by_job([borrower], [queue], {"borrower"}) == {"borrower": 1000}
    assert over_quota_by_job([borrower, young], [queue], {"borrower"}) == {"borrower": 1000, "young": 0}


async def test_what_may_be_reclaimed_of_a_job_follows_its_queue(world):
    first = world.send(ANN, "vision", "0.5")
    await world.step(2)
    second = world.send(CAROL, "vision", "0.5")
    await world.step(2)
    assert (world.job(first).over_quota, world.job(second).over_quota) == (None, "0.5")
    world.backend.end(first)
    await world.step()
    assert world.job(second).over_quota is None


async def test_queues_and_pools_say_what_there_is_of_cpu_and_memory(tmp_path):
    node = replace(a_node(2), cpu_milli=8000, memory=MiB(65_536))
    queues = {
        "top": {"quota_cpus": 6, "limit_memory": "32 GiB", "default_cpus": 2},
        "vision": {"parent": "top", "quota_cpus": 4, "groups": ["vision"]},
    }
    settings = story_settings((node,), Pools={"pools": {}}, TrainingQueues={"queues": queues})
    world = World(tmp_path, settings=settings, nodes=(node,))
    world.controller.jobs.submit(ANN, a_submission(cpus=3, memory="1.5 GiB"), None)
    await world.step(2)
    world.controller.jobs.submit(ANN, a_submission(gpus="1"), None)  # it waits, so it uses nothing
    top, vision = world.controller.overview.list_queues(ANN).queues
    assert top.cpus.model_dump() == {"quota": "6", "limit": None, "used": "3", "default": "2"}
    assert vision.cpus.model_dump() == {"quota": "4", "limit": None, "used": "3", "default": "2"}
    assert top.memory.model_dump() == {"quota": None, "limit": "32 GiB", "used": "1.5 GiB", "default": None}
    (pool,) = world.controller.overview.describe_user(ANN).pools
    assert (pool.largest_cpus, pool.largest_memory, pool.models) == ("8", "64 GiB", ["A100-40GB"])
    world.close()
