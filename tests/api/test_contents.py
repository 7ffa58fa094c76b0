"""Large contents of jobs outside the database, as users and pods see them, also while that place is away."""

import asyncio
import base64
import hashlib
import json
import logging

import pytest

from jupyter_gq.backends.kubernetes.contents_at_url import ContentsAtUrl
from jupyter_gq.backends.kubernetes.place import Place
from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import JobSubmission, ResultsReport
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.requests.file_threads import MOST
from jupyter_gq.domain.errors import NotFound, NotThisRun
from jupyter_gq.store.outside import OutsideContent
from tests.fakes.file_systems import AnswersNothing, RefusesWhileClosed
from tests.frozen import list_frozen, split
from tests.patience import eventually, scaled

from .world import World, make_bundle, submission

pytestmark = pytest.mark.asyncio
MODULE, DATA = b"WIDTH = 7\n", b"0123456789" * 500_000
FILES = {"model.py": MODULE, "data.csv": DATA}


def open_contents(fs, **times):
    place = Place(fs=fs, root="bucket", shown="s3://bucket")
    return ContentsAtUrl(place, "a" * 16, **{"timeout": scaled(20), "probe_every": 0.01, **times})


@pytest.fixture
def fs():
    return RefusesWhileClosed()


@pytest.fixture
def world(tmp_path, fs):
    world = World(tmp_path, stores_files=True, contents=open_contents(fs))
    yield world
    world.contents.close()
    world.close()


def bundle_of(files, *, large=False):
    bundle = make_bundle()
    bundle["manifest"]["files"] = list_frozen(files)
    if large:
        bundle["notebook"]["cells"][0]["source"] = "x = 1\n" * 20_000
    return submission(bundle).model_dump()


async def put(served, *parts, token="ann"):
    contents = [base64.b64encode(part).decode() for part in parts]
    return await served.ask("POST", "api/v1/files", body={"contents": contents}, token=token)


async def send(served, body):
    answer = await served.ask("POST", "api/v1/jobs", body=body)
    assert answer.code == 201, answer.body
    return answer.headers["Location"].removeprefix("jobs/")


async def test_large_contents_are_at_the_url_and_a_pod_fetches_them_through_the_service(serve, world, fs):
    served = await serve(world.controller)
    assert (await put(served, MODULE, *split(DATA))).code == 204
    body = bundle_of(FILES, large=True)
    job = await send(served, body)
    assert len(fs.objects) == 3, "two parts and the bundle; what is small is in the database"
    assert {path.rpartition("/")[2] for path in fs.objects} == world.store.outside_names()
    assert not any("ann" in path or "data" in path or job in path for path in fs.objects)
    file = world.folder / "service.sqlite"
    assert file.stat().st_size < 2_000_000
    await world.steps()
    token = world.job_token(job)
    got = [(await served.ask("GET", f"api/v1/jobs/{job}/files?start={start}", token=token)).body for start in range(4)]
    assert got == [MODULE, *split(DATA), b""]
    answer = json.loads((await served.ask("GET", f"api/v1/jobs/{job}/bundle", token=token)).body)
    assert answer["notebook"] == body["bundle"]["notebook"]


async def test_a_content_is_uploaded_once_for_each_user(serve, world, fs):
    served = await serve(world.controller)
    large = split(DATA)[0]
    for token in ("ann", "ann", "bob"):
        assert (await put(served, large, token=token)).code == 204
    assert len(fs.objects) == 2


@pytest.mark.parametrize("damaged", [False, True])
async def test_what_is_lost_at_the_place_is_sent_again_and_then_usable(serve, world, fs, damaged):
    served = await serve(world.controller)
    large = split(DATA)[0]
    world.settings.change(max_user_file_bytes=len(large))
    assert (await put(served, large)).code == 204
    digest = hashlib.sha256(large).hexdigest()
    asked = {"parts": [digest]}
    for path in list(fs.objects):
        fs.objects[path] = b"half"
        if not damaged:
            del fs.objects[path]
    await send(served, bundle_of({"data.csv": large}))
    (name,) = world.store.outside_names()
    with pytest.raises(NotFound):
        world.contents.get([OutsideContent(name=name, size=len(large))])
    told = await served.ask("POST", "api/v1/files/missing", body=asked)
    assert json.loads(told.body)["missing"] == [digest]
    assert (await put(served, large)).code == 204
    told = await served.ask("POST", "api/v1/files/missing", body=asked)
    assert json.loads(told.body)["missing"] == []
    job = await send(served, bundle_of({"data.csv": large}))
    await world.steps()
    assert world.controller.files.read_all(job) == large


@pytest.mark.parametrize("limit", ["max_jobs_per_user", "max_jobs_per_queue", "max_user_database_bytes", "queue"])
async def test_a_job_above_a_limit_uploads_nothing(serve, world, fs, limit):
    served = await serve(world.controller)
    body = bundle_of({}, large=True)
    await send(served, bundle_of({}))
    if limit == "queue":
        body["queue"] = "no-such"
    else:
        world.settings.change(**{limit: 1})
        await world.controller.database_limit.measure()
    answer = await served.ask("POST", "api/v1/jobs", body=body)
    assert answer.code in {404, 422, 429}, answer.body
    assert fs.objects == {}


async def test_concurrent_uploads_of_one_content_stay_readable(serve, world, fs):
    served = await serve(world.controller)
    answers = await asyncio.gather(*(put(served, *split(DATA)) for _ in range(4)))
    assert [answer.code for answer in answers] == [204] * 4
    assert world.store.parts_size("ann") == len(DATA)
    named = world.store.outside_names()
    assert len(named) == 2
    assert named <= {path.rpartition("/")[2] for path in fs.objects}


async def test_the_limit_of_a_user_counts_what_is_outside(serve, world):
    world.settings.change(max_user_file_bytes=len(DATA))
    served = await serve(world.controller)
    assert (await put(served, *split(DATA))).code == 204
    status = await put(served, b"another" * 10_000)
    assert status.code == 429
    assert "at most" in status.body.decode()


async def test_concurrent_uploads_never_exceed_the_limit_of_a_user(serve, tmp_path):
    fs = AnswersNothing()
    world = World(tmp_path, stores_files=True, contents=open_contents(fs))
    world.settings.change(max_user_file_bytes=150_000)
    served = await serve(world.controller)
    sent = [asyncio.create_task(put(served, letter * 100_000)) for letter in (b"a", b"b")]
    await eventually(lambda: fs.calls == 2)
    fs.answer.set()
    assert sorted([(await each).code for each in sent]) == [204, 429]
    assert world.store.parts_size("ann") == 100_000
    world.close()


async def test_while_the_place_is_away_jobs_are_refused_and_what_runs_goes_on(serve, world, fs, caplog):
    served = await serve(world.controller)
    assert (await put(served, *split(DATA))).code == 204
    job = await send(served, bundle_of({"data.csv": DATA}))
    await world.steps()
    fs.closed = True
    with caplog.at_level(logging.INFO):
        for path, body in (
            ("api/v1/files", {"contents": [base64.b64encode(b"new" * 50_000).decode()]}),
            ("api/v1/jobs", bundle_of({}, large=True)),
        ):
            status, problem = await served.problem("POST", path, body=body)
            assert (status, problem["code"]) == (503, "contents_unavailable")
            assert problem["message"].startswith("The place where the service keeps large files of jobs cannot be used")
            assert not any(word in problem["message"] for word in ("s3://", "403")), "that is for administrators"
        token = world.job_token(job)
        status, problem = await served.problem("GET", f"api/v1/jobs/{job}/files?start=0", token=token)
        assert (status, problem["code"]) == (503, "contents_unavailable"), "the pod waits and tries again"
        health = world.controller.status.check_health()
        assert health.code == "contents_away"
        assert world.contents.trouble in health.failures
        await send(served, bundle_of({}))
        await world.steps()
        assert world.controller.status.check_health().runs == "ok"
    assert "Traceback" not in caplog.text
    assert "hidden-word" not in caplog.text
    fs.closed = False
    await eventually(lambda: world.contents.trouble == "")
    got = await served.ask("GET", f"api/v1/jobs/{job}/files?start=0", token=token)
    assert got.body == split(DATA)[0]
    await send(served, bundle_of({}, large=True))


async def test_a_place_without_answers_keeps_no_other_request_waiting(serve, tmp_path):
    fs = AnswersNothing()
    world = World(tmp_path, stores_files=True, contents=open_contents(fs))
    served = await serve(world.controller)
    waiting = asyncio.create_task(served.ask("POST", "api/v1/jobs", body=bundle_of({}, large=True)))
    await eventually(fs.asked.is_set)
    await send(served, bundle_of({}))
    assert not waiting.done()
    fs.answer.set()
    assert (await waiting).code == 201
    world.close()


async def test_a_run_that_ends_while_its_bundle_is_fetched_gets_none(tmp_path):
    fs = AnswersNothing()
    fs.answer.set()
    world = World(tmp_path, stores_files=True, contents=open_contents(fs))
    caller = Caller(user="ann", groups=frozenset({"vision"}))
    sent = JobSubmission(**bundle_of({}, large=True))
    async with world.controller.jobs.staged(caller, sent, None):
        job = world.controller.jobs.submit(caller, sent, None)[0].id
    await world.steps()
    fs.answer.clear()
    fs.asked.clear()
    fetched = asyncio.create_task(world.controller.pods.read_bundle(job, 0))
    await eventually(fs.asked.is_set)
    world.machine.end(job, Outcome.LOST)
    await world.steps(6)
    fs.answer.set()
    with pytest.raises(NotThisRun):
        await fetched
    assert world.store.get(job).detail.tasks_with_bundle == ()
    world.close()


async def test_what_was_sent_before_the_url_was_set_is_read_from_the_database(serve, tmp_path, fs):
    world = World(tmp_path, stores_files=True)
    served = await serve(world.controller)
    assert (await put(served, *split(DATA))).code == 204
    world.close()
    world = World(tmp_path, stores_files=True, contents=open_contents(fs))
    served = await serve(world.controller)
    job = await send(served, bundle_of({"data.csv": DATA}))
    assert fs.objects == {}, "what is stored already is not sent again"
    await world.steps()
    got = await served.ask("GET", f"api/v1/jobs/{job}/files?start=0", token=world.job_token(job))
    assert got.body == split(DATA)[0]
    world.close()


async def test_a_job_that_is_refused_after_its_upload_leaves_nothing(serve, world, fs):
    served = await serve(world.controller)
    answer = await served.ask("POST", "api/v1/jobs", body={**bundle_of({}, large=True), "gpus": 64})
    assert answer.code in {409, 422}, answer.body
    await eventually(lambda: fs.objects == {})


async def test_one_job_that_is_sent_twice_at_once_is_uploaded_once_in_the_end(serve, tmp_path):
    fs = AnswersNothing()
    world = World(tmp_path, stores_files=True, contents=open_contents(fs))
    served = await serve(world.controller)
    body, key = bundle_of({}, large=True), {"Idempotency-Key": "one"}
    sent = [asyncio.create_task(served.ask("POST", "api/v1/jobs", body=body, **key)) for _ in range(2)]
    await eventually(lambda: fs.calls == 2)
    fs.answer.set()
    assert sorted([(await each).code for each in sent]) == [200, 201]
    await eventually(lambda: len(fs.objects) == 1)
    world.close()


async def bring_back(world, job, content):
    """Let a run of the job bring back a file with this content."""
    await world.controller.pods.add_result_parts(job, [base64.b64encode(content).decode()])
    kept = {"path": "files/a", "bytes": len(content), "parts": [hashlib.sha256(content).hexdigest()]}
    listed = {"python": "3.12", "variables": [], "files": [{"path": "a", "bytes": len(content)}]}
    world.controller.pods.store_results(job, ResultsReport(results=listed, contents=[kept]))


async def test_results_from_a_place_without_answers_hold_up_no_other_files(serve, tmp_path):
    fs = AnswersNothing()
    fs.answer.set()
    world = World(tmp_path, stores_files=True, contents=open_contents(fs))
    served = await serve(world.controller)
    slow, quick = await send(served, bundle_of({}, large=True)), await send(served, bundle_of({}))
    await world.steps()
    await bring_back(world, slow, b"x" * 50_000)
    await bring_back(world, quick, b"small")
    fs.answer.clear()
    content = "api/v1/jobs/{}/results/content?path=files/a&start=0"
    waits = [asyncio.create_task(served.ask("GET", content.format(slow))) for _ in range(MOST + 1)]
    waits += [asyncio.create_task(served.ask("GET", f"api/v1/jobs/{slow}/notebook")) for _ in range(MOST + 1)]
    await eventually(lambda: fs.calls > 2)
    for path in (content.format(quick), f"api/v1/jobs/{quick}/log", f"api/v1/jobs/{slow}/results"):
        assert (await served.ask("GET", path)).code == 200, "the files of this user that are in the database"
    assert (await served.ask("GET", f"api/v1/jobs/{quick}/bundle", token=world.job_token(quick))).code == 200
    assert not any(each.done() for each in waits)
    fs.answer.set()
    assert {(await each).code for each in waits} == {200, 404}
    world.close()


async def test_bundles_at_a_place_without_answers_hold_up_no_job_whose_bundle_is_in_the_database(serve, tmp_path):
    fs = AnswersNothing()
    fs.answer.set()
    world = World(tmp_path, stores_files=True, contents=open_contents(fs))
    served = await serve(world.controller)
    jobs = [await send(served, {**bundle_of({}, large=large), "gpus": "0.1"}) for large in (True, True, False)]
    await world.steps()
    fs.answer.clear()
    before = fs.calls

    def fetch(job):
        return asyncio.create_task(served.ask("GET", f"api/v1/jobs/{job}/bundle", token=world.job_token(job)))

    waits = [fetch(job) for job in jobs[:2] for _ in range(3)]
    await eventually(lambda: fs.calls == before + 4)
    assert (await fetch(jobs[2])).code == 200
    assert not any(each.done() for each in waits)
    fs.answer.set()
    assert {(await each).code for each in waits} == {200}
    world.close()
