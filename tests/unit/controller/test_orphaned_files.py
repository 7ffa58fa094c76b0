"""Folders of jobs that no record names are deleted, but only after the time in which a backup may bring one back."""

import logging

import pytest

from jupyter_gq.controller.loop.cleaning import orphaned_files
from jupyter_gq.controller.loop.cleaning.orphaned_files import LEAST_GRACE

from .world import ANN, story_settings

pytestmark = pytest.mark.asyncio

DAY, HOUR = 86400, 3600


async def sweep_every_hour(world, seconds):
    """Sweep as the running service does; return how many folders were deleted."""
    deleted = 0
    for _ in range(int(seconds // HOUR)):
        world.clock.forward(HOUR)
        deleted += await world.controller.retention.orphans.sweep()
    return deleted


async def test_a_folder_without_a_record_is_named_at_once_and_deleted_after_the_grace(world, caplog):
    job = world.send(ANN, "vision")
    world.bundles.kept["lost"] = {}
    with caplog.at_level(logging.WARNING):
        assert await world.controller.retention.orphans.sweep() == 0
        assert "1 folders of jobs have no record: lost." in caplog.text
        assert await sweep_every_hour(world, 30 * DAY - HOUR) == 0
        assert caplog.text.count("have no record") == 1, "it is said once"
        assert await sweep_every_hour(world, HOUR) == 1
    assert "the files of lost, which no record has named for 30 days, were deleted" in caplog.text
    assert set(world.bundles.kept) == {job}


async def test_a_folder_is_kept_for_a_week_at_least_and_for_ever_if_finished_work_is(world):
    world.settings.change(keep_finished=HOUR)
    world.bundles.kept["lost"] = {}
    await world.controller.retention.orphans.sweep()
    assert await sweep_every_hour(world, LEAST_GRACE - HOUR) == 0
    world.settings.change(keep_finished=story_settings(TrainingQueues={"keep_finished_days": 0}).keep_finished)
    assert await sweep_every_hour(world, 10 * DAY) == 0
    world.settings.change(keep_finished=HOUR)
    assert await sweep_every_hour(world, HOUR) == 1


async def test_a_restarted_service_goes_on_counting(world):
    world.settings.change(keep_finished=HOUR)
    world.bundles.kept["lost"] = {}
    await world.controller.retention.orphans.sweep()
    await sweep_every_hour(world, LEAST_GRACE - HOUR)
    world.restart()
    assert await sweep_every_hour(world, HOUR) == 1


async def test_the_grace_begins_again_after_a_restore(world):
    """The list of the restored database is of another time; meanwhile the folder may have had a record."""
    world.settings.change(keep_finished=HOUR)
    world.bundles.kept["lost"] = {}
    await world.controller.retention.orphans.sweep()
    world.clock.forward(LEAST_GRACE + DAY)
    assert await world.controller.retention.orphans.sweep() == 0
    assert await sweep_every_hour(world, LEAST_GRACE - HOUR) == 0
    assert await sweep_every_hour(world, HOUR) == 1


async def test_a_folder_with_a_run_and_no_record_is_kept(world):
    """The run of a job that a restored database lacks; right after a restart no run is known."""
    world.settings.change(keep_finished=HOUR)
    world.bundles.kept["lost"] = {}
    world.controller._context.known_runs.add(("lost", 1))
    await sweep_every_hour(world, LEAST_GRACE + DAY)
    world.restart()
    assert await sweep_every_hour(world, DAY) == 0


async def test_a_record_that_cannot_be_read_keeps_its_folder(world):
    world.settings.change(keep_finished=HOUR)
    job = world.send(ANN, "vision")
    with world.sql._database.write() as connection:
        connection.exec_driver_sql("UPDATE workloads SET document = '{}'")
    assert world.sql.get(job) is None
    assert await sweep_every_hour(world, LEAST_GRACE + DAY) == 0


async def test_one_sweep_deletes_a_bounded_number_and_one_stuck_folder_does_not_keep_the_others(world, monkeypatch):
    monkeypatch.setattr(orphaned_files, "_MOST_DELETED", 3)
    world.settings.change(keep_finished=HOUR)
    world.bundles.kept |= {f"lost{number}": {} for number in range(6)}
    world.bundles.stuck.add("lost1")
    await world.controller.retention.orphans.sweep()
    await sweep_every_hour(world, LEAST_GRACE - HOUR)
    assert await sweep_every_hour(world, HOUR) == 2
    assert await sweep_every_hour(world, HOUR) == 2
    assert await sweep_every_hour(world, HOUR) == 1
    assert set(world.bundles.kept) == {"lost1"}
