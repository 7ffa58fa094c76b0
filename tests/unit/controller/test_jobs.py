"""What users ask of jobs: refused whole with a reason, or kept whole."""

import json
from dataclasses import replace

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.connection.older_service import write_submission
from jupyter_gq.client.models import Bundle, Heartbeat, JobRequest, JobSubmission, Progress
from jupyter_gq.controller.requests.jobs import PAGE
from jupyter_gq.domain.errors import (
    Conflict,
    InvalidAmount,
    KeyReused,
    NeverFits,
    NotAMember,
    NotFound,
    PriorityTooHigh,
    StorageFull,
    UnknownQueue,
)
from jupyter_gq.domain.mentions import reveal
from tests.fakes import FakeBundles, StoreIsFull, StoreLosesTheRace

from .world import ADMIN, ANN, BOB, CAROL, CELL, STORY, World, a_submission, story_settings

pytestmark = pytest.mark.asyncio


def _with_code(source: str) -> Bundle:
    """The bundle of `a_submission` with another cell."""
    bundle = a_submission().bundle
    return bundle.model_copy(update={"notebook": {**bundle.notebook, "cells": [{**CELL, "source": source}]}})


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"queue": "visoin"}, UnknownQueue, "Queues you can use: vision"),
        ({"queue": "build"}, UnknownQueue, "no training queue named 'build'"),
        ({"queue": "nlp"}, NotAMember, "ann is not a member of the queue 'nlp'"),
        ({"priority": 100}, PriorityTooHigh, "priority 100, but the highest .* in the queue 'vision' is 0. Choose 0"),
        ({"priority": 1}, PriorityTooHigh, "priority 1, but the highest"),
        ({"gpus": "1.5"}, InvalidAmount, "1 or 2"),
        ({"gpus": "abc"}, InvalidAmount, "not a number"),
        ({"gpus": "0.1234"}, InvalidAmount, "at most three digits"),
        ({"gpus": -1}, InvalidAmount, "negative"),
        ({"gpus": "3"}, NeverFits, "Ask for 1 or less"),
        ({"gpus": "1", "tasks": 2}, NeverFits, "room for 1"),
    ],
)
async def test_a_job_that_could_never_run_is_refused_before_anything_is_kept(world: World, changes, error, words):
    with pytest.raises(error, match=words):
        world.controller.jobs.submit(ANN, a_submission(**changes), None)
    request = JobRequest.model_validate({"queue": "vision", "gpus": "1", **changes})
    with pytest.raises(error, match=words):
        await world.controller.previews.preview(ANN, request)
    assert not world.bundles.kept
    assert not world.sql.unfinished()


async def test_names_and_messages_of_users_are_shown_without_control_and_bidirectional_characters(world: World):
    job = world.send(ANN, "vision", name="night\u202e\nrun\x1b[31m \ufdd0")
    assert world.job(job).name == "night run"
    await world.step(2)
    progress = Progress(fraction=0.5, text="epoch\t5\u2066\x07\nnext")
    world.controller.jobs.record_heartbeat(job, Heartbeat(run=1, progress=progress))
    assert world.job(job).progress.text == "epoch\t5\nnext"
    error = {"output_type": "error", "ename": "Oh\x07\n", "evalue": "line one\nline two\u202e", "traceback": []}
    piece = {"seq": 1, "run": 1, "at": 0, "op": "append", "cell": "c1", "role": "target", "output": error}
    world.controller.jobs.append_outputs(job, [piece])
    assert world.controller.jobs.read_outputs(ANN, job, 0).events[0]["output"] == error, "outputs are kept as they are"
    world.backend.end(job, Outcome.FAILED, "The cell raised Oh: \x1b[31mred\x1b[0m\u202e\nERROR.")
    await world.step(2)
    shown = world.job(job)
    assert (shown.error.ename, shown.error.evalue) == ("Oh ", "line one\nline two")
    assert shown.sentence == "The cell raised Oh: red ERROR."


async def test_a_job_without_a_name_is_named_after_its_notebook_in_visible_characters(world: World):
    submission = a_submission()
    manifest = submission.bundle.manifest.model_copy(update={"notebook_path": "a/night\u202erun.ipynb"})
    bundle = submission.bundle.model_copy(update={"manifest": manifest})
    job, _ = world.controller.jobs.submit(ANN, submission.model_copy(update={"name": "\u202e", "bundle": bundle}), None)
    assert job.name == "nightrun"
    assert job.notebook_path == "a/night\u202erun.ipynb", "the path of a file is not changed"


async def test_a_priority_up_to_the_highest_of_the_queue_is_accepted(world: World):
    queue = {"quota": 1, "max_priority": 10, "managers": ["carol"]}
    world.settings.current = story_settings(TrainingQueues={"queues": {"vision": queue}})
    accepted = [(ANN, -100), (ANN, 10), (CAROL, 100), (ADMIN, 100)]
    sent = [world.send(who, "vision", priority=priority) for who, priority in accepted]
    assert [world.job(job).priority for job in sent] == [-100, 10, 100, 100]
    with pytest.raises(PriorityTooHigh, match=r"priority 11, but the highest .* is 10"):
        world.send(ANN, "vision", priority=11)


async def test_the_queues_of_a_user_say_the_highest_priority_that_this_user_may_give(world: World):
    queue = {"quota": 1, "managers": ["carol"]}
    world.settings.current = story_settings(TrainingQueues={"queues": {"vision": queue}})

    def highest(who):
        (view,) = [view for view in world.controller.overview.list_queues(who).queues if view.name == "vision"]
        return view.max_priority

    assert [highest(who) for who in (ANN, CAROL, ADMIN)] == [0, 100, 100]


async def test_an_administrator_may_use_every_queue(world):
    view, _ = world.controller.jobs.submit(ADMIN, a_submission("nlp"), None)
    assert view.queue == "nlp"


async def test_a_parent_takes_no_jobs(tmp_path):
    queues = {"science": {"quota": 1}, "vision": {"quota": 1, "parent": "science"}}
    world = World(tmp_path, settings=story_settings(TrainingQueues={"queues": queues}))
    with pytest.raises(UnknownQueue):
        world.send(ANN, "science")
    assert world.send(ANN, "vision")
    world.close()


async def test_a_runner_is_told_how_long_it_will_have_to_save(world):
    world.settings.current = story_settings(TrainingQueues={**STORY["TrainingQueues"], "grace": 90})
    world.controller.jobs.submit(ANN, a_submission(), None)
    await world.controller.step()
    assert world.backend.launches[-1].environment["GQ_STOP_GRACE"] == "90"


async def test_the_same_key_gives_the_same_job(world):
    first, created = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    again, created_again = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    of_carol, created_for_carol = world.controller.jobs.submit(CAROL, a_submission(), "key-1")
    assert (created, created_again, created_for_carol) == (True, False, True)
    assert first.id == again.id != of_carol.id


async def test_a_key_is_remembered_when_the_job_is_final(world):
    first, _ = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    world.controller.jobs.cancel(ANN, first.id)
    again, created = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    assert (again.id, again.phase, created) == (first.id, "cancelled", False)


@pytest.mark.parametrize(
    ("written", "shown"), [("", "digits"), ("   ", "digits"), ("  my \n run ", "my run"), ("a/b", "a/b")]
)
async def test_a_job_without_a_name_is_called_after_its_notebook(world, written, shown):
    view, _ = world.controller.jobs.submit(ANN, a_submission(name=written), None)
    assert view.name == shown


async def test_when_the_record_cannot_be_saved_no_file_stays(world):
    world.store = StoreIsFull(world.sql)
    world.restart()
    with pytest.raises(StorageFull):
        world.send(ANN, "vision")
    assert not world.bundles.kept
    world.store.full = False
    job = world.send(ANN, "vision")
    await world.step(2)
    assert world.job(job).phase == "running"


@pytest.mark.parametrize(
    "changes",
    [{"name": "other"}, {"gpus": "0.5"}, {"tasks": 2}, {"bundle": _with_code("x = 2")}],
    ids=lambda changes: next(iter(changes)),
)
async def test_a_key_with_another_request_is_refused_with_the_job_that_it_made(world, changes):
    first, _ = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    with pytest.raises(KeyReused, match=f"'key-1' belongs to another request, which made the job 'digits' .{first.id}"):
        world.controller.jobs.submit(ANN, a_submission(**changes), "key-1")
    assert [record.workload.id for record in world.sql.list()] == [first.id]


async def test_a_repeated_request_may_order_its_keys_otherwise_and_write_defaults(world):
    first, _ = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    full = a_submission().model_dump(mode="json")
    turned = json.loads(json.dumps(full), object_pairs_hook=lambda pairs: dict(reversed(pairs)))
    again, created = world.controller.jobs.submit(ANN, JobSubmission.model_validate(turned), "key-1")
    assert (again.id, created) == (first.id, False)


async def test_a_hint_that_a_client_left_out_for_an_older_service_makes_no_other_request(world):
    sent = a_submission()
    sent.bundle.manifest.written = ["model.pt"]
    before = JobSubmission.model_validate_json(write_submission(sent, ()))
    first, _ = world.controller.jobs.submit(ANN, before, "key-1")
    again, created = world.controller.jobs.submit(ANN, sent, "key-1")
    assert (before.bundle.manifest.written, again.id, created) == ([], first.id, False)


@pytest.mark.parametrize("before", ["", "0:of an older way"])
async def test_a_job_whose_request_cannot_be_compared_is_returned_for_its_key(world, before):
    first, _ = world.controller.jobs.submit(ANN, a_submission(), "key-1")
    record = world.sql.get(first.id)
    world.sql.save([replace(record, detail=replace(record.detail, request_hash=before))])
    again, created = world.controller.jobs.submit(ANN, a_submission(name="other"), "key-1")
    assert (again.id, created) == (first.id, False)


async def test_of_two_requests_with_one_key_at_the_same_time_one_is_refused_without_a_trace(world):
    world.store = StoreLosesTheRace(world.sql)
    world.restart()
    with pytest.raises(Conflict):
        world.controller.jobs.submit(ANN, a_submission(), "key-1")
    assert not world.bundles.kept


async def test_when_the_files_cannot_be_written_nothing_is_queued(world):
    world.bundles = FakeBundles(full=True)
    world.restart()
    with pytest.raises(StorageFull):
        world.send(ANN, "vision")
    assert not world.sql.unfinished()


async def test_somebody_elses_job_does_not_exist(world):
    job = world.send(ANN, "vision")
    for ask in (
        world.controller.jobs.show,
        world.controller.jobs.cancel,
        world.controller.jobs.read_log,
        lambda caller, name: world.controller.jobs.read_outputs(caller, name, 0),
    ):
        with pytest.raises(NotFound):
            ask(BOB, job)
        with pytest.raises(NotFound):
            ask(ANN, "job-none")
    for caller, name in ((BOB, job), (ANN, "job-none")):
        with pytest.raises(NotFound):
            await world.controller.jobs.read_notebook(caller, name)
    assert world.controller.jobs.show(ADMIN, job).owner == "ann"
    assert world.controller.job_lists.list_jobs(BOB, limit=10, before=None, owner="ann").jobs == []
    assert [each.id for each in world.controller.job_lists.list_jobs(ADMIN, limit=10, before=None, owner="*").jobs] == [
        job
    ]


async def test_a_notebook_is_no_job(world):
    ticket = world.ask(ANN, "0.25")
    with pytest.raises(NotFound):
        world.controller.jobs.show(ANN, ticket.id)
    with pytest.raises(NotFound):
        world.controller.tickets.show(ANN, world.send(ANN, "vision"))


async def test_pages_follow_one_another(world):
    sent = [world.send(ANN, "vision") for _ in range(5)]
    first = world.controller.job_lists.list_jobs(ANN, limit=2, before=None)
    second = world.controller.job_lists.list_jobs(ANN, limit=2, before=first.next)
    third = world.controller.job_lists.list_jobs(ANN, limit=2, before=second.next)
    shown = [job.id for page in (first, second, third) for job in page.jobs]
    assert sorted(shown) == sorted(sent)
    assert third.next is None


async def test_a_waiting_job_is_cancelled_at_once(world):
    job = world.send(ANN, "vision")
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelled"
    with pytest.raises(Conflict, match="cancelled already"):
        world.controller.jobs.cancel(ANN, job)
    await world.step(2)
    assert not world.backend.launches


async def test_a_running_job_is_given_a_few_seconds(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelling"
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelling"
    await world.step(2)
    view = world.job(job)
    assert (view.phase, view.sentence) == ("cancelled", "Cancelled.")
    assert [grace for _, _, grace in world.backend.stops] == [5]


async def test_a_job_that_an_administrator_cancels_says_so(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.controller.jobs.cancel(ADMIN, job)
    await world.step(2)
    assert reveal(world.job(job).sentence) == "Cancelled by root."


async def test_a_paused_job_is_cancelled_where_it_waits(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.send(BOB, "nlp", "0.5")
    await world.step(3)
    assert world.job(job).phase == "paused"
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelled"
    assert world.controller.status.check_health().warnings == []


async def test_a_job_that_is_being_paused_can_still_be_cancelled(world):
    world.backend._told_to_stop = lambda run: None  # it takes its time
    job = world.send(ANN, "vision")
    await world.step(2)
    world.send(BOB, "nlp", "0.5")
    await world.step(1)
    assert world.job(job).phase == "pausing"
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelling"
    await world.step(1)
    assert [grace for _, _, grace in world.backend.stops] == [30, 5]
    world.backend.end(job, Outcome.KILLED)
    await world.step(2)
    assert world.job(job).phase == "cancelled"


async def test_only_the_token_of_the_present_run_speaks_for_a_job(world):
    job, other = world.send(ANN, "vision", "0.25"), world.send(BOB, "nlp", "0.25")
    assert world.controller.pods.find_task(job, "") is None
    await world.step(2)
    token, of_other = (world.backend.runs[(each, 1)].token for each in (job, other))
    assert token != of_other
    assert world.controller.pods.find_task(job, token) == 0
    assert world.controller.pods.find_task(job, of_other) is None
    assert world.controller.pods.find_task("job-none", token) is None
    assert token not in repr(world.sql.get(job))
    world.backend.end(job, Outcome.LOST)
    await world.step(3)
    assert world.controller.pods.find_task(job, token) is None
    assert world.controller.pods.find_task(job, world.backend.runs[(job, 2)].token) == 0


@pytest.mark.parametrize("outcome", [Outcome.SUCCEEDED, Outcome.FAILED, Outcome.PAUSED, Outcome.LOST])
async def test_the_token_of_a_run_is_invalid_once_the_run_has_ended(world, outcome):
    """In processes as in pods; the backend reports the end when the last process of the run has ended."""
    job = world.send(ANN, "vision")
    await world.step(2)
    token = world.backend.runs[(job, 1)].token
    assert world.controller.pods.find_task(job, token) == 0
    world.backend.end(job, outcome)
    await world.step(1)
    assert world.controller.pods.find_task(job, token) is None
    await world.step(2)
    assert world.controller.pods.find_task(job, token) is None


async def test_output_has_no_gap_and_no_double(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    assert world.controller.jobs.append_outputs(job, [_piece(1), _piece(2)]) == 2
    assert world.controller.jobs.append_outputs(job, [_piece(2), _piece(3)]) == 3
    assert world.controller.jobs.append_outputs(job, [_piece(5)]) == 3
    assert world.controller.jobs.append_outputs(job, [{"op": "clear"}, {"seq": "4"}, {"seq": True}]) == 3
    page = world.controller.jobs.read_outputs(ANN, job, 1)
    assert [piece["seq"] for piece in page.events] == [2, 3]
    assert (page.last_seq, page.finished) == (3, False)
    assert world.job(job).last_seq == 3
    world.backend.end(job)
    await world.step(2)
    assert world.controller.jobs.read_outputs(ANN, job, 3).finished


async def test_a_page_that_is_not_the_last_one_is_not_the_end(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    assert world.controller.jobs.append_outputs(job, [_piece(seq) for seq in range(1, PAGE + 2)]) == PAGE + 1
    world.backend.end(job)
    await world.step(2)
    page = world.controller.jobs.read_outputs(ANN, job, 0)
    assert (len(page.events), page.finished) == (PAGE, False)
    assert world.controller.jobs.read_outputs(ANN, job, PAGE).finished


async def test_a_job_that_ended_before_it_was_seen_to_run_has_the_time_since_its_start(world):
    job = world.send(ANN, "vision")
    await world.step()
    world.clock.forward(8)
    world.backend.end(job)
    await world.step(2)
    shown = world.job(job)
    assert (shown.phase, shown.running_since) == ("done", None)
    assert shown.started_at is not None
    assert shown.ran_seconds == shown.finished_at - shown.started_at > 0


async def test_the_error_of_the_code_is_shown_with_a_failed_job(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    output = {"output_type": "error", "ename": "ValueError", "evalue": "no such file", "traceback": []}
    world.controller.jobs.append_outputs(job, [{**_piece(1), "output": output}])
    assert world.job(job).error is None
    world.backend.end(job, Outcome.FAILED, "ValueError: no such file")
    await world.step(2)
    world.restart()
    error = world.job(job).error
    assert error is not None
    assert (error.ename, error.evalue) == ("ValueError", "no such file")


async def test_progress_comes_with_the_heartbeat_of_the_present_run(world):
    job = world.send(ANN, "vision")
    await world.step(2)
    world.controller.jobs.record_heartbeat(job, Heartbeat(run=7, progress=Progress(fraction=0.9)))
    world.controller.jobs.record_heartbeat(job, Heartbeat(run=1))
    assert world.job(job).progress is None
    world.controller.jobs.record_heartbeat(job, Heartbeat(run=1, progress=Progress(fraction=0.5, text="epoch 5 of 10")))
    progress = world.job(job).progress
    assert progress is not None
    assert (progress.fraction, progress.text) == (0.5, "epoch 5 of 10")


async def test_when_it_was_saved_comes_with_the_heartbeat_and_counts_for_who_gives_way(world):
    job = world.send(ANN, "vision")
    await world.step(2)

    def saved():
        return next(w.checkpointed_at for w in world.controller._context.snapshot().workloads if w.id == job)

    world.controller.jobs.record_heartbeat(job, Heartbeat(run=7, saved_at=5.0))
    assert saved() is None
    world.controller.jobs.record_heartbeat(job, Heartbeat(run=1, saved_at=5.0))
    assert saved() == 5.0
    world.controller.jobs.record_heartbeat(job, Heartbeat(run=1, saved_at=world.clock.now() + 1000))
    assert saved() == world.clock.now()


async def test_notebook_and_log_are_there_when_the_run_has_written_them(world):
    job = world.send(ANN, "vision")
    with pytest.raises(NotFound, match="has not run a cell"):
        await world.controller.jobs.read_notebook(ANN, job)
    assert world.controller.jobs.read_log(ANN, job) == ""
    world.bundles.executed[job] = {"cells": []}
    world.bundles.logs[job] = "x" * 100_000
    assert await world.controller.jobs.read_notebook(ANN, job) == {"cells": []}
    assert len(world.controller.jobs.read_log(ANN, job)) == 64 * 1024


async def test_why_it_waits_is_the_sentence_of_the_cycle(world):
    world.send(ANN, "vision")
    await world.step(2)
    second = world.send(ANN, "vision")
    assert world.job(second).sentence == "Waiting: it is considered next."
    await world.step()
    view = world.job(second)
    assert view.sentence.startswith("Waiting: ")
    assert "no device is idle" in view.sentence
    assert view.position == 1
    preview = await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus="1"))
    assert (preview.starts_now, preview.position) == (False, 2)


async def test_a_job_that_gives_way_inside_its_queue_reads_to_which_job(world):
    job = world.send(ANN, "vision", "0.5")
    await world.step(2)
    blocker = world.send(BOB, "nlp", "0.5")
    await world.step(2)
    carol = replace(CAROL, admin=True)
    urgent, _ = world.controller.jobs.submit(carol, a_submission("vision", "0.5", priority=10, name="urgent"), None)
    await world.step(3)
    assert (world.job(urgent.id).phase, world.job(blocker).phase) == ("running", "running")
    eviction = world.job(job).eviction
    assert eviction is not None
    assert (eviction.reason, reveal(eviction.by)) == ("PREEMPTED", "urgent")


async def test_a_job_whose_queue_is_no_longer_configured_waits_and_says_so(world):
    world.send(BOB, "nlp", "1")
    await world.step(2)
    job = world.send(ANN, "vision")
    world.settings.current = story_settings(TrainingQueues={"queues": {"nlp": {"quota": 1}}})
    await world.step()
    view = world.job(job)
    assert view.phase == "waiting"
    assert "the queue vision is no longer in the configuration. Move it to another queue" in view.sentence
    (warning,) = world.controller.status.check_health().warnings
    assert warning.startswith("The settings have no queue vision any more, and 1 job uses it.")
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelled"


async def test_a_paused_job_whose_queue_is_gone_does_not_say_that_it_continues_by_itself(world):
    job = world.send(ANN, "vision", "1")
    await world.step(3)
    world.settings.current = story_settings(TrainingQueues={"queues": {"nlp": {"quota": 1}}})
    (warning,) = world.controller.status.check_health().warnings
    assert "may be paused for other queues, and then does not start again." in warning
    world.send(BOB, "nlp", "1")
    await world.step(5)
    view = world.job(job)
    assert (view.phase, view.eviction.reason) == ("paused", "RECLAIMED")
    assert "the queue vision is no longer in the configuration. Move it to another queue" in view.sentence
    assert "Continues by itself" not in view.sentence


def _piece(seq: int) -> dict:
    output = {"output_type": "stream", "name": "stdout", "text": f"{seq}\n"}
    return {"seq": seq, "run": 1, "at": 0, "op": "append", "cell": "c1", "role": "target", "output": output}
