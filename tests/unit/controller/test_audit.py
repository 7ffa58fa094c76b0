"""The audit log says who did what to whom, when and why, and holds no secret."""

import json
import logging

import pytest

from jupyter_gq.controller.settings.last_good import LastGood
from jupyter_gq.controller.settings.policy_changes import describe_changes
from jupyter_gq.domain.audit import CONFIG_FILE, SCHEDULER, Action, AuditEntry, AuditFilter
from jupyter_gq.domain.errors import Conflict, StorageFull
from tests.fakes import StoreIsFull

from .world import ADMIN, ANN, BOB, CAROL, World, a_submission, story_settings

DAY = 86400


def entries(world, **wanted):
    """The entries, oldest first."""
    return world.sql.audit(AuditFilter(**wanted))[::-1]


def told(world, **wanted):
    return [(entry.actor, entry.action, entry.object, entry.owner) for entry in entries(world, **wanted)]


@pytest.mark.asyncio
async def test_a_job_is_recorded_when_it_is_sent_and_cancelled_with_who_did_it(world):
    job = world.send(ANN, "vision", "0.5")
    world.clock.forward(7)
    world.controller.jobs.cancel(ADMIN, job)
    sent, cancelled = entries(world)
    assert (sent.actor, sent.action, sent.object, sent.owner) == ("ann", Action.JOB_SUBMIT, job, "ann")
    assert sent.details == {"name": "digits", "gpus": "0.5", "queue": "vision", "tasks": 1, "priority": 0}
    assert (cancelled.actor, cancelled.action, cancelled.owner) == ("root", Action.JOB_CANCEL, "ann")
    assert cancelled.details["as_admin"] is True
    assert cancelled.at == sent.at + 7
    with pytest.raises(Conflict):
        world.controller.jobs.cancel(ANN, job)
    assert len(entries(world)) == 2, "a refused act is no act"


@pytest.mark.asyncio
async def test_a_job_that_only_an_administrator_may_send_is_marked(world):
    world.send(ADMIN, "vision", "0.25")
    world.send(ANN, "vision", "0.25")
    assert [entry.details.get("as_admin") for entry in entries(world)] == [True, None]
    member = type(ADMIN)(user="root", groups=ANN.groups, admin=True)
    world.send(member, "vision", "0.25")
    world.send(member, "vision", "0.25", priority=1)
    assert [entry.details.get("as_admin") for entry in entries(world)[2:]] == [None, True]


@pytest.mark.asyncio
async def test_a_pause_is_recorded_with_its_reason_and_for_whom(world):
    victim = world.send(ANN, "vision")
    await world.step(3)
    taker = world.send(BOB, "nlp", "0.5")
    await world.step(3)
    (evicted,) = entries(world, action=Action.JOB_EVICT)
    assert (evicted.actor, evicted.object, evicted.owner) == (SCHEDULER, victim, "ann")
    assert (evicted.details["reason"], evicted.details["for_workload"]) == ("RECLAIMED", taker)
    assert evicted.details["sentence"] == world.job(victim).eviction.sentence


@pytest.mark.asyncio
async def test_the_whole_life_of_a_notebook_is_recorded(world):
    ticket = await world.start_server(CAROL, "0.5")
    world.controller.tickets.close(CAROL, ticket.id)
    lapsing = world.ask(ANN, "0.5", "second")
    world.clock.forward(61)
    world.controller.tickets.expire()
    assert told(world, owner="carol") == [
        ("carol", Action.NOTEBOOK_REQUEST, ticket.id, "carol"),
        ("carol", Action.NOTEBOOK_RELEASE, ticket.id, "carol"),
    ]
    assert told(world, owner="ann", actor=SCHEDULER) == [
        (SCHEDULER, Action.NOTEBOOK_RELEASE, lapsing.id, "ann"),
    ]


@pytest.mark.asyncio
async def test_drains_are_recorded_with_the_administrator(world):
    await world.controller.drains.begin(ADMIN, "1")
    await world.controller.drains.end(ADMIN, "1")
    device = world.nodes[0].devices[1].id
    assert told(world) == [("root", Action.DRAIN_BEGIN, device, None), ("root", Action.DRAIN_END, device, None)]
    assert entries(world)[0].details == {"node": "box"}


@pytest.mark.asyncio
async def test_an_act_and_its_entry_are_kept_together_or_not_at_all(tmp_path):
    world = World(tmp_path)
    world.store = StoreIsFull(world.sql)
    world.restart()
    with pytest.raises(StorageFull):
        world.send(ANN, "vision")
    assert entries(world) == ()
    world.close()


@pytest.mark.asyncio
async def test_no_code_no_environment_and_no_token_is_in_the_audit_log_or_in_the_service_log(world, caplog):
    caplog.set_level(logging.DEBUG)
    submission = a_submission("vision")
    manifest = submission.bundle.manifest.model_copy(update={"environment": {"AWS_KEY": "hunter2"}})
    notebook = {"cells": [{"source": "password = 'hunter2'"}]}
    bundle = submission.bundle.model_copy(update={"manifest": manifest, "notebook": notebook})
    world.controller.jobs.submit(ANN, submission.model_copy(update={"bundle": bundle}), "key-hunter2")
    await world.step(3)
    written = json.dumps([dict(entry.details) for entry in entries(world)])
    written += json.dumps([vars(record) for record in caplog.records], default=str)
    assert "digits" in written
    assert "ADMITTED" in written
    assert "hunter2" not in written
    assert "secret-" not in written


@pytest.mark.asyncio
async def test_entries_go_after_their_time_and_zero_keeps_them_for_ever(world):
    world.send(ANN, "vision")
    world.settings.change(keep_audit=story_settings(AuditLog={"keep_days": 0}).keep_audit)
    world.clock.forward(4000 * DAY)
    assert await world.controller.retention.sweep_audit() == 0
    world.settings.change(keep_audit=story_settings(AuditLog={"keep_days": 2}).keep_audit)
    world.send(ANN, "vision")
    assert await world.controller.retention.sweep_audit() == 1
    assert len(entries(world)) == 1


def a_policy(**sections):
    return LastGood(sections=sections, files={"/etc/hub.py": []})


@pytest.mark.asyncio
async def test_a_change_of_the_settings_is_recorded_once_with_the_old_and_the_new_value(world):
    before = a_policy(FixedQuota={"default": "0.25"}, LocalBackend={"env_keep": ["TOKEN"]})
    world.settings.last_good = before
    await world.controller.reload_settings()
    world.restart()
    await world.controller.reload_settings()
    world.settings.last_good = a_policy(FixedQuota={"default": "0.5"}, LocalBackend={"env_keep": ["SECRET"]})
    await world.controller.reload_settings()
    await world.controller.reload_settings()
    first, second = entries(world)
    assert (second.actor, second.action, second.object) == (CONFIG_FILE, Action.SETTINGS_CHANGE, "/etc/hub.py")
    assert first.details == {"changes": ['c.FixedQuota.default: not set -> "0.25"', "c.LocalBackend.env_keep: changed"]}
    assert second.details == {"changes": ['c.FixedQuota.default: "0.25" -> "0.5"', "c.LocalBackend.env_keep: changed"]}


def test_changes_of_single_queues_are_named_and_a_long_list_is_cut():
    queues = {"vision": {"quota": 1, "groups": ["vision", "old"]}, "nlp": {"quota": 1, "users": ["bob"]}}
    after = {"vision": {"quota": 2, "groups": ["vision", "new", "robots"]}, "speech": {}}
    assert describe_changes({"TrainingQueues": {"queues": queues}}, {"TrainingQueues": {"queues": after}}) == [
        "c.TrainingQueues.queues.nlp.quota: 1 -> not set",
        'c.TrainingQueues.queues.nlp.users: ["bob"] -> not set',
        "c.TrainingQueues.queues.speech: not set -> {}",
        "c.TrainingQueues.queues.vision.groups: added new, robots; removed old",
        "c.TrainingQueues.queues.vision.quota: 1 -> 2",
    ]
    many = {"FixedQuota": {"users": {f"u{number}": 1 for number in range(250)}}}
    assert describe_changes({}, many)[-1] == "... and 50 more"
    assert describe_changes(many, many) == []


@pytest.mark.asyncio
async def test_a_damaged_entry_is_left_out_and_named(world):
    world.sql.save([], [], [AuditEntry(at=1.0, actor="ann", action=Action.JOB_SUBMIT, object="a")])
    with world.sql._database.append() as connection:
        connection.exec_driver_sql("UPDATE audit_entries SET details = '{'")
    world.send(ANN, "vision")
    page = world.controller.audit.page(AuditFilter(), before=None, limit=10)
    assert [entry.actor for entry in page.entries] == ["ann"]
    assert "The audit entry 1" in world.sql.unreadable
