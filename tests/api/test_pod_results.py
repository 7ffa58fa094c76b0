"""What a pod brings back is bounded, belongs to the owner of its job, and is written by the job's own run alone."""

import base64
import json

import pytest

from jupyter_gq.client.files.frozen_files import PART_SIZE
from jupyter_gq.store.protocol import PageSize
from tests.frozen import digest, split

from .world import World, make_bundle, submission

pytestmark = pytest.mark.asyncio
DATA = b"0123456789" * 500_000


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path, stores_files=True)
    yield world
    world.close()


async def start(served, world):
    """Send a job of ann; return its id and the token of its run."""
    answer = await served.ask("POST", "api/v1/jobs", body=submission(make_bundle()).model_dump())
    job = answer.headers["Location"].removeprefix("jobs/")
    await world.steps()
    return job, world.job_token(job)


async def put_parts(served, job, token, *parts):
    contents = [base64.b64encode(part).decode() for part in parts]
    return (await served.ask("POST", f"api/v1/jobs/{job}/results/parts", body={"contents": contents}, token=token)).code


def report_of(files, **changes):
    """The report on files of these contents."""
    listed = [{"path": path, "bytes": len(content)} for path, content in files.items()]
    contents = [
        {"path": f"files/{path}", "bytes": len(content), "parts": [digest(part) for part in split(content)]}
        for path, content in files.items()
    ]
    return {"results": {"files": listed}, "contents": contents} | changes


async def put_report(served, job, token, report):
    return (await served.ask("PUT", f"api/v1/jobs/{job}/results", body=report, token=token)).code


async def read(served, job, path, start=0, token="ann"):
    return await served.ask("GET", f"api/v1/jobs/{job}/results/content?path={path}&start={start}", token=token)


async def test_results_of_a_pod_are_listed_and_read_in_parts_by_their_owner(serve, world):
    served = await serve(world.controller)
    job, token = await start(served, world)
    assert await put_parts(served, job, token, *split(DATA)) == 204
    assert await put_report(served, job, token, report_of({"a/data.csv": DATA, "empty": b""})) == 204
    listed = json.loads((await served.ask("GET", f"api/v1/jobs/{job}/results")).body)
    assert [(file["path"], file["bytes"]) for file in listed["files"]] == [("a/data.csv", len(DATA)), ("empty", 0)]
    found = [(await read(served, job, "files/a/data.csv", at)).body for at in (0, PART_SIZE, len(DATA), 10**12)]
    assert found == [*split(DATA), b"", b""]
    assert (await read(served, job, "files/empty")).body == b""
    assert (await read(served, job, "files/a/data.csv", token="bob")).code == 404
    assert (await read(served, job, "files/a/data.csv", token="root")).code == 403


async def test_only_the_present_run_of_the_job_writes_its_results(serve, world):
    served = await serve(world.controller)
    job, token = await start(served, world)
    _, other_token = await start(served, world)
    report = report_of({"empty": b""})
    for bad in (other_token, "ann", "root"):
        assert await put_report(served, job, bad, report) in {401, 403}
        assert await put_parts(served, job, bad, b"x") in {401, 403}
    world.machine.end(job)
    await world.steps()
    assert await put_report(served, job, token, report) == 401, "the run has ended, and its token with it"


async def test_a_part_of_another_user_is_not_there_for_a_report(serve, world):
    served = await serve(world.controller)
    await served.ask("POST", "api/v1/files", body={"contents": [base64.b64encode(b"secret").decode()]}, token="bob")
    job, token = await start(served, world)
    assert await put_report(served, job, token, report_of({"stolen": b"secret"})) == 409
    assert (await served.ask("GET", f"api/v1/jobs/{job}/results")).code == 404


async def test_what_a_job_and_a_user_bring_back_is_bounded(serve, world):
    served = await serve(world.controller)
    job, token = await start(served, world)
    world.settings.change(max_result_bytes=1_000_000, max_user_file_bytes=6_000_000)
    assert await put_parts(served, job, token, *split(DATA)) == 204
    assert await put_parts(served, job, token, bytes(2_000_000)) == 429
    assert await put_report(served, job, token, report_of({"data": DATA})) == 413


async def test_a_report_that_understates_a_size_is_refused(serve, world):
    served = await serve(world.controller)
    job, token = await start(served, world)
    await put_parts(served, job, token, b"0123456789")
    report = report_of({"x": b"01234"})
    report["contents"][0]["parts"] = [digest(b"0123456789")]
    assert await put_report(served, job, token, report) == 409
    assert (await read(served, job, "files/x")).code == 404


@pytest.mark.parametrize(
    "path", ["../bundle.json", "/etc/passwd", "a//b", "a/../b", "", ".", "a\u0000b", "a" * 256, "a\nb"], ids=repr
)
async def test_a_path_that_leads_elsewhere_is_refused(serve, world, path):
    served = await serve(world.controller)
    job, token = await start(served, world)
    assert await put_report(served, job, token, report_of({path: b""})) == 422


@pytest.mark.parametrize(
    "forged",
    [
        {"contents": []},
        {"results": {}},
        {"results": {"files": [{"path": "x", "bytes": 0}, {"path": "x", "bytes": 0}]}, "contents": []},
        {"contents": [{"path": "files/x", "bytes": 5, "parts": []}]},
        {"contents": [{"path": "files/x", "bytes": 0, "parts": []}] * 2},
        {"contents": [{"path": "files/x", "bytes": -1, "parts": []}]},
        {"owner": "bob"},
        {"results": {"files": [{"path": "x", "bytes": 999}]}},
        {
            "results": {"files": [{"path": "x", "bytes": 0}, {"path": "x/y", "bytes": 0}]},
            "contents": [{"path": f"files/{path}", "bytes": 0, "parts": []} for path in ("x", "x/y")],
        },
        {
            "results": {
                "variables": [{"name": "v", "type": "", "bytes": 0, "path": "v.pickle", "reason": "Too large."}]
            },
            "contents": [{"path": "v.pickle", "bytes": 0, "parts": []}],
        },
    ],
    ids=str,
)
async def test_a_report_whose_contents_are_not_those_of_its_list_is_refused(serve, world, forged):
    served = await serve(world.controller)
    job, token = await start(served, world)
    assert await put_report(served, job, token, report_of({"x": b""}) | forged) == 422


async def test_as_many_files_as_the_list_may_have_are_taken_and_one_more_is_said(serve, world):
    served = await serve(world.controller)
    job, token = await start(served, world)
    most = {f"f{number}": b"" for number in range(1000)}
    assert await put_report(served, job, token, report_of(most)) == 204
    answer = await served.ask("PUT", f"api/v1/jobs/{job}/results", body=report_of({**most, "g": b""}), token=token)
    assert answer.code == 422
    assert "1000" in json.loads(answer.body)["message"]
    answer = await served.ask(
        "PUT", f"api/v1/jobs/{job}/results", body=report_of(dict.fromkeys(map(str, range(10_000)), b"")), token=token
    )
    assert answer.code == 400
    assert "is too much: it has more than 50000 values. Send less" in json.loads(answer.body)["message"]


async def test_a_new_report_replaces_the_one_before_and_deletion_takes_all(serve, world):
    served = await serve(world.controller)
    job, token = await start(served, world)
    await put_parts(served, job, token, b"old", b"new")
    for content in (b"old", b"new"):
        assert await put_report(served, job, token, report_of({"x": content})) == 204
    assert (await read(served, job, "files/x")).body == b"new"
    later = world.clock.now() + 10
    assert world.store.delete_unused_parts(later) == 1, "nothing needs the old content"
    assert world.store.parts(job, 0, PageSize(entries=10)) == (), "results are not among what went along"
    world.controller.bundles.delete(job, "ann")
    assert world.store.delete_unused_parts(later) == 1


async def test_where_jobs_are_no_pods_nobody_sends_results(serve, tmp_path):
    world = World(tmp_path)
    served = await serve(world.controller)
    job, token = await start(served, world)
    assert await put_report(served, job, token, report_of({"x": b""})) == 404
    assert await put_parts(served, job, token, b"x") == 404
    world.close()
