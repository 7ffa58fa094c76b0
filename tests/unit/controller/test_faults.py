"""A backend that does not do what it is told: the owner reads why, and nobody else suffers."""

import asyncio
import json

import pytest

from jupyter_gq.app import main
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import Heartbeat
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.scheduling.wording import UNOBSERVED
from tests.fakes import (
    CannotBeObserved,
    DiesDuringStart,
    FinishesAnyway,
    NeverStops,
    OneLaunchIsDefective,
    RefusesEveryLaunch,
    StopsTooLate,
)
from tests.patience import scaled

from .world import ANN, BOB, play

UNSEEN = (
    "Waiting: the state of running work is unknown at the moment, so nothing is started or ended; running work goes on."
)


class BlindAndNeverStops(CannotBeObserved, NeverStops):
    """Both, one after the other."""


def test_a_refused_launch_fails_the_job_with_the_reason_and_frees_the_device(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step()
        view = world.job(job)
        assert (view.phase, view.sentence) == (
            "failed",
            "The start failed: the disk of the job folder is read-only",
        )
        assert world.controller.overview.list_devices(ANN).devices[1].used == "0"

    play(tmp_path, RefusesEveryLaunch, story)


def test_a_job_that_dies_while_it_starts_has_failed(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(2)
        assert (world.job(job).phase, world.job(job).sentence) == ("failed", "The kernel died while it started.")

    play(tmp_path, DiesDuringStart, story)


def test_a_run_that_ignores_the_stop_holds_its_device_and_is_told_again(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(2)
        other = world.send(BOB, "nlp", "0.5")
        await world.step(20)
        assert len(world.backend.stops) == 1
        assert world.backend.stops[0][2] == pytest.approx(30, abs=1)
        await world.step(60)
        assert world.job(job).phase == "pausing"
        assert world.job(job).sentence.startswith("Pausing: nlp needed its 0.5 GPU back."), "it has not stopped yet"
        assert world.job(other).phase == "waiting"
        assert "digits (1 GPU)" in reveal(world.job(other).sentence)
        assert len(world.backend.stops) > 2
        assert world.backend.stops[-1][2] == 0

    play(tmp_path, NeverStops, story)


def test_a_run_that_saves_too_late_is_paused_all_the_same(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(2)
        world.send(BOB, "nlp", "0.5")
        await world.step(20)
        assert world.job(job).phase == "pausing"
        await world.step(20)
        assert world.job(job).phase == "paused"

    play(tmp_path, StopsTooLate, story)


def test_a_job_that_finishes_although_it_was_told_to_pause_has_finished(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(2)
        world.send(BOB, "nlp", "0.5")
        await world.step(3)
        assert world.job(job).phase == "done"

    play(tmp_path, FinishesAnyway, story)


def test_a_job_that_finishes_at_its_maximum_running_time_is_done(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision", max_seconds=100)
        await world.step(3)
        world.clock.forward(100)
        await world.step(3)
        assert [stopped for stopped, _, _ in world.backend.stops] == [job]
        assert world.job(job).phase == "done"
        assert "maximum running time" not in world.job(job).sentence

    play(tmp_path, FinishesAnyway, story)


def test_nothing_is_concluded_from_a_backend_that_cannot_be_observed(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(2)
        world.backend.blind = True
        second = world.send(BOB, "nlp", "0.5")
        await world.step(5)
        assert world.job(job).phase == "running", "nobody is told to stop who cannot hear it"
        assert (world.job(second).phase, world.job(second).sentence) == ("waiting", UNSEEN)
        world.backend.blind = False
        await world.step(4)
        assert (world.job(job).phase, world.job(second).phase) == ("paused", "running")
        assert all(count == 1 for count in world.backend.copies.values())

    play(tmp_path, CannotBeObserved, story)


def test_nothing_is_launched_while_the_backend_cannot_be_observed(tmp_path):
    """It may be running already: only a look can tell."""

    async def story(world):
        world.backend.blind = True
        job = world.send(ANN, "vision")
        await world.step(3)
        assert (world.job(job).phase, world.job(job).sentence) == ("waiting", UNSEEN)
        assert not world.backend.launches
        health = world.controller.status.check_health()
        assert (health.status, health.runs) == ("degraded", UNOBSERVED)
        assert world.controller.status.explain_unready() == "", "it answers, and knows what it knew"
        world.backend.blind = False
        await world.step(2)
        assert world.controller.status.check_health().runs == "ok"
        assert world.job(job).phase == "running"

    play(tmp_path, CannotBeObserved, story)


def test_the_live_state_says_what_cannot_be_seen_and_replays_to_the_same_decision(tmp_path, capsys):
    async def story(world):
        world.backend.blind = True
        world.send(ANN, "vision")
        await world.step()
        document = world.controller.overview.read_state()
        assert document["snapshot"]["unobserved"] == ["TRAINING"]
        file = tmp_path / "state.json"
        file.write_text(json.dumps(document))
        assert main(["replay", str(file)]) == 0, capsys.readouterr().out

    play(tmp_path, CannotBeObserved, story)


def test_who_would_have_started_stands_in_line_before_those_who_wait(tmp_path):
    async def story(world):
        world.backend.blind = True
        line = [world.send(ANN, "vision", gpus) for gpus in ("0.25", "0.25", "0.25", "1", "1")]
        others = [world.send(BOB, "nlp", "1"), world.send(BOB, "nlp", "1")]
        await world.step()
        assert [world.job(job).position for job in line] == [1, 2, 3, 4, 5]
        assert [world.job(job).sentence for job in line[:3]] == [UNSEEN] * 3
        assert [world.job(job).position for job in others] == [1, 2]

    play(tmp_path, CannotBeObserved, story)


def test_the_grace_begins_when_a_run_can_be_told(tmp_path):
    async def story(world):
        job = world.send(ANN, "vision")
        await world.step(2)
        world.backend.blind = True
        world.controller.jobs.cancel(ANN, job)
        await world.step(2, seconds=60)
        assert world.backend.stops == []
        world.backend.blind = False
        await world.step(2, seconds=2)
        ((_, _, grace),) = world.backend.stops
        assert grace == 5, "all of it"
        await world.step(10, seconds=2)
        assert [grace for *_, grace in world.backend.stops] == [5, 0], "and then it is over"

    play(tmp_path, BlindAndNeverStops, story)


@pytest.mark.asyncio
async def test_a_job_that_vanishes_comes_back_three_times_then_fails(world):
    job = world.send(ANN, "vision")
    for run in range(1, 4):
        await world.step(2)
        assert (world.job(job).phase, world.job(job).run) == ("running", run)
        world.backend.end(job, Outcome.LOST, "The machine was restarted.")
        await world.controller.step()
        assert world.sql.get(job).detail.sentence in {
            "",  # it has already been admitted again
            f"The machine was restarted. The job starts again by itself ({run} of 3).",
        }
    await world.step(2)
    world.backend.end(job, Outcome.LOST, "The machine was restarted.")
    await world.step(2)
    assert world.job(job).phase == "failed"
    assert (
        world.job(job).sentence == "The machine was restarted, for the 4th time in a row. The job is not started again."
    )


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("lasted", "saves", "phase"), [(700, True, "running"), (500, True, "failed"), (700, False, "failed")]
)
async def test_a_job_that_comes_further_between_may_vanish_again_and_again(world, lasted, saves, phase):
    job = world.send(ANN, "vision")
    await world.step(2)
    for _ in range(5):
        world.clock.forward(lasted)
        if saves:
            world.controller.jobs.record_heartbeat(
                job, Heartbeat(run=world.job(job).run, saved_at=world.clock.now() - 30)
            )
        world.backend.end(job, Outcome.LOST, "The node n1 is gone.")
        await world.step(3)
        if world.job(job).phase == "failed":
            break
    assert world.job(job).phase == phase
    if phase == "running":
        assert world.job(job).run == 6
        assert world.sql.get(job).detail.consecutive_losses == 1


@pytest.mark.asyncio
async def test_a_run_that_the_backend_does_not_know_any_more_is_lost(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.backend.runs.clear()
    await world.step(3)
    assert (world.job(job).phase, world.job(job).run) == ("running", 2)
    assert world.sql.get(job).detail.consecutive_losses == 1


@pytest.mark.asyncio
async def test_being_interrupted_from_outside_is_not_held_against_a_job(world):
    """The machine was shut down in an orderly way: the job saved its state."""
    job = world.send(ANN, "vision")
    for _ in range(5):
        await world.step(3)
        world.backend.end(job, Outcome.PAUSED)
    await world.step(3)
    assert (world.job(job).phase, world.job(job).run) == ("running", 6)


@pytest.mark.asyncio
async def test_a_run_that_somebody_else_ended_on_purpose_is_not_held_against_a_job(world):
    """Such as a pod that was deleted by force, or whose node was given a taint."""
    job = world.send(ANN, "vision")
    for _ in range(5):
        await world.step(3)
        world.backend.runs[(job, world.job(job).run)].disrupted = True
        world.backend.end(job, Outcome.LOST, "The pod was deleted by somebody else.")
    await world.step(3)
    assert (world.job(job).phase, world.job(job).run) == ("running", 6)
    assert world.sql.get(job).detail.consecutive_losses == 0


@pytest.mark.asyncio
async def test_a_failing_step_does_not_end_the_loop(world, caplog):
    """It is logged once, shown in the health, and the loop goes on when the cause is gone."""

    class Breaks:
        def measure(self, shares):
            raise RuntimeError("a defect")

    await world.start_server(ANN, "0.5")
    world.clock.forward(10)
    context = world.controller._context
    sound, context.meter = context.meter, Breaks()
    task = asyncio.create_task(world.controller.run())

    async def until_it_is(status: str) -> None:
        async with asyncio.timeout(scaled(20)):
            while world.controller.status.check_health().status != status:
                world.clock.forward(10)
                world.controller.wake()
                await asyncio.sleep(0)

    await until_it_is("degraded")
    for _ in range(3):
        await world.controller._run_guarded("a step", world.controller.step())
    assert sum("a step failed" in record.getMessage() for record in caplog.records) == 1
    context.meter = sound
    await until_it_is("ok")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def test_one_workload_that_cannot_be_handled_keeps_nobody_waiting_and_nobody_from_hearing(tmp_path):
    """A defect of a backend with one job; the next job is launched in the same step, learnt of and told of."""

    async def story(world):
        hurt = world.send(ANN, "vision", "0.5")
        world.backend.hurt = hurt
        well = world.send(BOB, "nlp", "0.5")
        revisions = []
        for _ in range(3):
            waiter = asyncio.create_task(world.controller._changed.wait(scaled(60)))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="a defect"):
                await world.controller.step()
            async with asyncio.timeout(scaled(5)):
                await waiter  # who waits for an order is told in each step
            revisions.append(world.controller._context.records.revision)
            world.clock.forward(1)
        assert world.backend.copies == {(well, 1): 1}
        assert (world.job(hurt).phase, world.job(well).phase) == ("starting", "running")
        assert world.controller.forecasts._revision == revisions[-1], "what ran was learnt of"
        before = world.sql.get(hurt)
        with pytest.raises(RuntimeError):
            await world.controller.step()
        assert (world.controller._context.records.revision, world.sql.get(hurt)) == (revisions[-1], before)
        (tried,) = {launch.token for launch in world.backend.tried}
        world.backend.hurt = ""
        await world.step(2)
        assert (world.job(hurt).phase, world.controller.pods.find_task(hurt, tried)) == ("running", 0)

    play(tmp_path, OneLaunchIsDefective, story)
