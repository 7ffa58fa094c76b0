"""What users ask of jobs: refused whole with a reason, or kept whole."""

from dataclasses import replace

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import Heartbeat, JobRequest, Progress
from jupyter_gq.controller.requests.jobs import PAGE
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.errors import (
    Conflict,
    InvalidAmount,
    NeverFits,
    NotAMember,
    NotFound,
    PriorityTooHigh,
    StorageFull,
    UnknownQueue,
)
from jupyter_gq.domain.mentions import reveal
from tests.fakes import FakeBundles, StoreIsFull, StoreLosesTheRace, a_node

from .world import ADMIN, ANN, BOB, CAROL, STORY, World, a_submission, story_settings

pytestmark = pytest.mark.asyncio


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
        world.controller.jobs.preview(ANN, request)
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


def a_box(*models, cores=8, gib=64):
    """A machine that counts its CPU cores and memory."""
    node = a_node(2)
    devices = tuple(replace(d, model=model) for d, model in zip(node.devices, models, strict=False)) or node.devices
    return replace(node, devices=devices, cpu_milli=1000 * cores, memory=MiB(1024 * gib))


def a_world(tmp_path, node, **queue):
    """The world of the story on that machine, where both queues say that, too."""
    queues = {name: {"quota": "0.5", "groups": [name], **queue} for name in ("vision", "nlp")}
    train = {"Pools": {"pools": {}}, "TrainingQueues": {"queues": queues}}
    return World(tmp_path, settings=story_settings((node,), **train), nodes=(node,))


@pytest.mark.parametrize(
    ("changes", "error", "words", "resource"),
    [
        ({"cpus": "four"}, InvalidAmount, "'four' is not a valid amount of CPU cores", "cpu"),
        ({"cpus": 0}, InvalidAmount, "a job needs some; use more, or leave it out", "cpu"),
        ({"memory": "16 X"}, InvalidAmount, "'16 X' is not a valid amount of memory", "memory"),
        ({"memory": "0"}, InvalidAmount, "a job needs some", "memory"),
        (
            {"cpus": 9},
            NeverFits,
            "9 CPU cores beside 1 GPU on one node, but no such node .* Ask for 8 CPU cores",
            "cpu",
        ),
        ({"memory": 65}, NeverFits, "65 GiB of memory beside .* has more than 64 GiB. Ask for 64 GiB", "memory"),
        ({"cpus": 5, "gpus": "0.5", "tasks": 2}, NeverFits, "2 tasks of 0.5 GPU and 5 CPU cores .* room for 1", "gpu"),
        ({"gpu_model": "H100"}, NeverFits, "of the model H100, .* it has A100-40GB. Ask for A100-40GB", "model"),
        ({"gpu_model": "A100-40GB", "gpus": 0}, NeverFits, "A100-40GB, but for no GPU", "model"),
    ],
)
async def test_cpu_memory_and_models_that_no_node_has_are_refused(tmp_path, changes, error, words, resource):
    world = a_world(tmp_path, a_box())
    request = JobRequest.model_validate({"queue": "vision", "gpus": "1", **changes})
    with pytest.raises(error, match=words) as refused:
        world.controller.jobs.preview(ANN, request)
    assert refused.value.resource == resource
    world.close()


async def test_a_job_has_the_cpu_memory_and_model_that_it_asked_for(tmp_path):
    world = a_world(tmp_path, a_box("A100-40GB", "H100"))
    asked = a_submission(cpus=2, memory="4 GiB", gpu_model="H100", expected_seconds=3600)
    view, _ = world.controller.jobs.submit(ANN, asked, None)
    assert (view.cpus, view.memory, view.gpu_model, view.expected_seconds) == ("2", "4 GiB", "H100", 3600)
    await world.step(2)
    (launch,) = world.backend.launches
    request = launch.workload.request
    assert (request.cpu_milli, request.memory) == (2000, 4096)
    assert launch.workload.placement[0].devices == (world.nodes[0].devices[1].id,)
    world.close()


async def test_what_is_taken_is_waited_for_and_the_preview_says_so(tmp_path):
    world = a_world(tmp_path, a_box())
    world.controller.jobs.submit(ANN, a_submission(gpus="0.25", cpus=6), None)
    await world.step(2)
    preview = world.controller.jobs.preview(ANN, JobRequest(queue="vision", gpus="0.25", cpus=4))
    assert not preview.starts_now
    assert "no node with 0.25 GPU idle has 4 CPU cores free" in preview.sentence
    world.close()


async def test_a_job_that_names_nothing_gets_what_its_queue_says(tmp_path):
    world = a_world(tmp_path, a_box(), default_cpus=3, default_memory="6 GiB")
    preview = world.controller.jobs.preview(ANN, JobRequest(queue="vision", gpus="1"))
    assert (preview.cpus, preview.memory) == ("3", "6 GiB")
    named, _ = world.controller.jobs.submit(ANN, a_submission(cpus=1), None)
    assert (named.cpus, named.memory) == ("1", "6 GiB")
    world.close()


async def test_a_refusal_for_an_amount_that_the_user_did_not_name_says_whose_it_is(tmp_path):
    world = a_world(tmp_path, a_box(cores=8))
    world.settings.current = story_settings(
        TrainingQueues={"queues": {"vision": {"default_cpus": 16}}}, Pools={"pools": {}}
    )
    with pytest.raises(NeverFits, match="You named no CPU cores: this is what the queue vision gives to such jobs"):
        world.controller.jobs.preview(ANN, JobRequest(queue="vision", gpus="1"))
    with pytest.raises(NeverFits) as refused:
        world.controller.jobs.preview(ANN, JobRequest(queue="vision", gpus="1", cpus=16))
    assert "You named no" not in str(refused.value)
    world.close()


async def test_a_queue_at_its_limit_of_memory_says_so(tmp_path):
    world = a_world(tmp_path, a_box(), limit_memory="8 GiB")
    world.controller.jobs.submit(ANN, a_submission(gpus="0.25", memory="6 GiB"), None)
    waits, _ = world.controller.jobs.submit(ANN, a_submission(gpus="0.25", memory="6 GiB"), None)
    await world.step(2)
    told = world.controller.jobs.show(ANN, waits.id)
    assert "the limit of vision is 8 GiB of memory, of which it uses 6 GiB, and this needs 6 GiB" in told.sentence
    with pytest.raises(NeverFits, match="the limit of vision is 8 GiB of memory"):
        world.controller.jobs.preview(ANN, JobRequest(queue="vision", gpus="0.25", memory=9))
    world.close()


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
        world.controller.jobs.read_notebook,
        world.controller.jobs.read_log,
        lambda caller, name: world.controller.jobs.read_outputs(caller, name, 0),
    ):
        with pytest.raises(NotFound):
            ask(BOB, job)
        with pytest.raises(NotFound):
            ask(ANN, "job-none")
    assert world.controller.jobs.show(ADMIN, job).owner == "ann"
    assert world.controller.jobs.list(BOB, limit=10, before=None, owner="ann").jobs == []
    assert [each.id for each in world.controller.jobs.list(ADMIN, limit=10, before=None, owner="*").jobs] == [job]


async def test_a_notebook_is_no_job(world):
    ticket = world.ask(ANN, "0.25")
    with pytest.raises(NotFound):
        world.controller.jobs.show(ANN, ticket.id)
    with pytest.raises(NotFound):
        world.controller.tickets.show(ANN, world.send(ANN, "vision"))


async def test_pages_follow_one_another(world):
    sent = [world.send(ANN, "vision") for _ in range(5)]
    first = world.controller.jobs.list(ANN, limit=2, before=None)
    second = world.controller.jobs.list(ANN, limit=2, before=first.next)
    third = world.controller.jobs.list(ANN, limit=2, before=second.next)
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
        world.controller.jobs.read_notebook(ANN, job)
    assert world.controller.jobs.read_log(ANN, job) == ""
    world.bundles.executed[job] = {"cells": []}
    world.bundles.logs[job] = "x" * 100_000
    assert world.controller.jobs.read_notebook(ANN, job) == {"cells": []}
    assert len(world.controller.jobs.read_log(ANN, job)) == 64 * 1024


async def test_why_it_waits_is_the_sentence_of_the_cycle(world):
    world.send(ANN, "vision")
    await world.step(2)
    second = world.send(ANN, "vision")
    assert world.job(second).sentence == "Waiting: it has just arrived and is considered next."
    await world.step()
    view = world.job(second)
    assert view.sentence.startswith("Waiting: ")
    assert "no device is idle" in view.sentence
    assert view.position == 1
    preview = world.controller.jobs.preview(ANN, JobRequest(queue="vision", gpus="1"))
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
    assert "the queue vision is no longer in the configuration" in view.sentence
    assert world.controller.jobs.cancel(ANN, job).phase == "cancelled"


def _piece(seq: int) -> dict:
    output = {"output_type": "stream", "name": "stdout", "text": f"{seq}\n"}
    return {"seq": seq, "run": 1, "at": 0, "op": "append", "cell": "c1", "role": "target", "output": output}
