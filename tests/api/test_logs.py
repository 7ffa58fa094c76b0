"""The log of a job is read in parts and searched, by those who see the job."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.controller.requests.logs import search

from .world import World, make_bundle, submission

pytestmark = pytest.mark.asyncio


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


async def sent(world, served, log=None, **fields):
    """Send a job of ann that has printed `log`; return its id."""
    body = submission(make_bundle(), **fields).model_dump()
    answer = await served.ask("POST", "api/v1/jobs", body=body)
    assert answer.code == 201, answer.body
    job = answer.headers["Location"].removeprefix("jobs/")
    if log is not None:
        world.bundles.logs[job] = log
    return job


async def read(served, path):
    answer = await served.ask("GET", f"api/v1/jobs/{path}")
    assert answer.code == 200, answer.body
    return json.loads(answer.body)


async def test_it_says_how_much_there_is_and_what_is_dropped(serve, world):
    served = await serve(world.controller)
    job = await sent(world, served)
    assert await read(served, f"{job}/log/size") == {"run": 0, "tasks": [], "complete": True, "note": ""}
    world.bundles.logs[job] = "x" * 3_000_000
    assert await read(served, f"{job}/log/size") == {
        "run": 0, "tasks": [{"task": 0, "start": 0, "end": 3_000_000}], "complete": True, "note": ""
    }  # fmt: skip
    world.bundles.dropped[job] = 1_500_000
    told = await read(served, f"{job}/log/size")
    assert (told["complete"], told["tasks"]) == (False, [{"task": 0, "start": 1_500_000, "end": 3_000_000}])
    assert told["note"] == (
        "The first 1.4 MiB of this log are dropped: at most 64 MiB of the log of one job, and 1 GiB of the logs of one "
        "user, are kept."
    )


async def test_a_part_that_is_dropped_is_refused_and_not_made_up(serve, world, monkeypatch):
    monkeypatch.setattr("jupyter_gq.controller.requests.logs.LOG_PART", 4)
    served = await serve(world.controller)
    job = await sent(world, served, "0123456789")
    world.bundles.dropped[job] = 3
    path = f"api/v1/jobs/{job}/log/content?start="
    assert [(await served.ask("GET", f"{path}{start}")).body for start in (3, 7, 10, 99)] == [b"3456", b"789", b"", b""]
    status, problem = await served.problem("GET", f"{path}2")
    assert (status, problem["message"]) == (
        409, "The first 3 bytes of this log are dropped. Read it from byte 3 on."
    )  # fmt: skip


async def test_lines_with_a_text_are_found_with_their_numbers_part_by_part(serve, world, monkeypatch):
    monkeypatch.setattr("jupyter_gq.controller.requests.logs.LOG_PART", 64)
    served = await serve(world.controller)
    log = "".join(f"epoch {number} loss {number * number}\n" for number in range(1, 40)) + "loss: nan"
    job = await sent(world, served, log)
    query, found, parts = "contains=loss%201", [], 0
    position = ""
    while True:
        answer = await read(served, f"{job}/log/lines?{query}{position}")
        parts += 1
        found += [(each["line"], each["text"]) for each in answer["lines"]]
        if answer["next"] is None:
            break
        position = f"&start={answer['next']}&line={answer['next_line']}"
    expected = [(number, line) for number, line in enumerate(log.split("\n"), 1) if "loss 1" in line]
    assert found == expected
    assert parts > 5
    assert (await read(served, f"{job}/log/lines?contains=nan&start={log.index('loss: nan')}&line=40"))["lines"] == [
        {"line": 40, "text": "loss: nan"}
    ]


async def test_a_text_is_no_expression_and_has_its_bounds(serve, world):
    served = await serve(world.controller)
    job = await sent(world, served, "a.c\nabc\n")
    assert (await read(served, f"{job}/log/lines?contains=a.c"))["lines"] == [{"line": 1, "text": "a.c"}]
    assert len((await read(served, f"{job}/log/lines"))["lines"]) == 2
    for text in ("x" * 201, "%0A", "%00"):
        status, problem = await served.problem("GET", f"api/v1/jobs/{job}/log/lines?contains={text}")
        assert (status, problem["field"]) == (422, "contains")


async def test_many_and_long_lines_are_shown_in_part(serve, world):
    served = await serve(world.controller)
    job = await sent(world, served, "match\n" * 500 + "x" * 3000 + "needle" + "y" * 3000 + "\n")
    first = await read(served, f"{job}/log/lines?contains=match")
    assert (len(first["lines"]), first["next"], first["next_line"]) == (200, 1200, 201)
    (line,) = (await read(served, f"{job}/log/lines?contains=needle"))["lines"]
    assert (line["line"], len(line["text"]), "xneedley" in line["text"]) == (501, 1000, True)


@pytest.mark.parametrize(("who", "status"), [("ann", 200), ("root", 200), ("bob", 404)])
@pytest.mark.parametrize("what", ["size", "content", "lines"])
async def test_only_those_who_see_a_job_see_its_log(serve, world, who, status, what):
    served = await serve(world.controller)
    job = await sent(world, served, "secret\n")
    answer = await served.ask("GET", f"api/v1/jobs/{job}/log/{what}", token=who)
    assert (answer.code, b"secret" in answer.body) == (status, status == 200 and what != "size")


async def test_a_task_that_the_job_lacks_is_named(serve, world):
    served = await serve(world.controller)
    job = await sent(world, served, "x")
    for what in ("content", "lines"):
        status, problem = await served.problem("GET", f"api/v1/jobs/{job}/log/{what}?task=3")
        assert (status, problem["message"][-34:]) == (404, "has no task 3: it has only task 0.")


@given(st.lists(st.text("ab", max_size=4), max_size=12), st.sampled_from(["a", "ab", "bb", ""]))
async def test_each_line_is_found_once_with_its_number(lines, text):
    content = "\n".join(lines).encode()
    found, searched, line = search(content, text.encode(), 1)
    kept = lines[:-1] if lines and not lines[-1] else lines  # nothing follows the last line end
    assert [(each.line, each.text) for each in found] == [
        (number, each) for number, each in enumerate(kept, 1) if text in each
    ]
    assert (searched, line) == (len(content), 1 + content.count(b"\n"))
