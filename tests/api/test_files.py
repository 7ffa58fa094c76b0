"""Files of a project go along with a job: only missing parts are sent, each user alone knows the own ones."""

import base64
import json

import pytest

from jupyter_gq.client.files.frozen_files import PART_SIZE
from jupyter_gq.store.protocol import PageSize
from tests.frozen import digest, list_frozen, split

from .world import World, make_bundle, submission

pytestmark = pytest.mark.asyncio
MODULE, DATA = b"WIDTH = 7\n", b"0123456789" * 500_000
FILES = {"model.py": MODULE, "copy/model.py": MODULE, "data.csv": DATA, "empty.txt": b""}


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path)
    yield world
    world.close()


def bundle_of(files):
    bundle = make_bundle()
    bundle["manifest"]["files"] = list_frozen(files)
    return bundle


async def put(served, *parts, token="ann"):
    contents = [base64.b64encode(part).decode() for part in parts]
    return (await served.ask("POST", "api/v1/files", body={"contents": contents}, token=token)).code


async def find_missing(served, *parts, token="ann"):
    question = {"parts": [digest(part) for part in parts]}
    answer = await served.ask("POST", "api/v1/files/missing", body=question, token=token)
    return json.loads(answer.body)["missing"]


async def test_only_what_is_missing_is_asked_for_and_nobody_learns_what_another_user_has(serve, world):
    served = await serve(world.controller)
    first, second = split(DATA)
    assert await find_missing(served, MODULE, first, MODULE) == [digest(MODULE), digest(first)]
    assert await put(served, MODULE, first) == 204
    assert await find_missing(served, MODULE, first, second) == [digest(second)]
    assert await find_missing(served, MODULE, token="bob") == [digest(MODULE)]


async def test_a_job_gets_its_files_on_this_machine(serve, world):
    served = await serve(world.controller)
    assert await put(served, MODULE, *split(DATA)) == 204
    answer = await served.ask("POST", "api/v1/jobs", body=submission(bundle_of(FILES)).model_dump())
    assert answer.code == 201, answer.body
    (pack,) = world.bundles.packs.values()
    assert pack == MODULE + MODULE + DATA


async def test_a_pod_fetches_the_files_in_parts_with_the_token_of_its_job(serve, tmp_path):
    world = World(tmp_path, stores_files=True)
    served = await serve(world.controller)
    await put(served, MODULE, *split(DATA))
    answer = await served.ask("POST", "api/v1/jobs", body=submission(bundle_of(FILES)).model_dump())
    job = answer.headers["Location"].removeprefix("jobs/")
    await world.steps()
    token = world.job_token(job)
    got = [
        (await served.ask("GET", f"api/v1/jobs/{job}/files?start={start}", token=token)).body for start in (0, 2, 3, 4)
    ]
    assert got == [MODULE + MODULE, *split(DATA), b""]
    assert (await served.ask("GET", f"api/v1/jobs/{job}/files", token="ann")).code in {401, 403}
    world.close()


async def test_a_job_whose_files_are_not_there_is_refused_and_leaves_nothing(serve, world):
    served = await serve(world.controller)
    await put(served, MODULE, token="bob")
    status, problem = await served.problem("POST", "api/v1/jobs", body=submission(bundle_of(FILES)).model_dump())
    assert (status, problem["code"]) == (409, "conflict")
    assert world.bundles.kept == {}
    assert world.store.parts("job-1", 0, PageSize(entries=10)) == ()


async def test_a_file_cannot_claim_to_be_smaller_than_its_parts(serve, world):
    served = await serve(world.controller)
    assert await put(served, MODULE) == 204
    bundle = bundle_of({"model.py": MODULE})
    bundle["manifest"]["files"][0]["bytes"] = 1
    status, problem = await served.problem("POST", "api/v1/jobs", body=submission(bundle).model_dump())
    assert (status, problem["code"]) == (409, "conflict")
    assert "have another size" in problem["message"]
    assert world.bundles.kept == {}


async def test_the_files_of_a_job_and_those_of_a_user_are_bounded(serve, world):
    served = await serve(world.controller)
    world.settings.change(max_job_file_bytes=1000, max_user_file_bytes=6_000_000)
    assert await put(served, MODULE, *split(DATA)) == 204
    assert await put(served, bytes(1_000_000)) == 429
    assert await put(served, bytes(1_000_000), token="bob") == 204
    status, problem = await served.problem("POST", "api/v1/jobs", body=submission(bundle_of(FILES)).model_dump())
    assert (status, problem["code"]) == (413, "too_large")


@pytest.mark.parametrize(
    "contents", [["?"], [""], ["abc"], [base64.b64encode(bytes(PART_SIZE + 1)).decode()], [3]], ids=str
)
async def test_what_is_no_part_is_refused(serve, world, contents):
    served = await serve(world.controller)
    status, _ = await served.problem("POST", "api/v1/files", body={"contents": contents})
    assert status == 422


@pytest.mark.parametrize(
    "change",
    [
        {"path": "../model.py"},
        {"path": "/etc/passwd"},
        {"path": "a//b"},
        {"path": ""},
        {"path": "a\nb"},
        {"path": "a" * 300},
        {"parts": []},
        {"parts": ["x"]},
        {"bytes": 0},
        {"mode": 1},
    ],
    ids=str,
)
async def test_what_is_no_file_of_a_project_is_refused(serve, world, change):
    served = await serve(world.controller)
    bundle = bundle_of({"model.py": MODULE})
    bundle["manifest"]["files"][0] |= change
    document = {"queue": "vision", "gpus": "0.5", "bundle": bundle}
    status, problem = await served.problem("POST", "api/v1/jobs", body=document)
    assert (status, problem["field"].startswith("bundle.manifest.files")) == (422, True)


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b"), ("a/b/c", "a")])
async def test_files_that_are_in_each_others_way_are_refused(serve, world, paths):
    served = await serve(world.controller)
    bundle = make_bundle()
    bundle["manifest"]["files"] = [entry for path in paths for entry in list_frozen({path: b"1"})]
    document = {"queue": "vision", "gpus": "0.5", "bundle": bundle}
    status, problem = await served.problem("POST", "api/v1/jobs", body=document)
    assert (status, problem["field"]) == (422, "bundle.manifest.files")


async def test_a_part_is_deleted_a_day_after_its_last_job(serve, world):
    served = await serve(world.controller)
    await put(served, MODULE, b"unused")
    await served.ask("POST", "api/v1/jobs", body=submission(bundle_of({"model.py": MODULE})).model_dump())
    assert await world.controller.retention.sweep_parts() == 0
    world.clock.forward(2 * 24 * 3600)
    assert await world.controller.retention.sweep_parts() == 1
    assert await find_missing(served, MODULE, b"unused") == [digest(b"unused")]
    (job,) = world.bundles.kept
    world.store.delete_files(job)
    world.clock.forward(2 * 24 * 3600)
    assert await world.controller.retention.sweep_parts() == 1
