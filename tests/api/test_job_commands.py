"""The commands that change jobs: what they print of the jobs, and where on the line the names of jobs may stand."""

import json

import pytest

from .world import submission

pytestmark = pytest.mark.asyncio


async def send(people, bundle, **changes):
    job, _ = await people["ann"].submit(submission(bundle, **changes))
    return job


async def test_priority_gpus_and_the_maximum_running_time_of_jobs_are_changed(say, people, bundle, world):
    jobs = [await send(people, bundle, gpus="1") for _ in range(2)]
    code, _, err = await say(
        "change", *[job.id for job in jobs], "--priority", "-5", "--gpus", "0.5", "--max-time", "2h"
    )
    assert (code, err) == (0, "")
    for job in jobs:
        shown = await people["ann"].job(job.id)
        assert (shown.priority, shown.gpus, shown.max_seconds) == (-5, "0.5", 7200)
    assert (await say("change", jobs[0].id, "--max-time", "none"))[0] == 0
    assert (await people["ann"].job(jobs[0].id)).max_seconds is None

    code, _, err = await say("change", jobs[0].id)
    assert (code, err) == (
        2,
        "jupyter-gq change: Name what should change: --priority, --gpus, --gpu-memory, --tasks, --min-tasks or "
        "--max-time.\n",
    )
    assert (await say("change", jobs[1].id, "--gpu-memory", "12 GB"))[0] == 0
    assert (await people["ann"].job(jobs[1].id)).gpu_memory == "12 GiB"
    code, _, err = await say("change", jobs[0].id, "--priority", "100000")
    assert (code, err.startswith("jupyter-gq change: priority: ")) == (2, True)
    code, _, err = await say("change", jobs[0].id, "--priority", "100")
    assert (code, "the highest that you may give" in err) == (3, True)


async def test_the_tasks_of_a_waiting_job_are_changed(say, people, bundle):
    job = await send(people, bundle, gpus="0.25")
    code, _, err = await say("change", job.id, "--tasks", "3")
    assert (code, err, (await people["ann"].job(job.id)).tasks) == (0, "", 3)
    code, _, err = await say("change", job.id, "--min-tasks", "4")
    told = "min_tasks is 4, but the job has 3 tasks: use 1 to 3, or more tasks."
    assert (code, err.startswith(f"jupyter-gq change: {job.id}: {told}")) == (3, True)
    code, _, err = await say("change", job.id, "--tasks", "65")
    assert (code, err.startswith("jupyter-gq change: tasks: ")) == (2, True)
    assert (await people["ann"].job(job.id)).tasks == 3


async def test_a_new_maximum_running_time_says_what_has_been_used_and_what_follows(
    say, people, bundle, world, monkeypatch
):
    monkeypatch.setattr("jupyter_gq.commands.change.now", world.clock.now)
    job = await send(people, bundle, gpus="1")
    await world.steps()
    world.clock.forward(3600)
    assert (
        "It has run for 60 min of at most 120 min; pauses do not count."
        in (await say("change", job.id, "--max-time", "2h"))[1]
    )
    assert (await say("hold", job.id))[0] == 0
    await world.steps()
    out = (await say("change", job.id, "--max-time", "30m"))[1]
    assert "of at most 30 min; pauses do not count. So it ends at its release" in out
    assert "at its release" not in (await say("change", job.id, "--max-time", "none"))[1]


async def test_names_may_stand_behind_options_and_unknown_options_are_still_refused(say, people, bundle):
    first, second = [await send(people, bundle) for _ in range(2)]
    code, out, err = await say("cancel", first.id, "-o", "json", second.id)
    assert (code, err, [job["phase"] for job in json.loads(out)["jobs"]]) == (0, "", ["cancelled", "cancelled"])
    code, _, err = await say("cancel", first.id)
    assert (code, "was cancelled already" in err) == (3, True)
    for line in (["cancel", first.id, "-o", "json", "--nope"], ["explain", first.id, "-o", "json", second.id]):
        with pytest.raises(SystemExit, match="2"):
            await say(*line)
