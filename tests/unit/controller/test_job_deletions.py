"""Users delete their ended jobs, admins those of everybody: at once for all who look, with all that was kept."""

import asyncio
import sqlite3

import pytest

from jupyter_gq.controller.disk_uses import DiskUse
from jupyter_gq.domain.amount import Instant, MiB
from jupyter_gq.domain.audit import AuditFilter
from jupyter_gq.domain.errors import Conflict, LimitReached, NotFound
from tests.patience import eventually

from .world import ADMIN, ANN, CAROL, World, a_submission

pytestmark = pytest.mark.asyncio


def piece(seq: int, size: int) -> dict:
    return {"seq": seq, "op": "append", "cell": "c1", "output": {"output_type": "stream", "text": "x" * size}}


async def an_ended_job(world: World, caller=ANN, size: int = 600) -> str:
    job = world.send(caller, "vision", "0.5")
    await world.step(3)
    world.controller.jobs.append_outputs(job, [piece(1, size)])
    world.controller.jobs.cancel(caller, job)
    await world.step(10)
    return job


def kept(world: World, job: str) -> bool:
    return world.sql.get(job) is not None or bool(world.sql.last_seqs([job])[job]) or job in world.bundles.kept


def replace_document(world: World, job: str, document: str) -> str:
    """Write the document of a job's record, as it is in the database, and return the earlier one."""
    with sqlite3.connect(world.url.removeprefix("sqlite:///")) as connection:
        (before,) = connection.execute("SELECT document FROM workloads WHERE id = ?", (job,)).fetchone()
        connection.execute("UPDATE workloads SET document = ? WHERE id = ?", (document, job))
    connection.close()
    return before


async def test_a_deleted_job_is_hidden_at_once_and_gone_with_all_that_was_kept(world):
    job, other = await an_ended_job(world), await an_ended_job(world)
    assert world.controller.job_deletions.delete(ANN, job).id == job
    with pytest.raises(NotFound):
        world.job(job)
    assert [each.id for each in world.controller.job_lists.list_jobs(ANN, limit=10, before=None).jobs] == [other]
    assert kept(world, job)
    await world.controller.retention.sweep_requested()
    assert not kept(world, job)
    assert kept(world, other)
    with pytest.raises(NotFound):
        world.controller.job_deletions.delete(ANN, job)


async def test_the_running_service_deletes_it_without_waiting_for_its_hourly_sweep(world):
    job = await an_ended_job(world)
    running = asyncio.create_task(world.controller.run())
    await asyncio.sleep(0)
    world.controller.job_deletions.delete(ANN, job)
    await eventually(lambda: not kept(world, job))
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_job_that_has_not_ended_is_refused_with_what_to_do(world):
    job = world.send(ANN, "vision")
    with pytest.raises(Conflict, match=r"is waiting, and only jobs that have ended can be deleted\. Cancel it first"):
        world.controller.job_deletions.delete(ANN, job)
    await world.step(3)
    with pytest.raises(Conflict, match="is running, and only jobs that have ended"):
        world.controller.job_deletions.delete(ANN, job)
    world.controller.jobs.cancel(ANN, job)
    await world.step(10)
    world.controller._context.known_runs.add((job, 1))
    with pytest.raises(Conflict, match=r"its last outputs may not be stored yet\. Try again in a minute"):
        world.controller.job_deletions.delete(ANN, job)


async def test_the_key_of_a_job_that_is_being_deleted_makes_no_job_until_that_job_is_gone(world):
    first, _ = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    world.controller.jobs.cancel(ANN, first.id)
    await world.step(10)
    world.controller.job_deletions.delete(ANN, first.id)
    with pytest.raises(Conflict, match=rf"{first.id}.*'key-1' made, is being deleted\. Send a new job with a new key"):
        world.controller.jobs.submit(ANN, a_submission(), "key-1")
    await world.controller.retention.sweep_requested()
    again, created = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    assert (created, again.id != first.id) == (True, True)


async def test_nobody_else_but_an_admin_deletes_it_and_the_audit_log_says_who_did(world):
    first, second = await an_ended_job(world), await an_ended_job(world)
    with pytest.raises(NotFound):
        world.controller.job_deletions.delete(CAROL, first)
    world.controller.job_deletions.delete(ANN, first)
    world.controller.job_deletions.delete(ADMIN, second)
    entries = world.sql.audit(AuditFilter(action="job.delete"))
    assert [(each.actor, each.object, each.owner, each.details.get("as_admin")) for each in entries] == [
        ("root", second, "ann", True),
        ("ann", first, "ann", None),
    ]


async def test_a_killed_service_goes_on_with_it_and_shows_no_part_of_it(world):
    jobs = [await an_ended_job(world) for _ in range(2)]
    for job in jobs:
        world.controller.job_deletions.delete(ANN, job)
    world.bundles.delete(jobs[0], "ann")
    assert not world.sql.delete_portion(jobs[0]), "its output is gone, and then the service"
    while not world.sql.delete_portion(jobs[1]):
        continue
    world.restart()
    for job in jobs:
        with pytest.raises(NotFound):
            world.job(job)
    await world.controller.retention.sweep_requested()
    assert not kept(world, jobs[0])
    world.restart()
    assert world.controller._context.deletions.requested == ()


async def test_a_job_whose_files_cannot_be_deleted_stays_hidden_and_is_tried_again(world):
    job = await an_ended_job(world)
    world.bundles.stuck.add(job)
    world.controller.job_deletions.delete(ANN, job)
    await world.controller.retention.sweep_requested()
    with pytest.raises(NotFound):
        world.job(job)
    world.bundles.stuck.clear()
    await world.controller.retention.sweep_requested()
    assert not kept(world, job)


async def test_a_job_that_cannot_be_deleted_is_logged_once_for_each_cause(world, caplog):
    job = await an_ended_job(world)
    world.bundles.stuck.add(job)
    world.controller.job_deletions.delete(ANN, job)
    for _ in range(3):
        await world.controller.retention.sweep_requested()
    assert caplog.messages.count(f"{job} could not be deleted; it is tried again within an hour") == 1


async def test_a_job_whose_record_cannot_be_read_is_deleted_once_it_can(world):
    job = await an_ended_job(world)
    world.controller.job_deletions.delete(ANN, job)
    record = replace_document(world, job, "{")
    await world.controller.retention.sweep_requested()
    assert world.controller._context.deletions.requested == (job,)
    replace_document(world, job, record)
    await world.controller.retention.sweep_requested()
    assert not kept(world, job)


async def test_a_user_at_the_limit_of_the_database_is_told_what_to_delete_and_sends_again_afterwards(world):
    large, small = await an_ended_job(world, size=3000), await an_ended_job(world)
    running = world.send(ANN, "vision", "0.5")
    await world.step(3)
    world.controller.jobs.append_outputs(running, [piece(1, 9000)])
    await world.controller.database_limit.measure()
    world.settings.change(max_user_database_bytes=11_000)
    with pytest.raises(LimitReached, match=rf"jupyter-gq delete {large} frees 3 KiB; or ask your administrator"):
        world.send(ANN, "vision")
    world.controller.job_deletions.delete(ANN, large)
    await world.controller.retention.sweep_requested()
    world.send(ANN, "vision")
    assert kept(world, small)


async def test_a_job_that_is_being_deleted_is_not_named_as_one_to_delete(world):
    large, small = await an_ended_job(world, size=3000), await an_ended_job(world, size=2000)
    await world.controller.database_limit.measure()
    world.settings.change(max_user_database_bytes=100)
    world.controller.job_deletions.delete(ANN, large)
    with pytest.raises(LimitReached, match=rf"jupyter-gq delete {small} frees"):
        world.send(ANN, "vision")


async def test_the_disk_space_of_a_deleted_job_does_not_count_until_the_next_measurement(world):
    job = await an_ended_job(world)
    uses = world.controller._context.disk_uses
    uses.record(job, DiskUse(owner="ann", used=MiB(7), measured_at=Instant(0)))
    world.controller.job_deletions.delete(ANN, job)
    await world.controller.retention.sweep_requested()
    assert uses.of_user("ann") == 0


async def test_jobs_that_are_being_deleted_take_no_place_of_others_in_the_newest_ones(world):
    old, *new = [await an_ended_job(world) for _ in range(4)]
    for job in new:
        world.controller.job_deletions.delete(ANN, job)
    lists = world.controller.job_lists
    for found in (lists.list_newest(ANN, limit=1), lists.list_jobs(ANN, limit=1, before=None)):
        assert ([each.id for each in found.jobs], found.next) == ([old], None)


async def test_a_page_ends_with_a_job_that_the_next_page_may_begin_behind(world):
    first, hidden, third = [await an_ended_job(world) for _ in range(3)]
    world.controller.job_deletions.delete(ANN, hidden)
    page = world.controller.job_lists.list_jobs(ANN, limit=1, before=None)
    assert ([each.id for each in page.jobs], page.next) == ([third], third)
    page = world.controller.job_lists.list_jobs(ANN, limit=1, before=page.next)
    assert ([each.id for each in page.jobs], page.next) == ([first], None)


async def test_without_an_ended_job_of_which_something_is_kept_the_limit_says_when_jobs_can_be_deleted(world):
    running, cancelled = world.send(ANN, "vision", "0.5"), world.send(ANN, "vision")
    world.controller.jobs.cancel(ANN, cancelled)
    await world.step(3)
    world.controller.jobs.append_outputs(running, [piece(1, 9000)])
    await world.controller.database_limit.measure()
    world.settings.change(max_user_database_bytes=1000)
    with pytest.raises(LimitReached, match=r"Jobs can be deleted once they have ended \(jupyter-gq delete\); or ask"):
        world.send(ANN, "vision")


async def test_the_lists_say_what_the_database_keeps_beside_the_limit(world):
    world.settings.change(max_user_database_bytes=4 * 2**20)
    await an_ended_job(world, size=3 * 2**20)
    await an_ended_job(world, CAROL, size=2**20)
    await world.controller.database_limit.measure()
    lists = world.controller.job_lists
    assert lists.list_jobs(ANN, limit=1, before=None).database == "3 MiB of at most 4 MiB"
    assert lists.list_newest(ANN, limit=1).database == "3 MiB of at most 4 MiB"
    everybody = lists.list_jobs(ADMIN, limit=1, before=None, owner="*").database
    assert everybody == "ann 3 MiB, carol 1 MiB; at most 4 MiB each"
    total, fullest = lists.count_kept()
    assert (total // 2**20, round(fullest, 2)) == (4, 0.75)
    world.settings.change(max_user_database_bytes=0)
    assert lists.count_kept()[1] == 0
