"""The commands of users against the real service: what they print, and the exit codes on which scripts depend.

Runs the commands of docs/how-to/use-the-command-line.md.
"""

import asyncio
import contextlib
import io
import json
import os
import signal
import sys
from pathlib import Path

import pytest

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client import models
from jupyter_gq.client.connection.http import ServiceError
from jupyter_gq.client.outputs.delivery import Delivery
from jupyter_gq.commands.connecting.login_file import find_login_file
from jupyter_gq.commands.explain import describe_job, explain
from tests.patience import eventually

from .hubs import READ, SUBMIT, user
from .world import piece, submission

pytestmark = pytest.mark.asyncio


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
    assert rows[0].endswith(waiting.removeprefix("Waiting: "))
    assert "Waiting" not in rows[0]
    assert "  waiting, place 1  second  vision     1  " in rows[0]
    assert "  running  " in rows[1]

    world.machine.end(first.id)
    await world.steps()
    assert first.id not in (await say("jobs"))[1]
    assert first.id in (await say("jobs", "--all"))[1]
    assert [job["id"] for job in json.loads((await say("jobs", "--state", "done", "-o", "json"))[1])["jobs"]] == [
        first.id
    ]
    assert (await say("jobs", "--queue", "vision", "--state", "failed"))[1] == "No job matches these options.\n"
    code, out, err = await say("jobs", "--queue", "vision", "--queue", "visoin")
    assert (code, out, "there is no queue 'visoin' that you may see" in err) == (3, "", True)
    document = json.loads((await say("jobs", "--all", "-o", "json"))[1])
    assert document["next"] is None
    assert models.JobList.model_validate(document).jobs == (await people["ann"].jobs()).jobs


async def test_an_administrator_sees_the_jobs_of_all_with_their_owners(say, people, bundle, monkeypatch):
    await send(people, bundle)
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "root")
    assert "  ann    " in (await say("jobs", "--owner", "*"))[1]
    assert "  ann    " in (await say("jobs", "--owner", "*", "--queue", "vision"))[1]
    assert (await say("jobs", "--owner", "*", "--queue", "nlp"))[1] == "No job matches these options.\n"
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "bob")
    code, _, err = await say("jobs", "--owner", "*", "--queue", "vision")
    assert (code, "There is no queue 'vision' that you manage." in err) == (3, True)
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
    assert out.startswith(f"patient ({waits.id}) was sent ")
    assert f" ago.\n{job.sentence}\n" in out
    assert job.sentence.startswith("Waiting: ")
    assert "Place in the queue: 1.\n" in out
    assert "Queue vision: 1 of 0.5 GPU in use (0.5 borrowed), 1 running, 1 waiting.\n" in out
    assert "It holds 0.5 GPU above the quota" in (await say("explain", running.id))[1]
    document = json.loads((await say("explain", waits.id, "-o", "json"))[1])
    assert models.JobView.model_validate(document) == job


async def test_explain_says_after_what_time_an_ended_job_had_ended(people, bundle):
    sent = await send(people, bundle)
    await people["ann"].cancel(sent.id)
    job = (await people["ann"].job(sent.id)).model_copy(update={"submitted_at": 100.0, "finished_at": 150.0})
    assert list(explain(job, [], now=9000.0)) == [f"{describe_job(job)} was cancelled, 50 s after it was sent."]


async def test_explain_tells_no_pause_that_is_under_way_as_the_last_one(people, bundle):
    job = await send(people, bundle)
    paused = models.Eviction(reason="RECLAIMED", sentence="Paused: nlp needed its 1 GPU back.", by=None, at=0.0)
    changes = {"phase": "pausing", "sentence": "Pausing: nlp needed its 1 GPU back.", "eviction": paused}
    told = "\n".join(explain(job.model_copy(update=changes), [], 0.0))
    assert ("Pausing: nlp" in told, "Paused: nlp" in told) == (True, False)


async def test_a_job_is_named_by_a_unique_beginning_or_as_the_last_one(say, people, bundle):
    first = await send(people, bundle, name="first")  # ids are counted here: job-1, job-2
    last = await send(people, bundle, name="second")
    assert f"({last.id})" in (await say("explain", "last"))[1]
    assert f"({first.id})" in (await say("explain", first.id.removeprefix("job-")))[1]
    for number in range(3, 11):
        await send(people, bundle, name=f"digits-{number}")
    code, _, err = await say("explain", "1")
    assert (code, "2 jobs have an id that begins with '1': job-1, job-10." in err) == (3, True)
    code, _, err = await say("explain", "nothing")
    assert (code, "No job of yours has an id that begins with 'nothing'" in err) == (3, True)
    code, _, err = await say("explain", "")
    assert (code, "An empty text is no id of a job." in err) == (3, True)


async def test_cancel_takes_several_jobs_and_goes_on_after_one_that_cannot(say, people, world, bundle):
    first, second = await send(people, bundle), await send(people, bundle)
    code, out, err = await say("cancel", first.id, "nothing", second.id)
    assert code == 3
    assert err.startswith("jupyter-gq cancel: nothing: No job of yours")
    assert [line.split(":")[0] for line in out.splitlines()] == [f"digits ({first.id})", f"digits ({second.id})"]
    await world.steps()
    assert {job.phase for job in (await people["ann"].jobs()).jobs} == {"cancelled"}
    code, _, err = await say("cancel", first.id)
    refusal = "The job 'digits' was cancelled already; there is nothing to cancel."
    assert (code, err) == (3, f"jupyter-gq cancel: {first.id}: {refusal}\n"), "no status and no code"


async def test_cancel_gives_0_and_the_jobs_as_json(say, people, bundle):
    job = await send(people, bundle)
    code, out, _ = await say("cancel", "last", "-o", "json")
    assert (code, [each["id"] for each in json.loads(out)["jobs"]]) == (0, [job.id])


async def test_an_invalid_token_and_a_service_that_is_away_have_codes_of_their_own(say, monkeypatch):
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "token-of-nobody")
    for arguments in (["jobs"], ["queues"], ["explain", "last"], ["cancel", "last"]):
        code, _, err = await say(*arguments)
        assert (code, "token" in err, "jupyter-gq login" in err) == (3, True, True)
        assert not any(internal in err for internal in ("401", "invalid_token", "http")), "a sentence and no internals"
        assert "token-of-nobody" not in err
    code, _, err = await say("cancel", "last", "--url", "http://127.0.0.1:1", "--no-wait")
    assert (code, "does not answer" in err, "waits" in err) == (4, True, False)


async def test_a_login_is_verified_stored_used_and_deleted(say, people, bundle, monkeypatch):
    await send(people, bundle)
    url = people["ann"].url.rstrip("/")
    for name in ("JUPYTER_GQ_URL", "JUPYTER_GQ_TOKEN", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)

    async def log_in(token):
        monkeypatch.setattr("sys.stdin", io.StringIO(f"{token}\n"))
        return await say("login", url.partition("/services/")[0])

    code, _, err = await log_in("token-of-nobody")
    assert (code, "token" in err, find_login_file().exists()) == (3, True, False)
    assert await log_in("ann") == (0, f"You are ann at {url}. The token is stored in {find_login_file()}.\n", "")
    assert "digits" in (await say("jobs"))[1]
    code, out, _ = await say("logout")
    assert (code, out.startswith(str(find_login_file()))) == (0, True)
    code, _, err = await say("jobs")
    assert (code, "Run `jupyter-gq login`" in err) == (2, True)


def end_job(world, job, status):
    world.machine.end(job, Outcome.SUCCEEDED if status == 0 else Outcome.FAILED)


@pytest.fixture
def _impatient(monkeypatch):
    monkeypatch.setattr("jupyter_gq.commands.follow.INTERVAL", 0.05)


@pytest.mark.usefixtures("_impatient")
@pytest.mark.parametrize("status", [0, 1], ids=["succeeds", "fails"])
async def test_logs_follow_a_job_to_its_end_and_end_with_its_success(say, people, world, bundle, status):
    job = await send(people, bundle)
    following = asyncio.create_task(say("logs", "-f", job.id))
    await world.steps()
    delivery = Delivery(people["ann"].url, job.id, world.job_token(job.id))
    await delivery.send([piece(1, "epoch 1\nepo")])
    await delivery.send([piece(2, "ch 2\nlast")])
    delivery.close()
    end_job(world, job.id, status)
    await world.steps()
    code, out, err = await following
    assert (code, out) == (status, "epoch 1\nepoch 2\nlast\n")
    ended = await people["ann"].job(job.id)
    told = err.splitlines()[-1]
    assert told.startswith(f"digits ({job.id}): {ended.phase}.")
    assert told.lower().count(ended.phase) == 1, "the state is said once"
    assert await say("logs", job.id) == (0, "epoch 1\nepoch 2\nlast\n", "")
    lines = (await say("logs", job.id, "-o", "json"))[1].splitlines()
    assert [json.loads(line)["seq"] for line in lines] == [1, 2]
    world.bundles.logs[job.id] = "from the \x1b[31mrunner\n"
    assert await say("logs", job.id, "--runner") == (0, "from the runner\n", "")


async def test_the_log_of_each_task_is_read_alone(say, people, world, bundle):
    job = await send(people, bundle, tasks=2, gpus="0.25")
    world.bundles.logs |= {job.id: "== task 0 ==\n== task 1 ==\n", f"{job.id}/1": "rank 1\n"}
    assert await say("logs", job.id, "--task", "1") == (0, "rank 1\n", "")
    assert (await say("logs", job.id, "--runner"))[1] == "== task 0 ==\n== task 1 ==\n"
    code, _, err = await say("logs", job.id, "--task", "2")
    assert (code, "has no task 2: it has the tasks 0 to 1." in err) == (3, True)
    code, _, err = await say("logs", job.id, "--task", "1", "--follow")
    assert (code, "The log of a task is not followed" in err) == (2, True)


@pytest.mark.usefixtures("_impatient")
async def test_submit_waits_for_the_end_and_gives_the_success_of_the_job(say, people, world, tmp_path):
    script = tmp_path / "train.py"
    script.write_text("print(1)\n")

    async def sent():
        return [job.id for job in (await people["ann"].jobs()).jobs]

    for way, status in (("--wait", 0), ("--follow", 1)):
        before = await sent()
        waiting = asyncio.create_task(say("submit", str(script), way, "-o", "json"))
        await eventually(lambda before=before: differs(sent, before))
        job = (await sent())[0]
        await world.steps()
        end_job(world, job, status)
        await world.steps()
        code, out, err = await waiting
        assert (code, f"train ({job}) was sent to vision." in err) == (status, True)
        assert (models.JobView.model_validate_json(out).phase if way == "--wait" else out) == (
            "done" if way == "--wait" else ""
        )


async def differs(read, before):
    return await read() != before


async def test_top_is_one_picture_where_there_is_no_terminal(say, people, world, bundle, monkeypatch):
    await send(people, bundle, name="runs", gpus="1")
    await send(people, bundle, name="waits", gpus="1")
    ended = await send(people, bundle, name="ended")
    await world.steps()
    await people["ann"].cancel(ended.id)
    code, out, err = await say("top")
    assert (code, err) == (0, "")
    devices, queues, jobs = [part.splitlines() for part in out.split("\n\n")[1:]]
    assert devices[0].split() == ["GPU", "MODEL", "POOL", "USED", "STATE", "HOLDERS"]
    assert sorted(line.split()[-2:] for line in devices[1:]) == [["0", "ok"], ["1", "ok"]], "ann sees no holders"
    assert queues[1].split()[:5] == ["vision", "train", "0.5", "1", "0.5"]
    assert [line.split()[-1] != "" and name in line for line, name in zip(jobs[1:], ("waits", "runs"), strict=True)]
    assert "GPU USE" in jobs[0]
    document = json.loads((await say("top", "-o", "json"))[1])
    assert [len(document["devices"]), len(document["queues"])] == [2, 1]
    assert [job["name"] for job in document["jobs"]] == ["waits", "runs"]
    assert document["notebooks"] == []
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "root")
    assert "ann runs 1" in (await say("top", "--owner", "*"))[1]


async def test_gpu_use_of_a_job_is_in_top_and_explain_and_in_its_usage(say, people, world, bundle):
    """The commands of docs/how-to/see-the-gpu-use-of-a-job.md."""
    job = (await send(people, bundle, gpus="1", expected_seconds=600)).id
    await world.steps()
    world.machine.runs[(job, 1)].pids = (70, 71)
    world.controller._context.probe.used = {71: 87}
    for _ in range(2):
        world.clock.forward(5)
        await world.steps(1)
    world.controller.jobs.record_heartbeat(
        job, models.Heartbeat(run=1, progress={"fraction": 0.37, "text": "37/100"}, saved_at=world.clock.now())
    )
    assert "87 %, 1 GiB of 40 GiB" in (await say("top"))[1]
    told = (await say("explain", "last"))[1]
    for sentence in (
        " of 10 min expected.\n",
        "Progress: 37 %, 37/100.\n",
        "It uses 87 % of its GPU.\nIt holds 1 GiB of 40 GiB of GPU memory.\n",
        "It last saved its state",
    ):
        assert sentence in told
    world.controller.jobs.record_heartbeat(job, models.Heartbeat(run=1, progress={"fraction": None, "text": ""}))
    assert "Progress" not in (await say("explain", "last"))[1]
    found = await people["ann"].usage(job)
    assert (found.run, [point.highest for point in found.points]) == (1, [87])
    for name, seen in (("root", True), ("bob", False)):
        if seen:
            assert (await people[name].usage(job)).sentence == found.sentence
        else:
            with pytest.raises(ServiceError, match="There is no job"):
                await people[name].usage(job)


async def test_top_draws_anew_on_a_terminal_also_while_the_service_is_away(say, people, monkeypatch, capsys):
    monkeypatch.setattr("jupyter_gq.commands.top._INTERVAL", 0.05)
    printed, end = os.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    program = [sys.executable, "-m", "jupyter_gq.app", "top"]
    process = await asyncio.create_subprocess_exec(
        *program,
        stdout=end,
        stderr=end,
        env=environment,
        # Of a shell's job in the background, the tests would inherit that it is ignored.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    os.close(end)
    text = b""
    while text.count(b"Ctrl+C ends this.") < 2:
        text += await asyncio.to_thread(os.read, printed, 65536)
    process.send_signal(signal.SIGINT)
    with contextlib.suppress(OSError):  # at the end of the process
        # A program whose terminal nobody reads could wait in the middle of a line for ever.
        while more := await asyncio.to_thread(os.read, printed, 65536):
            text += more
    assert await process.wait() == 130
    os.close(printed)
    assert b"Traceback" not in text


async def test_jobs_are_held_and_released(say, people, world, bundle):
    first, second = await send(people, bundle), await send(people, bundle)
    code, out, err = await say("hold", first.id, second.id, "nothing")
    assert (code, len(out.splitlines()), "nothing: No job of yours" in err) == (3, 2, True)
    assert all([(await people["ann"].job(job.id)).held_since for job in (first, second)])
    assert "  held  " in (await say("jobs"))[1]
    third = await send(people, bundle)
    shown = json.loads((await say("jobs", "--state", "held", "-o", "json"))[1])["jobs"]
    assert [job["id"] for job in shown] == [second.id, first.id], "the state that the table says can be asked for"
    await say("cancel", third.id)
    await world.steps()
    assert {(await people["ann"].job(job.id)).phase for job in (first, second)} == {"waiting"}
    code, out, _ = await say("release", first.id, "-o", "json")
    assert (code, json.loads(out)["jobs"][0]["held_since"]) == (0, None)
    await world.steps()
    assert (await people["ann"].job(first.id)).phase in {"starting", "running"}


async def test_a_job_moves_to_another_queue_of_its_owner_only(say, people, bundle, world, hub, monkeypatch):
    hub.tokens["both"] = user("ann", SUBMIT, READ, groups=("vision", "nlp"))
    job = await send(people, bundle)
    code, _, err = await say("move", job.id, "--queue", "nlp")
    assert (code, err.startswith(f"jupyter-gq move: {job.id}: ")) == (3, True)
    assert (await people["ann"].job(job.id)).queue == "vision"
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "both")
    assert (await say("move", job.id, "--queue", "nlp"))[0] == 0
    assert (await people["ann"].job(job.id)).queue == "nlp"


@pytest.mark.parametrize("text", ["preview", "cancel", "preview/outputs", "x" * 5000, "%2e%2e"])
async def test_a_text_that_is_no_job_is_refused_in_a_short_sentence(say, text):
    for command in ("explain", "hold", "logs"):
        code, out, err = await say(command, text)
        assert (code, out) == (3, "")
        assert "No job of yours has an id that begins with " in err
        assert len(err) < 400
