"""A decided suspension is carried out or withdrawn by what is heard of its notebook, also over a restart."""

import pytest

from jupyter_gq.devices.meter import ShareUse

from .test_suspension import lab, spend
from .world import ANN, World

__all__ = ["lab"]

pytestmark = pytest.mark.asyncio


class KnownUse:
    """A meter that knows the use of each share, which is none, except while the driver is `silent`."""

    silent = False

    def measure(self, shares):
        return {name: ShareUse(memory=0, utilisation=None if self.silent else 0) for name in shares}


async def decide(world: World, *, warned: bool) -> None:
    """A job waits, and the suspension of Ann's share is decided and begun, with or without a warning before."""
    world.controller._context.meter = KnownUse()
    if not warned:
        await spend(world, 90)
    world.send(ANN, "vision", "1")
    while not world.servers.calls:
        await spend(world, 1)


@pytest.mark.parametrize("warned", [True, False])
async def test_a_decided_suspension_outlives_a_restart_and_is_begun_again_once_the_notebook_is_heard_as_idle(
    lab, warned
):
    await decide(lab, warned=warned)
    lab.restart()
    lab.controller._context.meter = KnownUse()
    await lab.step(3)
    assert lab.servers.calls == [], "nobody knows whether the notebook was used meanwhile"
    assert lab.notebook(ANN).phase == "running"
    await spend(lab, 20)
    assert lab.servers.calls == [("suspend", lab.notebook(ANN).id)]
    assert lab.notebook(ANN).phase == "suspended"


async def test_a_cell_that_was_run_while_no_service_was_there_withdraws_a_decided_suspension(lab):
    await decide(lab, warned=False)
    lab.restart()
    lab.clock.forward(5)
    await lab.step()
    lab.report(ANN, busy=False, last=lab.clock.now() - 2)
    await lab.step(3)
    assert (lab.servers.calls, lab.notebook(ANN).phase) == ([], "running")
    assert lab.sql.get(lab.notebook(ANN).id).detail.suspension is None


async def test_a_gap_in_the_samples_withdraws_a_decided_suspension_that_has_not_begun(lab):
    await decide(lab, warned=False)
    lab.restart()
    lab.controller._context.meter = meter = KnownUse()
    await lab.step(seconds=6)
    meter.silent = True
    await lab.step()
    await spend(lab, 120)
    assert lab.servers.calls == [], "the use of the GPU is not known"
    meter.silent = False
    await spend(lab, 10)
    assert (lab.servers.calls, lab.notebook(ANN).phase) == ([], "running")
    assert lab.sql.get(lab.notebook(ANN).id).detail.suspension is None


async def test_a_gap_in_the_samples_during_the_move_undoes_nothing_since_programs_wait_for_the_driver(lab):
    lab.servers.is_slow = True
    await decide(lab, warned=False)
    lab.controller._context.meter.silent = True
    await spend(lab, 200)
    lab.controller._context.meter.silent = False
    await spend(lab, 20)
    assert lab.servers.calls == [("suspend", lab.notebook(ANN).id)]
    lab.servers.is_slow = False
    await spend(lab, 5)
    assert lab.notebook(ANN).phase == "suspended"
