"""The commands of users against the real service: what they print, and the exit codes on which scripts depend.

Runs the commands of docs/how-to/use-the-command-line.md.
"""

import asyncio
import io
import json

import pytest
import pytest_asyncio

from jupyter_gq.app import main
from jupyter_gq.client import models
from jupyter_gq.commands.login_file import find_login_file

from .world import submission

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def say(people, monkeypatch, capsys, tmp_path):
    """Run a command as ann; return its exit code, standard output and standard error."""
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("JUPYTER_GQ_URL", people["ann"].url)
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "ann")

    async def run(*arguments):
        code = await asyncio.to_thread(main, list(arguments))
        told = capsys.readouterr()
        assert "Traceback" not in told.err
        return code, told.out, told.err

    return run


async def send(people, bundle, **changes):
    job, _ = await people["ann"].submit(submission(bundle, **changes))
    return job


async def test_jobs_are_listed_with_state_queue_and_reason(say, people, world, bundle, monkeypatch):
    monkeypatch.setattr("jupyter_gq.commands.job_lists._PAGE", 1)
    assert await say("jobs") == (0, "There are no jobs. `jupyter-gq submit` sends one.\n", "")
    first = await send(people, bundle, name="first", gpus="1")
    second = await send(people, bundle, name="second", gpus="1")
    await world.steps()
    code, out, _ = await say("jobs")
    header, *rows = out.splitlines()
    assert code == 0
    assert header.split() == ["JOB", "STATE", "NAME", "QUEUE", "GPUS", "AGE", "REASON"]
    assert [row.split()[0] for row in rows] == [second.id, first.id], "all pages, newest first"
    waiting = (await people["ann"].job(second.id)).sentence
    assert rows[0].endswith(waiting)
    assert "  waiting, 1.  second  vision     1  " in rows[0]
    assert "  running  " in rows[1]

    world.machine.end(first.id)
    await world.steps()
    assert first.id not in (await say("jobs"))[1]
    assert first.id in (await say("jobs", "--all"))[1]
    assert [job["id"] for job in json.loads((await say("jobs", "--state", "done", "-o", "json"))[1])["jobs"]] == [
        first.id
    ]
    assert (await say("jobs", "--queue", "nlp"))[1] == "No job fits these options.\n"
    document = json.loads((await say("jobs", "--all", "-o", "json"))[1])
    assert document["next"] is None
    assert models.JobList.model_validate(document).jobs == (await people["ann"].jobs()).jobs


async def test_an_administrator_sees_the_jobs_of_all_with_their_owners(say, people, bundle, monkeypatch):
    await send(people, bundle)
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "root")
    assert "  ann    " in (await say("jobs", "--owner", "*"))[1]
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "bob")
    code, _, err = await say("jobs", "--owner", "ann")
    assert (code, "custom:gq:admin" in err) == (3, True)


async def test_queues_show_quota_use_and_what_is_borrowed(say, people, world, bundle):
    await send(people, bundle, gpus="1")
    await world.steps()
    code, out, _ = await say("queues")
    assert code == 0
    assert [line.split() for line in out.splitlines()] == [
        ["QUEUE", "POOL", "QUOTA", "USED", "BORROWED", "LIMIT", "RUNNING", "WAITING", "YOURS"],
        ["vision", "train", "0.5", "1", "0.5", "-", "1", "0", "yes"],
    ]
    document = json.loads((await say("queues", "--output", "json"))[1])
    assert models.QueueList.model_validate(document) == await people["ann"].queues()


async def test_explain_says_why_a_job_waits_and_what_its_queue_holds(say, people, world, bundle):
    running = await send(people, bundle, gpus="1")
    waits = await send(people, bundle, name="patient", gpus="1")
    await world.steps()
    job = await people["ann"].job(waits.id)
    code, out, _ = await say("explain", waits.id)
    assert code == 0
    assert out.startswith(f"patient ({waits.id}) is waiting, ")
    assert f" after it was sent.\n{job.sentence}\n" in out
    assert "Place in the queue: 1.\n" in out
    assert "Queue vision: 1 of 0.5 GPU in use (0.5 borrowed), 1 running, 1 waiting.\n" in out
    assert "It holds 0.5 GPU above the quota" in (await say("explain", running.id))[1]
    document = json.loads((await say("explain", waits.id, "-o", "json"))[1])
    assert models.JobView.model_validate(document) == job


async def test_a_job_is_named_by_a_unique_beginning_or_as_the_last_one(say, people, bundle):
    first = await send(people, bundle, name="first")  # ids are counted here: job-1, job-2
    last = await send(people, bundle, name="second")
    assert f"({last.id})" in (await say("explain", "last"))[1]
    assert f"({first.id})" in (await say("explain", first.id.removeprefix("job-")))[1]
    code, _, err = await say("explain", "job-")
    assert (code, "2 jobs have an id that begins with 'job-'" in err) == (3, True)
    code, _, err = await say("explain", "nothing")
    assert (code, "No job of yours has an id that begins with 'nothing'" in err) == (3, True)
    assert (await say("explain", ""))[0] == 2


async def test_cancel_takes_several_jobs_and_goes_on_after_one_that_cannot(say, people, world, bundle):
    first, second = await send(people, bundle), await send(people, bundle)
    code, out, err = await say("cancel", first.id, "nothing", second.id)
    assert code == 3
    assert err.startswith("jupyter-gq cancel: nothing: No job of yours")
    assert [line.split(":")[0] for line in out.splitlines()] == [f"digits ({first.id})", f"digits ({second.id})"]
    await world.steps()
    assert {job.phase for job in (await people["ann"].jobs()).jobs} == {"cancelled"}
    code, _, err = await say("cancel", first.id)
    assert (code, "409 conflict" in err) == (3, True)


async def test_cancel_gives_0_and_the_jobs_as_json(say, people, bundle):
    job = await send(people, bundle)
    code, out, _ = await say("cancel", "last", "-o", "json")
    assert (code, [each["id"] for each in json.loads(out)["jobs"]]) == (0, [job.id])


async def test_an_invalid_token_and_a_service_that_is_away_have_codes_of_their_own(say, monkeypatch):
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "token-of-nobody")
    for arguments in (["jobs"], ["queues"], ["explain", "last"], ["cancel", "last"]):
        code, _, err = await say(*arguments)
        assert (code, "401 invalid_token" in err, "jupyter-gq login" in err) == (3, True, True)
        assert "token-of-nobody" not in err
    code, _, err = await say("cancel", "last", "--url", "http://127.0.0.1:1")
    assert (code, "does not answer" in err) == (4, True)


async def test_a_login_is_verified_stored_used_and_deleted(say, people, bundle, monkeypatch):
    await send(people, bundle)
    url = people["ann"].url.rstrip("/")
    for name in ("JUPYTER_GQ_URL", "JUPYTER_GQ_TOKEN", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    async def log_in(token):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))
        return await say("login", url.partition("/services/")[0])

    code, _, err = await log_in("token-of-nobody")
    assert (code, "401 invalid_token" in err, find_login_file().exists()) == (3, True, False)
    assert await log_in("ann") == (0, f"You are ann at {url}. The token is stored in {find_login_file()}.\n", "")
    assert "digits" in (await say("jobs"))[1]
    code, out, _ = await say("logout")
    assert (code, out.startswith(str(find_login_file()))) == (0, True)
    code, _, err = await say("jobs")
    assert (code, "Run `jupyter-gq login`" in err) == (2, True)
