"""One record that cannot be read, decided on or shown is set aside and named; everybody else goes on."""

import sqlite3
from dataclasses import replace

import pytest

from jupyter_gq.controller.records.acts import act_of
from jupyter_gq.controller.records.changes import Change, DetailChange
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.states import Event
from jupyter_gq.domain.workload_detail import Progress
from jupyter_gq.store.protocol import Record
from tests.builders import a_job

from .world import ADMIN, ANN, BOB, World

pytestmark = pytest.mark.asyncio


def damage(world: World, job: str, column: str, document: str) -> None:
    with sqlite3.connect(world.url.removeprefix("sqlite:///")) as connection:
        connection.execute(f"UPDATE workloads SET {column} = ? WHERE id = ?", (document, job))
    connection.close()


def listed(world: World) -> list[str]:
    return [job.id for job in world.controller.job_lists.list_jobs(ADMIN, limit=10, before=None, owner="*").jobs]


@pytest.mark.parametrize("column", ["document", "detail"])
@pytest.mark.parametrize("document", ["", "{", "[]", "null", "[" * 5000, '{"cwd": 3, "id": 3}'])
async def test_a_record_that_cannot_be_read_is_left_out_and_named(world, column, document):
    bad = world.send(ANN, "vision")
    good = world.send(BOB, "nlp", "0.5")
    damage(world, bad, column, document)
    world.restart()
    await world.step(2)
    assert world.job(good).phase == "running"
    assert listed(world) == [good]
    health = world.controller.status.check_health()
    assert (health.status, health.code) == ("degraded", "workloads_set_aside")
    (sentence,) = health.set_aside
    assert sentence.startswith(f"The workload {bad} cannot be read.")


async def test_pages_go_on_behind_records_that_cannot_be_read(world):
    oldest = world.send(ANN, "vision")
    world.clock.forward(1)
    for _ in range(3):
        damage(world, world.send(ANN, "vision"), "document", "{")
        world.clock.forward(1)
    newest = world.send(ANN, "vision")
    first = world.controller.job_lists.list_jobs(ANN, limit=1, before=None)
    second = world.controller.job_lists.list_jobs(ANN, limit=1, before=first.next)
    assert [each.id for each in (*first.jobs, *second.jobs)] == [newest, oldest]


async def test_work_that_breaks_every_decision_is_set_aside_until_it_changes(world):
    world.controller.check_invariants = False  # the bad job breaks them too
    bad = replace(a_job("bad", "vision", id="job-bad", owner="ann"), min_members=None)
    world.controller._context.records.add(Record(workload=bad), act_of(ANN, Action.JOB_SUBMIT, bad, bad.submitted_at))
    jobs = [world.send(ANN, "vision", "0.25"), world.send(BOB, "nlp", "0.5")]
    await world.step(2)
    assert [world.job(job).phase for job in jobs] == ["running", "running"]
    assert len(world.controller.status.check_health().set_aside) == 1
    assert "job-bad: deciding it failed." in world.controller.status.check_health().set_aside[0]
    world.controller._context.records.commit([Change(workload="job-bad", event=Event.CANCELLED)])
    await world.step()
    assert world.controller.status.check_health().status == "ok"


async def test_a_job_that_cannot_be_shown_is_left_out_of_lists_and_its_run_goes_on(world):
    bad, good = world.send(ANN, "vision", "0.25"), world.send(BOB, "nlp", "0.5")
    await world.step(2)
    impossible = DetailChange(progress=Progress(fraction=7.0, text="more than all"))
    world.controller._context.records.change_in_memory(Change(workload=bad, detail=impossible))
    assert listed(world) == [good]
    world.controller.jobs.cancel(BOB, good)
    await world.step(3)
    assert world.controller._context.records.find_unfinished(bad) is not None
    assert world.job(good).phase == "cancelled"
    assert len(world.controller.status.check_health().set_aside) == 1


async def test_a_change_that_is_impossible_keeps_no_other_change(world):
    jobs = [world.send(ANN, "vision"), world.send(BOB, "nlp")]
    impossible = Change(workload=jobs[0], event=Event.SUCCEEDED)
    cancelled = Change(workload=jobs[1], event=Event.CANCELLED)
    world.controller._context.records.commit_each([impossible, cancelled])
    assert [world.job(job).phase for job in jobs] == ["waiting", "cancelled"]
    assert (
        world.controller.status.check_health()
        .set_aside[0]
        .startswith(f"{jobs[0]}: recording it failed. IllegalTransition")
    )


async def test_a_record_that_cannot_be_deleted_does_not_keep_the_others(world):
    jobs = [world.send(ANN, "vision"), world.send(BOB, "nlp")]
    for who, job in zip((ANN, BOB), jobs, strict=True):
        world.controller.jobs.cancel(who, job)
    world.bundles.stuck.add(jobs[0])
    world.clock.forward(31 * 86400)
    assert await world.controller.retention.sweep() == 1
    assert (world.sql.get(jobs[0]) is None, world.sql.get(jobs[1]) is None) == (False, True)
