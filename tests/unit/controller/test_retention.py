"""Finished work is forgotten after a while, nothing else, and nothing of it is left."""

import asyncio

import pytest

from jupyter_gq.controller.loop.cleaning import retention
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.store.protocol import PageSize
from jupyter_gq.store.sql import SqlStore
from tests.patience import scaled

from .world import ADMIN, ANN, World, story_settings

pytestmark = pytest.mark.asyncio

DAY = 86400


async def a_finished_job(world: World) -> str:
    job = world.send(ANN, "vision")
    await world.step(2)
    outputs = [{"seq": number, "op": "append", "cell": "c1", "output": {}} for number in range(1, 100)]
    world.controller.jobs.append_outputs(job, outputs)
    world.controller.jobs.cancel(ANN, job)
    await world.step(10)
    assert world.job(job).phase == "cancelled"
    return job


async def test_a_job_is_forgotten_with_its_output_and_files_when_its_time_has_passed(world):
    job = await a_finished_job(world)
    world.clock.forward(30 * DAY - 60)
    assert await world.controller.retention.sweep() == 0
    assert world.job(job).last_seq == 99
    world.clock.forward(120)
    await world.controller.database_limit.measure()
    assert job in world.controller._context.kept_sizes
    assert await world.controller.retention.sweep() == 1
    assert job not in world.controller._context.kept_sizes, "what is gone counts at once no more"
    with pytest.raises(NotFound):
        world.job(job)
    assert (world.sql.last_seqs([job])[job], world.sql.get(job), world.bundles.kept) == (0, None, {})
    assert world.controller.job_lists.list_jobs(ADMIN, limit=10, before=None, owner="*").jobs == []


async def test_what_counts_is_the_end_not_the_beginning(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.clock.forward(40 * DAY)
    assert await world.controller.retention.sweep() == 0
    world.controller.jobs.cancel(ANN, job)
    await world.step(10)
    assert await world.controller.retention.sweep() == 0
    assert world.job(job).phase == "cancelled"


async def test_zero_keeps_for_ever_and_a_change_counts_at_once(world):
    world.settings.change(keep_finished=story_settings(TrainingQueues={"keep_finished_days": 0}).keep_finished)
    job = await a_finished_job(world)
    world.clock.forward(4000 * DAY)
    assert await world.controller.retention.sweep() == 0
    world.settings.change(keep_finished=0.5 * DAY)
    assert await world.controller.retention.sweep() == 1
    assert world.sql.get(job) is None


async def test_servers_that_ended_are_forgotten_too(world):
    await world.start_server(ANN, "0.25")
    (pid,) = world.attached
    world.server_dies(pid)
    await world.step(2)
    world.clock.forward(31 * DAY)
    assert await world.controller.retention.sweep() == 1
    assert world.sql.finished(world.clock.now()) == ()


async def test_a_service_that_is_killed_in_the_middle_goes_on_where_it_was(world):
    job = await a_finished_job(world)
    world.clock.forward(31 * DAY)
    world.bundles.delete(job, "ann")
    assert not world.sql.delete_portion(job), "some of its output is gone, and the service with it"
    world.note_sweep()
    world.restart()
    assert await world.controller.retention.sweep() == 1
    assert world.sql.get(job) is None


async def test_the_running_service_does_it_by_itself(world):
    job = await a_finished_job(world)
    world.clock.forward(31 * DAY)
    running = asyncio.create_task(world.controller.run())
    async with asyncio.timeout(scaled(60)):
        while world.sql.get(job) is not None:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


class AsksInBetween(SqlStore):
    """Somebody opens the notebook after each step."""

    def watch(self, look) -> None:
        self._look = look

    def delete_portion(self, workload: str, pieces: int = 20) -> bool:
        self._look(workload)
        return super().delete_portion(workload, pieces)


async def test_nobody_sees_a_part_of_its_output(world):
    job = await a_finished_job(world)
    world.clock.forward(31 * DAY)
    world.store = AsksInBetween(world.url)
    world.note_sweep()
    world.restart()
    asked = []

    def look(workload):
        with pytest.raises(NotFound):
            world.controller.jobs.read_outputs(ANN, workload, 0)
        assert world.controller.job_lists.list_jobs(ANN, limit=10, before=None).jobs == []
        asked.append(workload)

    world.store.watch(look)
    assert await world.controller.retention.sweep() == 1
    assert set(asked) == {job}
    world.store.close()


async def test_a_job_whose_files_cannot_be_deleted_is_shown_until_they_can(world):
    job = await a_finished_job(world)
    world.clock.forward(31 * DAY)
    world.bundles.stuck.add(job)
    assert await world.controller.retention.sweep() == 0
    assert world.job(job).last_seq == 99
    assert [each.id for each in world.controller.job_lists.list_jobs(ANN, limit=10, before=None).jobs] == [job]
    world.bundles.stuck.clear()
    assert await world.controller.retention.sweep() == 1


class DeletesOnePart(SqlStore):
    """Each portion of unused parts has one part."""

    def delete_unused_parts(self, wanted_before, most=None) -> int:
        return super().delete_unused_parts(wanted_before, PageSize(entries=1))


async def test_unused_parts_go_in_portions(world):
    world.store = DeletesOnePart(world.url)
    world.restart()
    world.store.put_parts("ann", {letter * 64: b"1" for letter in "abc"}, world.clock.now())
    world.clock.forward(2 * DAY)
    assert await world.controller.retention.sweep_parts() == 3
    assert world.store.parts_size("ann") == 0
    world.store.close()


class ForgetsOnlyTheSecondTime(SqlStore):
    """The database is locked by somebody at the first try."""

    failed = False

    def delete_portion(self, workload: str, pieces: int = 20) -> bool:
        if not self.failed:
            self.failed = True
            raise OSError("database is locked")
        return super().delete_portion(workload, pieces)


async def test_a_failure_does_not_end_it(world, monkeypatch):
    from jupyter_gq.controller.loop.cleaning import retention

    monkeypatch.setattr(retention, "EVERY", 0.01)
    job = await a_finished_job(world)
    world.clock.forward(31 * DAY)
    world.store = ForgetsOnlyTheSecondTime(world.url)
    world.note_sweep()
    world.restart()
    running = asyncio.create_task(world.controller.run())
    async with asyncio.timeout(scaled(60)):
        while world.sql.get(job) is not None:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    world.store.close()


async def test_after_a_leap_of_the_clock_nothing_is_deleted_for_a_day(world, caplog):
    await a_finished_job(world)
    assert await world.controller.retention.sweep() == 0
    world.clock.set(40 * DAY)
    assert await world.controller.retention.sweep() == 0
    assert "Check the clock" in caplog.text
    world.clock.forward(DAY - 60)
    assert await world.controller.retention.sweep() == 0
    world.clock.forward(120)
    assert await world.controller.retention.sweep() == 1


async def test_a_service_that_does_not_know_the_last_deletion_waits_for_a_day(world):
    """A database of an older release: the clock may have been wrong for as long as nobody can tell."""
    await a_finished_job(world)
    world.sql.put_setting("last_sweep", {})
    world.clock.set(40 * DAY)
    world.restart()
    assert await world.controller.retention.sweep() == 0
    world.clock.forward(DAY / 2)
    assert await world.controller.retention.sweep() == 0
    world.restart()
    assert await world.controller.retention.sweep() == 0
    world.clock.forward(DAY / 2 + 60)
    assert await world.controller.retention.sweep() == 1


async def test_a_clock_that_is_set_right_again_ends_the_wait(world):
    await a_finished_job(world)
    assert await world.controller.retention.sweep() == 0
    world.clock.set(40 * DAY)
    assert await world.controller.retention.sweep() == 0
    world.clock.set(-40 * DAY)
    world.clock.forward(31 * DAY)
    assert await world.controller.retention.sweep() == 1


async def test_a_service_that_starts_with_a_wrong_clock_deletes_nothing(world):
    await a_finished_job(world)
    assert await world.controller.retention.sweep() == 0
    world.clock.set(40 * DAY)
    world.restart()
    assert await world.controller.retention.sweep() == 0
    world.clock.set(-40 * DAY)
    world.restart()
    assert await world.controller.retention.sweep() == 0
    world.clock.forward(31 * DAY)
    assert await world.controller.retention.sweep() == 1


async def test_a_service_that_runs_for_some_hours_a_day_waits_for_a_day_in_all(world):
    await a_finished_job(world)
    assert await world.controller.retention.sweep() == 0
    world.clock.set(40 * DAY)
    deleted = []
    for _ in range(4):
        world.restart()
        for _ in range(8):
            deleted.append(await world.controller.retention.sweep())
            world.clock.forward(3600)
        world.clock.set(16 * 3600)
    assert sum(deleted) == 1
    assert deleted.index(1) >= 24


async def test_a_service_that_never_runs_for_an_hour_waits_for_a_day_in_all(world, monkeypatch):
    monkeypatch.setattr(retention, "LOOK_EVERY", 0)
    job = await a_finished_job(world)
    assert await world.controller.retention.sweep() == 0
    world.clock.set(40 * DAY)
    for _ in range(80):
        world.restart()
        running = asyncio.create_task(world.controller.retention.run())
        for _ in range(20):
            await asyncio.sleep(0)
            world.clock.forward(60)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    world.restart()
    await world.controller.retention.sweep()
    assert world.sql.get(job) is None


async def test_a_machine_whose_clock_begins_in_1970_ends_the_wait_all_the_same(world):
    await a_finished_job(world)
    assert await world.controller.retention.sweep() == 0
    world.clock.set(5 * DAY)
    world.clock.forward(40 * DAY)
    deleted = []
    for _ in range(3):
        now = world.clock.now()
        world.clock.set(-now)
        world.restart()
        deleted.append(await world.controller.retention.sweep())
        world.clock.set(now)
        for _ in range(10):
            deleted.append(await world.controller.retention.sweep())
            world.clock.forward(3600)
    assert sum(deleted) == 1


async def test_a_clock_that_was_ahead_when_the_service_first_ran_is_found_out_at_its_next_start(world):
    """The clock of a machine without a battery shows a time ahead at each start, until somebody sets it."""
    world.clock.set(4000 * DAY)
    assert await world.controller.retention.sweep() == 0
    world.clock.set(-4000 * DAY)
    for _ in range(26):
        await world.controller.retention.sweep()
        world.clock.forward(3600)
    world.clock.forward(DAY)
    await a_finished_job(world)
    world.restart()
    assert await world.controller.retention.sweep() == 0
    world.clock.set(4000 * DAY)
    world.restart()
    assert await world.controller.retention.sweep() == 0


@pytest.mark.parametrize("restarts", [False, True], ids=["same", "restarted"])
async def test_what_ended_while_the_clock_was_behind_is_kept_as_long_as_other_work(world, restarts):
    assert await world.controller.retention.sweep() == 0
    world.clock.set(-400 * DAY)
    world.restart()
    assert await world.controller.retention.sweep() == 0
    await a_finished_job(world)
    world.clock.set(400 * DAY)
    if restarts:
        world.restart()
    assert await world.controller.retention.sweep() == 0
    world.clock.forward(29 * DAY)
    assert await world.controller.retention.sweep() == 0
    world.clock.forward(2 * DAY)
    assert await world.controller.retention.sweep() == 1


async def test_a_clock_that_is_set_before_the_first_sweep_was_behind_all_the_same(world):
    assert await world.controller.retention.sweep() == 0
    world.clock.set(-400 * DAY)
    world.restart()
    sweeping = asyncio.create_task(world.controller.retention.run())
    for _ in range(3):
        await asyncio.sleep(0)
    sweeping.cancel()
    await a_finished_job(world)
    world.clock.set(400 * DAY)
    assert await world.controller.retention.sweep() == 0
