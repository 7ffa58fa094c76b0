"""The command `jupyter-gq logs` prints and searches the whole log of a job.

Runs the commands of docs/how-to/use-the-command-line.md.
"""

import pytest

from .world import submission

pytestmark = pytest.mark.asyncio


async def send(people, bundle, **changes):
    job, _ = await people["ann"].submit(submission(bundle, **changes))
    return job


async def test_the_whole_log_is_printed_and_searched(say, people, world, bundle, monkeypatch):
    monkeypatch.setattr("jupyter_gq.controller.requests.logs.LOG_PART", 64)
    job = await send(people, bundle)
    log = "".join(f"epoch {number}\n" for number in range(1, 60)) + "loss: \x1b[31mnan\n"
    assert await say("logs", job.id, "--all") == (0, "", "")
    world.bundles.logs[job.id] = log
    assert await say("logs", job.id, "--all") == (0, log, "")
    expected = "".join(f"{number}: epoch {number}\n" for number in (4, *range(40, 50)))
    assert await say("logs", job.id, "--grep", "epoch 4") == (0, expected, "")
    assert await say("logs", job.id, "--grep", "nan") == (0, "60: loss: nan\n", "")
    assert await say("logs", job.id, "--grep", "ep.ch") == (1, "", "No line of the log has 'ep.ch' in it.\n")
    world.bundles.dropped[job.id] = 8
    code, out, err = await say("logs", job.id, "--all")
    assert (code, out) == (0, log[8:])
    assert err.startswith("The first 8 bytes of this log are dropped: ")


async def test_the_whole_log_has_a_headline_for_each_task(say, people, world, bundle):
    job = await send(people, bundle, tasks=2)
    world.bundles.logs |= {f"{job.id}/0": "rank 0\n", f"{job.id}/1": "rank 1\n"}
    assert await say("logs", job.id, "--all") == (0, "== task 0 ==\nrank 0\n== task 1 ==\nrank 1\n", "")
    assert await say("logs", job.id, "--all", "--task", "1") == (0, "rank 1\n", "")
    assert await say("logs", job.id, "--grep", "rank") == (0, "0:1: rank 0\n1:1: rank 1\n", "")
    assert await say("logs", job.id, "--grep", "rank", "--task", "1") == (0, "1: rank 1\n", "")
    code, out, err = await say("logs", job.id, "--all", "--task", "2")
    assert (code, out, "has no task 2" in err) == (3, "", True)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (["--all", "--grep", "x"], "not both"),
        (["--all", "--follow"], "Leave out --follow"),
        (["--grep", "x", "-o", "json"], "Leave out --follow and --output"),
        (["--grep", ""], "expects a text on one line"),
        (["--grep", "x" * 201], "expects a text on one line"),
        (["--grep", "a\nb"], "expects a text on one line"),
    ],
)
async def test_options_of_the_whole_log_that_make_no_sense_are_refused(say, people, bundle, options, why):
    job = await send(people, bundle)
    code, out, err = await say("logs", job.id, *options)
    assert (code, out, why in err) == (2, "", True), err
