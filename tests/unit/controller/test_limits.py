"""Limits on what one user and one queue may have at one time: one more is refused with the numbers."""

import pytest

from jupyter_gq.controller.loop.limits import database_limit
from jupyter_gq.domain.errors import LimitReached, StatementCancelled, StorageFull
from tests.fakes import StoreTakesNoOutputs

from .world import ADMIN, ANN, BOB, CAROL

pytestmark = pytest.mark.asyncio


async def test_a_user_has_so_many_jobs_that_wait_and_run_and_the_others_go_on(world):
    world.settings.change(max_jobs_per_user=2)
    first = world.send(ANN, "vision")
    world.send(ANN, "vision")
    await world.step(2)
    with pytest.raises(LimitReached, match="You have 2 jobs that wait or run, and at most 2 are possible"):
        world.send(ANN, "vision")
    world.send(CAROL, "vision")
    world.controller.jobs.cancel(ANN, first)
    await world.step(10)
    world.send(ANN, "vision")


async def test_a_queue_has_so_many_jobs(world):
    world.settings.change(max_jobs_per_queue=2)
    for who in (ANN, CAROL):
        world.send(who, "vision")
    with pytest.raises(LimitReached, match="The queue 'vision' has 2 jobs that wait or run, and at most 2"):
        world.send(ANN, "vision")
    world.send(BOB, "nlp")


async def test_waiting_jobs_are_limited_apart_from_running_ones(world):
    world.settings.change(max_waiting_jobs_per_user=2, max_waiting_jobs_per_queue=3)
    world.send(ANN, "vision")
    await world.step(3)
    for _ in range(2):
        world.send(ANN, "vision")
    with pytest.raises(LimitReached, match=r"You have 2 jobs that wait, and at most 2 are possible\. Cancel some"):
        world.send(ANN, "vision")
    world.send(CAROL, "vision")
    with pytest.raises(LimitReached, match="The queue 'vision' has 3 jobs that wait, and at most 3 are possible"):
        world.send(CAROL, "vision")


async def test_a_user_has_so_many_servers_that_wait(world):
    world.settings.change(max_waiting_tickets_per_user=1)
    await world.start_server(CAROL, "0.1", "first")
    world.ask(CAROL, "0.1", "second")
    world.ask(CAROL, "0.1", "second")  # the same ticket
    with pytest.raises(LimitReached, match="1 of your servers wait for a GPU, and at most 1 may"):
        world.ask(CAROL, "0.1", "third")
    world.ask(CAROL, "0", "without")
    world.ask(ANN, "0.25")
    await world.step(2)
    world.ask(CAROL, "0.1", "third")


def piece(seq, text="x", **fields):
    output = {"output_type": "stream", "name": "stdout", "text": text}
    return {"seq": seq, "run": 1, "at": 1.0, "op": "append", "cell": "c1", "role": "target", "output": output, **fields}


def shown(world, job):
    return world.controller.jobs.read_outputs(ANN, job, 0)


@pytest.mark.parametrize("limit", [{"max_output_bytes": 1000}, {"max_output_pieces": 3}])
async def test_output_beyond_the_limit_of_a_job_is_left_out_with_a_note_and_the_runner_goes_on(world, limit):
    world.settings.change(**limit)
    job = world.send(ANN, "vision")
    await world.step(2)
    append = world.controller.jobs.append_outputs
    assert append(job, [piece(seq, "x" * 150) for seq in (1, 2, 3)]) == 3
    assert append(job, [piece(seq, "x" * 150) for seq in range(4, 20)]) == 19
    for seq in range(20, 60):
        assert append(job, [piece(seq, "x" * 150)]) == seq
    page = shown(world, job)
    assert [each["seq"] for each in page.events] == [1, 2, 3, 4, 59]
    assert "is left out here" in page.events[3]["output"]["text"]
    assert page.last_seq == 59
    world.restart()
    assert world.controller.jobs.append_outputs(job, [piece(60, "x" * 900)]) == 60
    assert len(shown(world, job).events) <= 6


async def test_a_note_that_the_store_refuses_or_that_comes_after_a_gap_is_stored_later(world):
    world.store = StoreTakesNoOutputs(world.sql)
    world.restart()
    world.settings.change(max_output_bytes=1000)
    job = world.send(ANN, "vision")
    await world.step(2)
    append = world.controller.jobs.append_outputs
    with pytest.raises(StorageFull):
        append(job, [piece(1, "x" * 900)])
    world.store.full = False
    assert append(job, [piece(2, "x" * 900)]) == 0, "the first one is missing"
    assert append(job, [piece(1, "x" * 150)]) == 1
    assert append(job, [piece(2, "x" * 900)]) == 2
    assert append(job, [piece(3, "x" * 900)]) == 3
    assert ["left out here" in str(each) for each in shown(world, job).events] == [False, True, False]


async def test_output_that_later_pieces_replace_does_not_count(world):
    world.settings.change(max_output_bytes=2000)
    job = world.send(ANN, "vision")
    await world.step(2)
    for seq in range(1, 30):
        anew = piece(seq, op="set", outputs=[{"output_type": "stream", "name": "stdout", "text": "x" * 500}])
        assert world.controller.jobs.append_outputs(job, [anew]) == seq
    (last,) = shown(world, job).events
    assert (last["seq"], last["op"]) == (29, "set")


async def test_a_page_of_jobs_or_output_ends_at_its_size_and_the_next_one_goes_on(world):
    jobs = [world.send(ANN, "vision") for _ in range(3)]
    world.controller.jobs.append_outputs(jobs[0], [piece(seq, "x" * 500) for seq in range(1, 5)])
    world.settings.change(max_page_bytes=1000)
    first = shown(world, jobs[0])
    assert ([each["seq"] for each in first.events], first.last_seq) == ([1], 4)
    found, before = [], None
    while True:
        page = world.controller.job_lists.list_jobs(ANN, limit=10, before=before)
        found += [job.id for job in page.jobs]
        if page.next is None:
            break
        before = page.next
    assert sorted(found) == sorted(jobs)


async def test_the_list_to_look_at_says_that_its_size_left_jobs_out(world):
    for _ in range(4):
        job = world.send(ANN, "vision", "0.25")
        world.controller.jobs.cancel(ANN, job)
    await world.step(3)
    lists = world.controller.job_lists
    assert (len(lists.list_newest(ANN, limit=4).jobs), lists.list_newest(ANN, limit=4).next) == (4, None)
    world.settings.change(max_page_bytes=1000)
    cut = lists.list_newest(ANN, limit=4)
    assert (len(cut.jobs), cut.next) == (1, cut.jobs[-1].id)


async def test_a_user_has_so_many_streams_and_a_closed_one_counts_no_more(world):
    world.settings.change(max_streams_per_user=2)
    streams = [world.controller.events.subscribe(ANN, None) for _ in range(2)]
    with pytest.raises(LimitReached, match="You have 2 open event streams, and at most 2 are possible"):
        world.controller.events.subscribe(ANN, None)
    world.controller.events.subscribe(ADMIN, None)
    streams[0].close()
    world.controller.events.subscribe(ANN, None)


async def test_a_user_whose_jobs_fill_the_database_sends_no_new_job_and_the_others_go_on(world):
    world.settings.change(max_user_database_bytes=1000)
    ended, running = world.send(ANN, "vision", "0.5"), world.send(ANN, "vision", "0.5")
    await world.step(3)
    for job in (ended, running):
        world.controller.jobs.append_outputs(job, [piece(1, "x" * 600)])
    world.controller.jobs.cancel(ANN, ended)
    await world.step(10)
    await world.controller.database_limit.measure()
    with pytest.raises(LimitReached, match=r"take 1\.\d KiB of the database, and at most 1000 bytes are allowed"):
        world.send(ANN, "vision")
    world.send(CAROL, "vision")
    assert world.job(running).phase == "running"
    world.settings.change(max_user_database_bytes=0)
    world.send(ANN, "vision")


async def test_what_an_earlier_service_kept_counts_until_it_is_deleted(world):
    world.settings.change(max_user_database_bytes=500)
    job = world.send(ANN, "vision")
    await world.step(3)
    world.controller.jobs.append_outputs(job, [piece(1, "x" * 600)])
    world.controller.jobs.cancel(ANN, job)
    await world.step(10)
    world.restart()
    await world.controller.database_limit.measure()
    with pytest.raises(
        LimitReached, match=rf"need: jupyter-gq delete {job} frees \d+ bytes; or ask your administrator"
    ):
        world.send(ANN, "vision")
    while not world.sql.delete_portion(job):
        continue
    world.clock.forward(database_limit.LOOK_EVERY + 1)
    await world.controller.database_limit.measure()
    world.send(ANN, "vision")


async def test_a_job_that_is_deleted_while_it_is_measured_does_not_count(world, monkeypatch):
    world.settings.change(max_user_database_bytes=500)
    job = world.send(ANN, "vision")
    await world.step(3)
    world.controller.jobs.append_outputs(job, [piece(1, "x" * 600)])
    world.controller.jobs.cancel(ANN, job)
    await world.step(10)
    measure = world.store.kept_size

    def measure_before_the_deletion(job):
        size = measure(job)
        while not world.sql.delete_portion(job):
            continue
        return size

    monkeypatch.setattr(world.store, "kept_size", measure_before_the_deletion)
    await world.controller.database_limit.measure()
    world.send(ANN, "vision")


async def test_what_a_run_has_left_counts_although_it_is_stored_after_the_end_of_its_job(world):
    world.settings.change(max_user_database_bytes=1500)
    job = world.send(ANN, "vision")
    await world.step(2)
    world.bundles.left[job] = [[piece(1, "x" * 600)], [piece(2, "x" * 600)], [piece(3, "x" * 600)]]
    world.backend.end(job)
    await world.step()
    assert world.job(job).phase == "done"
    for _ in range(2):
        await world.controller.database_limit.measure()
    await world.step(3)
    await world.controller.database_limit.measure()
    with pytest.raises(LimitReached, match="are allowed"):
        world.send(ANN, "vision")


async def test_a_job_that_cannot_be_measured_keeps_no_other_one_from_being_measured(world, monkeypatch):
    jobs = [world.send(user, "vision", "0.5") for user in (ANN, CAROL)]
    await world.step(3)
    measure = world.store.kept_size

    def measure_all_but_the_first(job):
        if job == jobs[0]:
            raise StatementCancelled("the database", "canceling statement due to statement timeout")
        return measure(job)

    monkeypatch.setattr(world.store, "kept_size", measure_all_but_the_first)
    await world.controller.database_limit.measure()
    assert set(world.controller._context.kept_sizes) == {jobs[1]}
    world.controller.jobs.cancel(CAROL, jobs[1])
    world.controller._context.kept_sizes.forget_others(())
    await world.step(10)
    await world.controller.database_limit.measure()
    assert set(world.controller._context.kept_sizes) == {jobs[1]}, "what has ended is measured too"


async def test_an_unfinished_job_is_measured_again_only_after_new_output(world, monkeypatch):
    job = world.send(ANN, "vision")
    await world.step(3)
    measured, measure = [], world.store.kept_size
    monkeypatch.setattr(world.store, "kept_size", lambda job: measured.append(job) or measure(job))
    for _ in range(3):
        await world.controller.database_limit.measure()
    assert measured == [job]
    world.controller.jobs.append_outputs(job, [piece(1, "x" * 600)])
    await world.controller.database_limit.measure()
    await world.controller.database_limit.measure()
    assert measured == [job] * 2
