"""Logs have limits for each job and each user: the oldest lose their beginning first, and the reader is told."""

import pytest

from jupyter_gq.backends.bundles import LogName
from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.controller.loop.limits import log_limits
from jupyter_gq.domain.errors import UnusableFile

from .world import ANN, CAROL

pytestmark = pytest.mark.asyncio

MIB = 1024 * 1024


async def ended_job(world, user=ANN, size=MIB):
    """Return a job of the user that has ended and left a log of this size."""
    job = world.send(user, "vision", "0.5")
    await world.step(2)
    world.bundles.logs[job] = "x" * size
    world.controller.jobs.cancel(user, job)
    await world.step(10)
    world.clock.forward(60)
    return job


def kept(world, *jobs):
    return [len(world.bundles.logs[job]) - world.bundles.dropped.get(job, 0) for job in jobs]


async def test_a_running_job_loses_the_beginning_of_a_log_that_is_too_long(world):
    world.settings.change(max_log_bytes=2 * MIB)
    long, short = world.send(ANN, "vision", "0.5"), world.send(ANN, "vision", "0.5")
    await world.step(2)
    world.bundles.logs |= {long: "x" * 5 * MIB, short: "x" * MIB}
    await world.controller.log_limits.cut_running()
    assert kept(world, long, short) == [2 * MIB, MIB]
    assert "3 MiB of this log are dropped" in world.controller.logs.describe(ANN, long).note
    assert world.controller.logs.describe(ANN, short).complete


async def test_above_the_limit_of_a_user_the_jobs_that_ended_first_keep_only_their_end(world):
    world.settings.change(max_user_log_bytes=3 * MIB)
    jobs = [await ended_job(world) for _ in range(3)]
    other = await ended_job(world, CAROL, 2 * MIB)
    assert await world.controller.log_limits.sweep() == 0, "three of at most three MiB"
    running = world.send(ANN, "vision", "0.5")
    await world.step(2)
    world.bundles.logs[running] = "x" * MIB
    await world.controller.database_limit.measure()
    dropped = await world.controller.log_limits.sweep()
    end = log_limits.KEPT_END
    assert dropped == 2 * (MIB - end), "one alone leaves 64 KiB too much"
    assert kept(world, *jobs, running, other) == [end, end, MIB, MIB, 2 * MIB]
    assert set(world.controller._context.kept_sizes) == {jobs[2], running, other}, "what was cut is measured again"
    assert await world.controller.log_limits.sweep() == 0
    assert "3 MiB of the logs of one user" in world.controller.logs.describe(ANN, jobs[0]).note


async def test_a_job_that_ended_with_too_long_a_log_is_cut_by_the_sweep(world):
    world.settings.change(max_log_bytes=MIB)
    job = await ended_job(world, size=3 * MIB)
    await world.controller.log_limits.sweep()
    assert kept(world, job) == [MIB]


async def test_a_log_that_cannot_be_cut_stays_and_the_others_are_cut(world, caplog):
    world.settings.change(max_user_log_bytes=MIB)
    stuck, cut = [await ended_job(world) for _ in range(2)]
    real = world.bundles.cut_log

    def cut_log(log, keep):
        if log.job == stuck:
            raise UnusableFile("log", "Operation not supported")
        return real(log, keep)

    world.bundles.cut_log = cut_log
    with caplog.at_level("INFO"):
        await world.controller.log_limits.sweep()
    assert kept(world, stuck, cut) == [MIB, log_limits.KEPT_END]
    assert f"the log of {stuck} cannot be cut" in caplog.text


class PartsArrive:
    """Files in a store; after each reading of the index of a log, the next part of that log arrives."""

    def __init__(self, store):
        self._store, self.arrive = store, lambda: None

    def __getattr__(self, name):
        return getattr(self._store, name)

    def file(self, workload, name):
        content, arrive = self._store.file(workload, name), self.arrive
        if name == "logs.json":
            self.arrive = lambda: None
            arrive()
            self.arrive = arrive
        return content


async def test_the_sweep_loses_no_part_that_a_pod_sends_meanwhile(world):
    files = PartsArrive(world.sql)
    world.bundles = bundles = StoredBundles(files, world.sql)
    world.restart()
    world.settings.change(max_log_bytes=MIB, max_user_log_bytes=MIB)
    job = world.send(ANN, "vision", "0.5")
    await world.step(2)
    log, sent = LogName(job=job, owner="ann", run=1, task=0), []

    def arrive():
        bundles.append_log(log, sum(sent), "x" * MIB, 10 * MIB)
        sent.append(MIB)

    arrive()
    arrive()
    files.arrive = arrive
    await world.controller.log_limits.sweep()
    files.arrive = lambda: None
    assert len(sent) > 2
    assert bundles.log_end(log) == bundles.log_span(log).kept == sum(sent), "only the next part cuts it"
