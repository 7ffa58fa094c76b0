"""A full disk costs no job: starts wait, and the reason is shown. Jobs and users have limits."""

import threading

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.exit_status import OUTPUTS_LOST
from jupyter_gq.client.models import JobChange
from jupyter_gq.controller.loop.limits import disk_limit, job_room
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import BackendError, LimitReached, StartUnanswered, StorageFull
from jupyter_gq.domain.states import State
from tests.fakes import HasNoRoom, RefusesLate

from .world import ADMIN, ANN, CAROL, World, a_submission

pytestmark = pytest.mark.asyncio


async def test_job_that_cannot_start_for_lack_of_room_waits_and_starts_later(tmp_path):
    world = World(tmp_path, backend=HasNoRoom)
    job = world.send(ANN, "vision")
    await world.step(3)
    assert world.job(job).phase in ("waiting", "paused")
    assert "no room for a start" in world.job(job).sentence
    world.backend.full = False
    world.clock.forward(600)
    await world.step(3)
    assert world.job(job).phase == "running"
    world.close()


async def test_the_owner_of_a_cancelled_job_is_told_that_its_last_outputs_are_lost(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.controller.jobs.cancel(ANN, job)
    world.backend.end(job, Outcome.PAUSED, f"{OUTPUTS_LOST}: the database is full.")
    await world.step(1)
    view = world.job(job)
    assert (view.phase, view.sentence) == ("cancelled", f"Cancelled. {OUTPUTS_LOST}: the database is full.")


async def test_job_whose_files_give_no_answer_at_its_start_waits_until_they_do(tmp_path):
    world = World(tmp_path, backend=RefusesLate)
    world.backend.error = StartUnanswered("The file system gave no answer for 5 s.")
    job = world.send(ANN, "vision")
    await world.step(3)
    assert world.job(job).phase in ("waiting", "paused")
    assert "gave no answer" in world.job(job).sentence
    world.close()


REFUSALS = [StorageFull("No space left on device."), BackendError("The disk is read-only.")]


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
async def test_job_that_is_cancelled_while_its_start_is_refused_stays_cancelled(tmp_path, error):
    world = World(tmp_path, backend=RefusesLate)
    world.backend.error = error
    job = world.send(ANN, "vision")
    world.backend.meanwhile = lambda: world.controller.jobs.cancel(ANN, job)
    await world.step(2)
    assert (world.job(job).phase, world.job(job).sentence) == ("cancelled", "Cancelled.")
    world.close()


@pytest.mark.parametrize("error", REFUSALS, ids=lambda error: type(error).__name__)
async def test_job_that_is_held_while_its_start_is_refused_stays_held(tmp_path, error):
    world = World(tmp_path, backend=RefusesLate)
    world.backend.error = error
    job = world.send(ANN, "vision")
    world.backend.meanwhile = lambda: world.controller.job_changes.change(ANN, job, JobChange(held=True))
    await world.step(3)
    assert world.sql.get(job).workload.state is State.PENDING
    assert world.job(job).held_since is not None
    world.close()


async def test_shortage_refuses_new_jobs_with_a_sentence_and_is_the_reason_in_health(world):
    running = world.send(ANN, "vision", "0.5")
    await world.step(2)
    world.sql._database.shortage = "The disk is full."
    with pytest.raises(StorageFull, match="The disk is full"):
        world.controller.jobs.submit(ANN, a_submission(), None)
    health = world.controller.status.check_health()
    assert (health.status, health.code, health.failures) == ("degraded", "disk_full", ["The disk is full."])
    world.controller.jobs.cancel(ADMIN, running)
    await world.step(10)
    assert world.job(running).phase == "cancelled"


async def test_health_says_that_the_disk_of_the_jobs_is_full(world):
    world.bundles._full = True
    with pytest.raises(StorageFull):
        world.controller.jobs.submit(ANN, a_submission(), None)
    await world.controller.job_room.look()
    health = world.controller.status.check_health()
    assert (health.status, health.code, health.failures) == ("degraded", "disk_full", ["The disk is full."])
    world.bundles._full = False
    await world.controller.job_room.look()
    assert world.controller.status.check_health().code == "ok"


async def test_disk_of_the_jobs_that_does_not_answer_holds_up_neither_health_nor_the_loop(world, monkeypatch):
    answer = threading.Event()
    monkeypatch.setattr(job_room, "ANSWER_WITHIN", 0.01)
    monkeypatch.setattr(world.bundles, "shortage", lambda: str(answer.wait() and ""))
    for _ in range(2):
        with pytest.raises(TimeoutError, match=r"The disk of the jobs has not answered within 0.01 s\."):
            await world.controller.job_room.look()
    assert world.controller.status.check_health().status == "ok"
    answer.set()


async def test_contents_that_are_away_are_not_called_a_full_disk(world):
    world.bundles.away = "The store of large contents does not answer."
    health = world.controller.status.check_health()
    assert (health.code, health.failures) == ("contents_away", ["The store of large contents does not answer."])


async def test_job_above_the_limit_of_disk_space_is_ended_and_others_go_on(world):
    world.settings.change(max_job_disk=MiB(1024))
    large, small = world.send(ANN, "vision", "0.5"), world.send(ANN, "vision", "0.5")
    await world.step(2)
    world.bundles.used = {large: MiB(1536), small: MiB(1024)}
    await world.controller.disk_limit.measure()
    assert (world.job(large).disk, world.job(small).disk) == ("1.5 GiB", "1 GiB")
    await world.step(10)
    assert world.job(large).phase == "cancelled"
    assert "its files take 1.5 GiB of disk, and at most 1 GiB are allowed" in world.job(large).sentence
    assert world.job(small).phase == "running"
    await world.controller.disk_limit.measure()
    assert world.job(large).disk is None, "the job has ended, and its files may be deleted"


async def test_user_above_the_limit_sends_no_new_job_until_files_are_deleted(world):
    world.settings.change(max_user_disk=MiB(1024), max_jobs_per_user=10)
    ended, running = world.send(ANN, "vision", "0.5"), world.send(ANN, "vision", "0.5")
    await world.step(2)
    world.controller.jobs.cancel(ANN, ended)
    await world.step(10)
    world.bundles.used = {ended: MiB(1000), running: MiB(25)}
    await world.controller.disk_limit.measure()
    told = (
        rf"take 1025 MiB .* such as those of {ended} \(1000 MiB\), or ended jobs .* \(jupyter-gq delete {ended}\), and"
    )
    with pytest.raises(LimitReached, match=told):
        world.controller.jobs.submit(ANN, a_submission(), None)
    world.controller.job_deletions.delete(ANN, ended)
    with pytest.raises(LimitReached, match=rf"such as those of {running} \(25 MiB\), .* \(jupyter-gq delete\), and"):
        world.controller.jobs.submit(ANN, a_submission(), None)
    world.send(CAROL, "vision", "0.5")  # another user's files do not count
    await world.step(5)
    assert world.job(running).phase == "running"
    world.bundles.used[ended] = MiB(0)
    await world.controller.disk_limit.measure()
    world.send(ANN, "vision", "0.5")


async def test_disk_space_of_a_user_is_shown_to_the_user_and_that_of_all_to_admins(world):
    world.settings.change(max_user_disk=MiB(2048))
    first, second = world.send(ANN, "vision", "0.5"), world.send(CAROL, "vision", "0.5")
    assert world.controller.job_lists.list_jobs(ANN, limit=10, before=None).disk == "", "nothing was measured"
    world.bundles.used = {first: MiB(512), second: MiB(1024)}
    world.bundles.kept["without a record"] = {}
    await world.controller.disk_limit.measure()
    assert world.controller.job_lists.list_jobs(ANN, limit=10, before=None).disk == "512 MiB of at most 2 GiB"
    everybody = world.controller.job_lists.list_jobs(ADMIN, limit=10, before=None, owner="*")
    assert everybody.disk == "carol 1 GiB, ann 512 MiB; at most 2 GiB each"


async def test_one_round_measures_a_bounded_number_of_jobs_that_do_not_run_the_oldest_first(world, monkeypatch):
    monkeypatch.setattr(disk_limit, "_MOST_OTHERS", 2)
    world.settings.change(max_user_disk=MiB(0))
    jobs = [world.send(ANN, "vision", "0.5") for _ in range(5)]
    found = []
    for used in (1024, 512, 256):
        world.bundles.used = dict.fromkeys(jobs, MiB(used))
        world.clock.forward(60)
        await world.controller.disk_limit.measure()
        found.append(world.controller.job_lists.list_jobs(ANN, limit=10, before=None).disk)
    assert found == ["2 GiB", "3 GiB", "2.5 GiB"]


async def test_limit_of_zero_is_no_limit(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.settings.change(max_job_disk=MiB(0))
    world.bundles.used = {job: MiB(10**9)}
    await world.controller.disk_limit.measure()
    await world.step(2)
    assert world.job(job).phase == "running"
