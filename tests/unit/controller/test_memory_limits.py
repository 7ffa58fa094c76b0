"""The backend is told the limits of the shares that are parts of devices, and what the driver confirms is shown."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import LimitState
from jupyter_gq.domain.share_level import ShareLevel

from .test_memory_watch import WatchedWorld
from .world import ANN

pytestmark = pytest.mark.asyncio

#: The memory of half a device.
HALF = 20_480


class Limits:
    """The limits that the driver was told, by workload, and what it answers."""

    def __init__(self):
        self.told, self.answer = {}, LimitState()

    def want(self, workload, run, limits):
        self.told[workload, run] = dict(limits)

    def state(self, workload, run):
        return self.answer


class LimitedWorld(WatchedWorld):
    """A machine whose driver can limit memory."""

    def _service(self):
        self.limits = Limits()
        controller = super()._service()
        for backend in (self.servers, self.backend):
            backend.capabilities = replace(backend.capabilities, memory_limits=self.limits)
        return controller


@pytest.fixture
def world(tmp_path):
    made = LimitedWorld(tmp_path)
    yield made
    made.close()


async def test_parts_of_devices_get_their_limits(world):
    ticket = await world.start_server(ANN, "0.5")
    job = world.send(ANN, "vision", "0.25", tasks=2)
    await world.step(2)
    assert world.limits.told == {
        (ticket.id, 1): {"GPU-sim-box-0": HALF},
        (job, 1): {"GPU-sim-box-1": HALF},  # of two tasks with a quarter
    }


async def test_whole_devices_have_no_limits(world):
    job = world.send(ANN, "vision", "1")
    await world.step(2)
    assert world.limits.told == {(job, 1): {}}


async def test_level_is_that_of_the_driver_only_once_it_has_confirmed_the_limit(world):
    await world.start_server(ANN, "0.5")
    await world.see(10)
    assert world.notebook(ANN).enforcement == "watched"

    world.limits.answer = LimitState(confirmed=frozenset({"GPU-sim-box-1"}))
    assert world.notebook(ANN).enforcement == "watched", "not on the device of the share"

    world.limits.answer = LimitState(confirmed=frozenset({"GPU-sim-box-0"}))
    found = world.notebook(ANN)
    assert (found.enforcement, found.enforcement_sentence) == ("driver", ShareLevel.DRIVER.meaning)


async def test_owner_is_told_why_the_driver_does_not_limit(world):
    await world.start_server(ANN, "0.5")
    await world.see(10)
    world.limits.answer = LimitState(trouble="Only root may.")
    found = world.notebook(ANN)
    assert found.enforcement_sentence == f"{ShareLevel.WATCHED.meaning} Only root may."


async def test_new_share_is_not_promised_what_the_driver_has_not_confirmed(world):
    world.limits.answer = LimitState(confirmed=frozenset({"GPU-sim-box-0"}))
    await world.step()
    assert "is watched." in world.controller.overview.describe_user(ANN).level_sentence
