"""A file system that does not answer keeps only the requests waiting that read its files."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from dataclasses import replace

import pytest

from jupyter_gq.controller.requests.file_threads import MOST_OF_USER
from tests.fakes import FakeBundles
from tests.patience import eventually, scaled

from .world import CONFIG, World, make_bundle, submission

pytestmark = pytest.mark.asyncio


class FilesDoNotAnswer(FakeBundles):
    """A store of files whose disk answers nothing until `answer` is set, or for a long time."""

    def __init__(self) -> None:
        super().__init__()
        self.asked, self.answer = threading.Event(), threading.Event()
        #: Numbers of calls that wait now, and that have waited at one time.
        self.waiting = self.most = 0

    def _wait(self) -> None:
        self.waiting += 1
        self.most = max(self.most, self.waiting)
        self.asked.set()
        self.answer.wait(scaled(10))
        self.waiting -= 1

    def executed_notebook(self, job, owner):
        self._wait()
        return super().executed_notebook(job, owner)

    def log(self, job, owner, tail, *, run, tasks):
        self._wait()
        return super().log(job, owner, tail, run=run, tasks=tasks)

    def log_span(self, log):
        self._wait()
        return super().log_span(log)

    def results(self, job, owner, *, limit=None):
        self._wait()
        return super().results(job, owner, limit=limit)

    def result_part(self, job, owner, path, start, size):
        self._wait()
        return super().result_part(job, owner, path, start, size)


@pytest.fixture
def world(tmp_path):
    world = World(tmp_path, bundles=FilesDoNotAnswer())
    yield world
    world.bundles.answer.set()
    world.close()


@pytest.mark.parametrize(
    "path",
    [
        "notebook",
        "log",
        "log/size",
        "log/content?task=0&start=0",
        "log/lines?task=0&contains=x",
        "results",
        "results/content?path=a.txt",
    ],
)
async def test_a_request_for_a_file_that_does_not_come_keeps_no_other_request_waiting(serve, world, path):
    served = await serve(world.controller)
    answer = await served.ask("POST", "api/v1/jobs", body=submission(make_bundle()).model_dump())
    job = answer.headers["Location"].removeprefix("jobs/")
    waits = asyncio.ensure_future(served.ask("GET", f"api/v1/jobs/{job}/{path}"))
    await asyncio.to_thread(world.bundles.asked.wait, scaled(10))
    assert (await served.ask("GET", "api/v1/me", "bob")).code == 200
    assert not waits.done()
    world.bundles.answer.set()
    assert (await waits).code in {200, 404}


async def test_many_requests_for_files_that_do_not_come_hold_up_neither_the_loop_nor_other_users(serve, world):
    """The service itself has two threads here. Its loop asks the database in one of these before each step."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(2))
    served = await serve(world.controller)
    answer = await served.ask("POST", "api/v1/jobs", body=submission(make_bundle()).model_dump())
    job = answer.headers["Location"].removeprefix("jobs/")
    waits = [asyncio.ensure_future(served.ask("GET", f"api/v1/jobs/{job}/log")) for _ in range(8)]
    await eventually(lambda: world.bundles.waiting == MOST_OF_USER)
    async with asyncio.timeout(scaled(5)):
        await world.controller.step()
    world.bundles.answer.set()
    assert {(await each).code for each in waits} == {200}
    assert world.bundles.most == MOST_OF_USER


class HomesDoNotAnswer:
    """Secrets in homes whose file server answers nothing until `answer` is set, or for a long time."""

    in_home = True

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def find_missing(self, owner, home, names):
        self.asked.set()
        self.answer.wait(scaled(10))
        return []


@pytest.mark.parametrize("path", ["jobs", "jobs/preview"])
async def test_a_home_that_does_not_answer_keeps_only_its_owner_waiting(serve, tmp_path, path):
    config, homes = deepcopy(CONFIG), HomesDoNotAnswer()
    config.TrainingQueues.secrets = ["HF_TOKEN"]
    world = World(tmp_path, config=config)
    world.machine.capabilities = replace(world.machine.capabilities, secrets=homes)
    served = await serve(world.controller)
    bundle = make_bundle()
    bundle["manifest"]["secrets"] = ["HF_TOKEN"]
    body = (
        submission(bundle).model_dump()
        if path == "jobs"
        else {"queue": "vision", "gpus": "0.5", "secrets": ["HF_TOKEN"]}
    )
    waits = asyncio.ensure_future(served.ask("POST", f"api/v1/{path}", body=body))
    await asyncio.to_thread(homes.asked.wait, scaled(10))
    assert (await served.ask("GET", "api/v1/me", "bob")).code == 200
    assert not waits.done()
    homes.answer.set()
    assert (await waits).code in {200, 201}
    world.close()
