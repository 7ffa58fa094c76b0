"""The deletion of ended jobs over HTTP and on the command line, and what admins see of the space of users."""

import pytest

from jupyter_gq.client.connection.http import ServiceError
from jupyter_gq.client.connection.pages import read_all_jobs

from .world import submission

pytestmark = pytest.mark.asyncio


async def an_ended_job(people, bundle, who="ann", **changes):
    job, _ = await people[who].submit(submission(bundle, **changes))
    await people[who].cancel(job.id)
    return job.id


async def test_delete_removes_ended_jobs_and_goes_on_after_one_that_has_not_ended(say, people, world, bundle):
    ended, waiting = await an_ended_job(people, bundle), (await people["ann"].submit(submission(bundle)))[0].id
    code, out, err = await say("delete", waiting, ended)
    assert code == 3
    told = "The job 'digits' is waiting, and only jobs that have ended can be deleted."
    assert told in err
    assert out == f"digits ({ended}): Cancelled. Deleted with its outputs, logs and results.\n"
    assert [job.id for job in (await people["ann"].jobs()).jobs] == [waiting]
    await world.controller.retention.sweep_requested()
    assert world.store.get(ended) is None
    code, _, err = await say("delete", ended)
    assert (code, "No job of yours has an id that begins with" in err) == (3, True)


async def test_a_job_that_is_named_twice_is_deleted_once_and_no_other_one(say, people, bundle):
    older, newest = await an_ended_job(people, bundle), await an_ended_job(people, bundle, name="newest")
    code, out, err = await say("delete", "last", "last", newest)
    assert (code, out, err) == (0, f"newest ({newest}): Cancelled. Deleted with its outputs, logs and results.\n", "")
    assert [job.id for job in (await people["ann"].jobs()).jobs] == [older]


@pytest.mark.parametrize("text", ["j", "job-"])
async def test_the_beginning_of_all_ids_names_no_job(say, people, bundle, text):
    job = await an_ended_job(people, bundle)
    code, _, err = await say("delete", text)
    assert (code, "The ids of all jobs begin with 'job-'" in err) == (3, True)
    assert [each.id for each in (await people["ann"].jobs()).jobs] == [job]


async def test_an_empty_text_keeps_no_other_job_from_being_deleted_and_told(say, people, bundle):
    first, second = await an_ended_job(people, bundle), await an_ended_job(people, bundle)
    code, out, err = await say("delete", first, "", second)
    assert (code, "jupyter-gq delete: An empty text is no id of a job" in err) == (3, True)
    assert [line.split(":")[0] for line in out.splitlines()] == [f"digits ({first})", f"digits ({second})"]


async def test_a_text_that_would_change_the_terminal_is_printed_without_its_controls(say):
    _, _, err = await say("delete", "\x1b[31m")
    assert "\x1b" not in err


async def test_an_admin_deletes_the_job_of_a_user_and_others_do_not_find_it(people, world, bundle):
    job = await an_ended_job(people, bundle)
    with pytest.raises(ServiceError, check=lambda error: error.status == 404):
        await people["bob"].delete(job)
    assert (await people["root"].delete(job)).owner == "ann"
    (entry,) = (await people["root"].audit(action="job.delete")).entries
    assert (entry.actor, entry.object, entry.owner) == ("root", job, "ann")


@pytest.mark.parametrize("gone", [[4], [4, 5], [4, 5, 6, 7]])
async def test_all_pages_are_read_though_jobs_are_deleted_meanwhile(people, world, bundle, gone):
    ids = [await an_ended_job(people, bundle) for _ in range(8)]

    async def read(before):
        page = await people["ann"].jobs(limit=2, before=before)
        if before == ids[6] and world.store.get(ids[4]) is not None:
            for number in gone:
                await people["ann"].delete(ids[number])
            await world.controller.retention.sweep_requested()
        return page

    assert [job.id for job in (await read_all_jobs(read)).jobs] == ids[::-1]


async def test_the_metrics_and_an_admins_list_say_how_much_is_kept_beside_the_limit(say, people, world, bundle):
    job = await an_ended_job(people, bundle)
    world.controller._context.kept_sizes.record(job, "ann", 3 * 2**30)
    _, out, _ = await say("jobs", "--all")
    assert out.endswith("In the database: 3 GiB of at most 4 GiB\n")
    assert "In the database" not in (await say("jobs"))[1]
    assert (await people["root"].jobs(owner="*")).database == "ann 3 GiB; at most 4 GiB each"
    metrics = (await people["root"]._transport.request("GET", "metrics")).body.decode()
    assert "jupyter_gq_database_kept_bytes 3.22123e+09" in metrics
    assert "jupyter_gq_database_filled_ratio 0.75" in metrics
