"""The service over a restored database: no run is ended, whatever has happened since the backup."""

import sqlite3
from contextlib import closing
from dataclasses import replace

import pytest

from jupyter_gq.backends.capabilities import Capabilities
from jupyter_gq.backends.protocol import Observation, Outcome, Phase, hash_token
from jupyter_gq.store.sql import SqlStore
from tests.fakes import FakeBackend

from .world import ANN, BOB, World

pytestmark = pytest.mark.asyncio


class KeepsUnknown(FakeBackend):
    """A machine with a ledger of its runs."""

    capabilities = Capabilities(keeps_unknown=True)


class KnowsNoPlaces(KeepsUnknown):
    """A machine whose ledger does not say where its runs are."""

    async def observe(self):
        return [replace(seen, placement=(), token_hash="") for seen in await super().observe()]


class ForgetsRuns(KeepsUnknown):
    """A cluster: its runs are launched again after a restart."""

    capabilities = Capabilities(keeps_unknown=True, forgetful=True)


def _copy(url, file):
    """Copy a database as `jupyter-gq backup` does, but faster."""
    with closing(sqlite3.connect(url.removeprefix("sqlite:///"))) as old, closing(sqlite3.connect(file)) as new:
        old.backup(new)


class Restored(World):
    """A world whose database can be backed up and restored; the machine does not notice."""

    def back_up(self, folder):
        file = folder / f"backup-{len(list(folder.glob('backup-*')))}.sqlite"
        _copy(self.url, file)
        return file

    def restore(self, file):
        self.sql.close()
        _copy(f"sqlite:///{file}", self.url.removeprefix("sqlite:///"))
        self.sql = SqlStore(self.url)
        self.sql.take_over()
        self.store = self.sql
        self.restart()

    def record(self, job):
        return self.store.get(job)

    async def next_run(self, job):
        """The run of a job is interrupted from outside, and the job starts again."""
        self.backend.end(job, Outcome.PAUSED)
        await self.step(3)


def a_world(folder, backend=KeepsUnknown):
    return Restored(folder, backend=backend)


@pytest.fixture
def world(tmp_path):
    world = a_world(tmp_path)
    yield world
    world.close()


async def goes_on(world, job, run):
    """After two steps the job runs with that run; nothing was started or stopped."""
    launches, stops = len(world.backend.launches), len(world.backend.stops)
    await world.step(2)
    workload = world.record(job).workload
    assert (workload.state.value, workload.run) == ("RUNNING", run)
    assert workload.placement == world.backend.runs[(job, run)].placement
    assert world.record(job).token_hash == hash_token(world.backend.runs[(job, run)].token)
    assert (world.backend.launches[launches:], world.backend.stops[stops:]) == ([], [])
    assert world.backend.alive() == [(job, run)]


@pytest.mark.parametrize("gpus", ["1", "0.25", "0"])
async def test_a_job_that_waits_in_the_backup_and_runs_now_goes_on(world, tmp_path, gpus):
    job = world.send(ANN, "vision", gpus)
    backup = world.back_up(tmp_path)
    await world.step(3)
    world.restore(backup)
    await goes_on(world, job, 1)


@pytest.mark.parametrize("steps", [1, 3])
async def test_a_job_that_runs_in_the_backup_and_runs_now_as_a_later_run_goes_on(world, tmp_path, steps):
    job = world.send(ANN, "vision")
    await world.step(steps)
    backup = world.back_up(tmp_path)
    await world.step(2)
    await world.next_run(job)
    world.restore(backup)
    await goes_on(world, job, 2)
    assert world.record(job).detail.consecutive_losses == 0, "no run was lost"


async def test_a_job_that_is_being_paused_in_the_backup_and_runs_again_goes_on(world, tmp_path):
    job = world.send(ANN, "vision")
    await world.step(3)
    other = world.send(BOB, "nlp", "0.5")
    while world.record(job).workload.state.value != "STOPPING":
        await world.step()
    backup = world.back_up(tmp_path)
    world.controller.jobs.cancel(BOB, other)
    await world.step(6)
    assert world.backend.alive() == [(job, 2)]
    world.restore(backup)
    world.controller.jobs.cancel(BOB, other)
    await goes_on(world, job, 2)


async def test_a_job_that_waits_after_a_later_run_in_the_backup_takes_the_run_that_is_alive(world, tmp_path):
    """A second restore, of what the first one had replaced."""
    job = world.send(ANN, "vision")
    early = world.back_up(tmp_path)
    await world.step(3)
    for _ in range(2):
        await world.next_run(job)
    world.backend.end(job, Outcome.PAUSED)
    await world.step(1)
    late = world.back_up(tmp_path)
    world.backend.runs.clear()
    world.restore(early)
    await world.step(3)
    assert world.backend.alive() == [(job, 1)]
    world.restore(late)
    await goes_on(world, job, 1)


async def test_a_run_that_cannot_be_adopted_is_kept_and_its_job_waits_for_its_end(tmp_path):
    world = a_world(tmp_path, KnowsNoPlaces)
    job = world.send(ANN, "vision")
    backup = world.back_up(tmp_path)
    await world.step(3)
    world.restore(backup)
    await world.step(3, seconds=50)
    assert (world.backend.stops, world.backend.alive()) == ([], [(job, 1)])
    assert world.job(job).sentence.startswith("Run 1 of it is still alive")
    world.backend.end(job)
    await world.step(4, seconds=50)
    assert world.job(job).phase == "running"
    assert world.backend.copies[(job, 1)] == 2
    world.close()


async def test_a_later_run_that_cannot_be_adopted_is_kept_too(tmp_path):
    world = a_world(tmp_path, KnowsNoPlaces)
    job = world.send(ANN, "vision")
    await world.step(3)
    backup = world.back_up(tmp_path)
    await world.next_run(job)
    world.restore(backup)
    await world.step(3)
    assert (world.backend.stops, world.backend.alive()) == ([], [(job, 2)])
    world.close()


async def test_a_cluster_is_told_of_the_run_that_a_record_adopts(tmp_path):
    world = a_world(tmp_path, ForgetsRuns)
    job = world.send(ANN, "vision")
    backup = world.back_up(tmp_path)
    await world.step(3)
    world.restore(backup)
    await world.step(2)
    assert world.record(job).workload.state.value == "RUNNING"
    assert (world.backend.copies[(job, 1)], world.backend.launches[-1].workload.run) == (1, 1)
    assert world.backend.stops == []
    world.close()


async def test_a_run_of_a_job_that_has_ended_in_the_backup_is_stopped_with_the_usual_grace(world, tmp_path):
    """A second restore again: its records say that the job is done."""
    job = world.send(ANN, "vision")
    early = world.back_up(tmp_path)
    await world.step(3)
    world.backend.end(job)
    await world.step(1)
    late = world.back_up(tmp_path)
    world.restore(early)
    await world.step(3)
    world.restore(late)
    await world.step(3)
    assert world.backend.stops == [(job, 1, world.settings.current.grace)]
    assert world.record(job).workload.state.value == "SUCCEEDED"


async def test_work_that_was_about_to_start_on_the_devices_of_an_adopted_run_is_placed_anew(world, tmp_path):
    """In the backup one job was admitted; now the other one runs on that device."""
    first, second = world.send(ANN, "vision"), world.send(ANN, "vision")
    world.fuse.left = 3  # the service dies between the decision and the launch
    assert await world.step_or_die()
    (admitted,) = [job for job in (first, second) if world.record(job).workload.state.value == "ADMITTED"]
    other = second if admitted == first else first
    place = world.record(admitted).workload.placement
    backup = world.back_up(tmp_path)
    await world.step(3)
    world.controller.jobs.cancel(ANN, admitted)
    await world.step(4)
    assert world.record(other).workload.placement == place
    world.restore(backup)
    await world.step(3)
    assert world.backend.alive() == [(other, 1)]
    assert world.record(admitted).workload.state.value == "PENDING"


async def test_a_record_takes_the_place_at_which_its_run_really_is(world, tmp_path):
    job = world.send(ANN, "vision", "0.25")
    await world.step(3)
    (task,) = world.record(job).workload.placement
    moved = (replace(task, devices=(world.nodes[0].devices[0].id,)),)
    assert moved != (task,)
    world.backend.runs[(job, 1)].placement = moved
    await world.step()
    assert world.record(job).workload.placement == moved


async def test_an_observation_names_each_device_once(world):
    job = world.send(ANN, "vision", "0.25")
    await world.step(3)
    (task,) = world.record(job).workload.placement
    seen = Observation(workload=job, run=1, phase=Phase.RUNNING, since=0, placement=(task, task))
    assert seen.devices == task.devices
