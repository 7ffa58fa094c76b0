"""When a notebook counts as idle, and what its owner can do about it."""

import pytest
import pytest_asyncio

from jupyter_gq.client.models import ActivityReport, KernelActivity
from jupyter_gq.domain.errors import Conflict, NotFound, StorageFull
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.store.sql import SqlStore

from .world import ADMIN, ANN, BOB, CAROL, World, story_settings

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def crowded(world: World) -> World:
    """Ann has 0.5, Bob 0.25, and Carol waits for 0.5: only Bob's share would let Carol start."""
    await world.start_server(ANN, "0.5")
    await world.start_server(BOB, "0.25")
    world.ask(CAROL, "0.5")
    await world.step()
    return world


async def spend(world: World, seconds: float, *, bob: bool | None = False, every: float = 30) -> None:
    """Time in which Ann works, Carol waits, and Bob's only kernel is as told."""
    since = world.clock.now()
    while world.clock.now() < since + seconds:
        world.report(ANN, busy=True)
        if world.controller.tickets.list_notebooks(BOB).notebooks:
            world.report(BOB, busy=bob)
        world.ask(CAROL, "0.5")
        await world.step(seconds=every)


async def test_idle_is_warned_then_taken_for_somebody_who_waits(crowded):
    await spend(crowded, 1260)
    warning = crowded.notebook(BOB).warning
    assert warning is not None
    assert warning.keep_seconds == 1800
    assert crowded.notebook(BOB).idle_since is not None
    await spend(crowded, 660)
    assert crowded.controller.tickets.list_notebooks(BOB).notebooks == []
    eviction = crowded.controller.overview.describe_user(BOB).last_eviction
    assert eviction is not None
    assert (eviction.reason, reveal(eviction.by)) == ("IDLE", "carol")


async def test_why_the_share_was_taken_is_shown_until_the_owner_has_asked_for_one_again(crowded):
    await spend(crowded, 2000)
    crowded.restart()
    assert crowded.controller.overview.describe_user(BOB).last_eviction is not None
    crowded.ask(BOB, "0")
    assert crowded.controller.overview.describe_user(BOB).last_eviction is not None
    crowded.ask(BOB, "0.25")
    assert crowded.controller.overview.describe_user(BOB).last_eviction is None


class StoreTakesNoStops(SqlStore):
    """While `full`, has no room for a workload that is told to stop."""

    full = True

    def save(self, records, *more):
        if self.full and any(record.workload.stop is not None for record in records):
            raise StorageFull("The disk of the database is full.")
        return super().save(records, *more)


async def test_an_eviction_that_the_store_refuses_is_not_told(crowded):
    crowded.store = StoreTakesNoStops(crowded.url)
    crowded.restart()
    with pytest.raises(StorageFull):
        await spend(crowded, 2000)
    (kept,) = crowded.controller.tickets.list_notebooks(BOB).notebooks
    assert kept.phase == "running"
    assert crowded.controller.overview.describe_user(BOB).last_eviction is None
    crowded.store.full = False
    await spend(crowded, 60)
    assert crowded.controller.overview.describe_user(BOB).last_eviction is not None
    crowded.store.close()


async def test_nobody_is_warned_while_nobody_waits(world):
    await world.start_server(BOB, "0.25")
    for _ in range(80):
        world.report(BOB)
        await world.step(seconds=60)
    assert world.notebook(BOB).phase == "running"
    assert world.notebook(BOB).warning is None


async def test_with_the_policy_always_nobody_needs_to_wait(world):
    world.settings.current = story_settings(IdlePolicy={"always": True, "after": 900, "warning": 60, "grace": 0})
    await world.start_server(BOB, "0.25")
    for _ in range(17):
        world.report(BOB)
        await world.step(seconds=60)
    assert world.controller.tickets.list_notebooks(BOB).notebooks == []


async def test_a_busy_kernel_is_never_idle(crowded):
    await spend(crowded, 3000, bob=True)
    assert crowded.notebook(BOB).warning is None
    assert crowded.notebook(BOB).idle_since is None


async def test_an_unknown_kernel_is_not_idle(crowded):
    await spend(crowded, 3000, bob=None)
    assert crowded.notebook(BOB).warning is None
    assert crowded.notebook(BOB).phase == "running"


async def test_without_reports_nothing_is_known(crowded):
    for _ in range(100):
        crowded.ask(CAROL, "0.5")
        await crowded.step(seconds=30)
    assert crowded.notebook(BOB).phase == "running"
    assert crowded.notebook(BOB).warning is None


async def test_a_share_that_works_is_in_use_although_the_kernel_is_idle(crowded):
    """A thread, or a child process, trains on."""
    (kernel,) = [pids[1] for pids in crowded.controller._context.pids.values() if pids[0] == 200]
    crowded.probe.used[kernel] = 6
    await spend(crowded, 3000)
    assert crowded.notebook(BOB).warning is None
    assert crowded.notebook(BOB).utilisation == 6


async def test_a_use_that_was_measured_behind_a_jump_of_the_clock_is_not_moved_beyond_the_present(crowded):
    (kernel,) = [pids[1] for pids in crowded.controller._context.pids.values() if pids[0] == 200]
    crowded.probe.used[kernel] = 6
    await spend(crowded, 60)
    crowded.probe.used[kernel] = 1
    crowded.controller._activity.move(36_000)  # noted at the new time, before the jump was seen
    await spend(crowded, 1300)
    assert crowded.notebook(BOB).warning is not None


async def test_what_an_idle_process_tree_does_anyway_is_no_use(crowded):
    (kernel,) = [pids[1] for pids in crowded.controller._context.pids.values() if pids[0] == 200]
    crowded.probe.used[kernel] = 1
    await spend(crowded, 1300)
    assert crowded.notebook(BOB).warning is not None


async def test_the_server_process_itself_is_not_the_share(crowded):
    """An open browser tab makes the server work; that is no activity."""
    crowded.probe.used[200] = 90
    await spend(crowded, 1300)
    assert crowded.notebook(BOB).warning is not None


async def test_a_share_that_cannot_be_sampled_is_not_idle(crowded):
    crowded.probe.blind = True
    await spend(crowded, 3000)
    assert crowded.notebook(BOB).phase == "running"
    assert crowded.notebook(BOB).warning is None
    assert crowded.notebook(BOB).utilisation is None


async def test_running_a_cell_takes_the_warning_back(crowded):
    await spend(crowded, 1260)
    assert crowded.notebook(BOB).warning is not None
    await spend(crowded, 30, bob=True)
    await spend(crowded, 30)
    assert crowded.notebook(BOB).warning is None


async def test_keep_it_gives_time_and_is_bounded(crowded):
    with pytest.raises(Conflict, match="nothing to keep"):
        crowded.controller.tickets.keep(BOB, "")
    for wait, kept in ((1260, 1800), (1830, 3600)):
        await spend(crowded, wait)
        view = crowded.controller.tickets.keep(BOB, "")
        assert view.warning is None
        assert view.kept_until == crowded.clock.now() + 1800
        assert crowded.sql.get(view.id).workload.activity.kept_total == kept
        with pytest.raises(Conflict, match="kept already"):  # such as with a double click
            crowded.controller.tickets.keep(BOB, "")
    await spend(crowded, 1830)
    warning = crowded.notebook(BOB).warning
    assert warning is not None
    assert warning.keep_seconds == 0
    with pytest.raises(Conflict, match="all there is"):
        crowded.controller.tickets.keep(BOB, "")


async def test_being_used_again_gives_the_full_keep_back(crowded):
    await spend(crowded, 1260)
    crowded.controller.tickets.keep(BOB, "")
    await spend(crowded, 60, bob=True)
    await spend(crowded, 1800)
    warning = crowded.notebook(BOB).warning
    assert warning is not None
    assert warning.keep_seconds == 1800


async def test_a_share_is_kept_until_the_time_that_was_told_although_the_notebook_is_used_meanwhile(crowded):
    brief = {"after": 70, "warning": 30, "grace": 0}
    crowded.settings.current = story_settings(IdlePolicy=brief)
    await spend(crowded, 50, every=5)
    kept = crowded.controller.tickets.keep(BOB, "").kept_until
    await spend(crowded, 30, bob=True, every=5)
    crowded.restart()
    while crowded.clock.now() < kept:
        assert crowded.notebook(BOB).kept_until == kept
        assert crowded.notebook(BOB).warning is None
        await spend(crowded, 30)
    await spend(crowded, 10, every=5)
    assert crowded.notebook(BOB).warning.expire_at >= kept


async def test_a_short_step_of_keep_it_does_not_end_before_the_time_of_the_warning(crowded):
    crowded.settings.current = story_settings(IdlePolicy={"keep_step": 60})
    await spend(crowded, 1260)
    named = crowded.notebook(BOB).warning.expire_at
    assert crowded.controller.tickets.keep(BOB, "").kept_until == named > crowded.clock.now() + 60


async def test_a_warning_and_what_was_kept_outlive_a_restart(crowded):
    await spend(crowded, 1260)
    before = crowded.notebook(BOB).warning
    crowded.restart()
    await crowded.step()
    assert crowded.notebook(BOB).warning == before


async def test_a_warning_that_a_service_finds_before_the_first_report_keeps_its_time(crowded):
    await spend(crowded, 1260)
    named = crowded.notebook(BOB).warning.expire_at
    await spend(crowded, 240)
    crowded.restart()
    await crowded.step()
    assert crowded.notebook(BOB).warning is not None, "the last report that was saved is old"
    await spend(crowded, 60)
    assert crowded.notebook(BOB).warning.expire_at == named
    await spend(crowded, named - crowded.clock.now() + 60)
    assert crowded.controller.tickets.list_notebooks(BOB).notebooks == []


async def test_a_warning_of_a_notebook_of_which_nothing_is_heard_goes_at_its_time(crowded):
    await spend(crowded, 1260)
    named = crowded.notebook(BOB).warning.expire_at
    while crowded.clock.now() < named:
        assert crowded.notebook(BOB).warning is not None
        crowded.ask(CAROL, "0.5")
        await crowded.step(seconds=30)
    await crowded.step(seconds=30)
    assert crowded.notebook(BOB).warning is None
    assert crowded.notebook(BOB).phase == "running"


async def test_after_a_restart_of_the_service_the_idle_time_begins_anew(crowded):
    """The share may have been used meanwhile."""
    await spend(crowded, 1000)
    crowded.restart()
    await spend(crowded, 1000)
    assert crowded.notebook(BOB).warning is None
    await spend(crowded, 300)
    assert crowded.notebook(BOB).warning is not None


async def test_a_gap_in_the_samples_does_not_give_the_keep_back(crowded):
    await spend(crowded, 1260)
    crowded.controller.tickets.keep(BOB, "")
    crowded.probe.blind = True
    await spend(crowded, 300)
    crowded.probe.blind = False
    await spend(crowded, 60)
    view = crowded.notebook(BOB)
    assert view.kept_until is not None
    assert view.idle_since is not None
    assert crowded.clock.now() - view.idle_since < 120


async def test_several_kernels_are_busy_when_one_is(world):
    await world.start_server(BOB, "0.25")
    await world.step(2, seconds=6)
    now = world.clock.now()
    for states, idle in (
        ([False, True, None], False),
        ([False, None], False),
        ([False, False], True),
        ([], True),
    ):
        kernels = [KernelActivity(id=str(n), busy=busy, last_active=now) for n, busy in enumerate(states)]
        world.controller.tickets.record_activity(BOB, "", ActivityReport(at=now, kernels=kernels))
        assert (world.notebook(BOB).idle_since is not None) == idle, states


async def test_a_report_of_an_unknown_server_is_refused(world):
    with pytest.raises(NotFound):
        world.report(BOB)


@pytest.mark.parametrize(("server", "named"), [("", "no default notebook server"), ("gpu", "no notebook server 'gpu'")])
async def test_a_server_that_is_not_there_is_named(crowded, server, named):
    with pytest.raises(NotFound, match=f"There is {named} of yours with a ticket. Start it"):
        crowded.controller.tickets.keep(ADMIN, server)
