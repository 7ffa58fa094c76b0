"""The service of a gang exists as long as the gang has work, whatever happened to the first request for it."""

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.api.errors import Exists, Refused, Unreachable
from jupyter_gq.backends.kubernetes.api.resources import SERVICES
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.protocol import Launch, Outcome, Phase
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload_detail import WorkloadDetail

from .paper_backend import PaperBackend
from .test_training import a_gang

pytestmark = pytest.mark.asyncio

SERVICE = names.gang_name("job-gang", 1)
TASKS = ("n1/0", "n1/1")


class ServicesFail:
    """The API server answers each creation of a service with what is next in `answers`: an error, or success."""

    def __init__(self, cluster, *answers, found=None):
        self.answers, self.asked, self.found, self._create = list(answers), 0, found, cluster.create
        cluster.create, cluster.get = self.create, self.get

    async def create(self, resource, body):
        if resource is SERVICES:
            self.asked += 1
            if self.answers and (answer := self.answers.pop(0)) is not None:
                raise answer
        return await self._create(resource, body)

    async def get(self, resource, namespace, name):
        return self.found


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


async def settle():
    for _ in range(9):
        await asyncio.sleep(0)


async def launch(paper, state=State.STARTING):
    await paper.runs.observe()
    await paper.runs.launch(Launch(workload=replace(a_gang(), state=state), detail=WorkloadDetail(image="i")))
    await settle()


def show_tasks(paper, **fields):
    """Both pods are seen."""
    for task, slot in enumerate(TASKS):
        paper.pod("job-gang", slot, task=task, tasks=2, **fields)


async def look(paper, times=1):
    for _ in range(times):
        seen = await paper.observed("job-gang")
        await settle()
        paper.clock.at += 1
    return seen


@pytest.mark.parametrize(
    "failure",
    [Unreachable("It is busy.", status=429), Unreachable("It timed out."), Unreachable("Failed.", status=500)],
)
@pytest.mark.parametrize("fields", [{"has_run": True}, {"phase": "Pending"}])
async def test_a_service_that_could_not_be_made_is_asked_for_until_it_exists(paper, failure, fields):
    services = ServicesFail(paper.cluster, failure, failure, failure)
    await launch(paper)
    show_tasks(paper, **fields)
    seen = await look(paper)
    assert seen.sentence == failure.sentence, "its owner is told"
    seen = await look(paper, 12)
    assert (SERVICE in paper.cluster.made, services.asked, seen.sentence) == (True, 4, "")
    await look(paper, 5)
    assert services.asked == 4


async def test_a_gang_whose_service_is_refused_is_refused_with_that_reason_although_its_pods_run(paper):
    ServicesFail(paper.cluster, Unreachable("It is busy.", status=429), Refused("exceeded quota: services", status=403))
    await launch(paper)
    show_tasks(paper, has_run=True)
    await look(paper, 4)
    assert len(paper.cluster.deleted) == 2
    for task in range(2):
        paper.no_task("job-gang", task)
    seen = await look(paper)
    assert (seen.phase, seen.outcome, seen.sentence) == (Phase.ENDED, Outcome.REFUSED, "exceeded quota: services")


@pytest.mark.parametrize("state", [State.STARTING, State.RUNNING])
async def test_a_restart_between_the_pods_and_their_service_leaves_no_gang_without_it(paper, state):
    show_tasks(paper, has_run=True)
    await launch(paper, state)
    seen = await look(paper, 2)
    assert (seen.phase, SERVICE in paper.cluster.made) == (Phase.RUNNING, True)


@pytest.mark.parametrize(
    "failure", [Exists("It is there."), Refused("exceeded quota", status=403), Unreachable("webhook", status=500)]
)
async def test_a_gang_that_runs_goes_on_after_a_restart_if_its_service_is_there(paper, failure):
    labels = {names.INSTALLATION: "gq", names.WORKLOAD: "job-gang", names.ATTEMPT: "1"}
    found = {"metadata": {"namespace": "train", "name": SERVICE, "labels": labels}}
    services = ServicesFail(paper.cluster, *[failure] * 99, found=found)
    show_tasks(paper, has_run=True)
    await launch(paper, State.RUNNING)
    seen = await look(paper, 90)
    assert (seen.phase, seen.sentence, services.asked, paper.cluster.deleted) == (Phase.RUNNING, "", 1, [])


async def test_what_has_ended_needs_no_service(paper):
    services = ServicesFail(paper.cluster, Refused("exceeded quota"))
    show_tasks(paper, phase="Succeeded", has_run=True)
    await paper.runs.launch(Launch(workload=replace(a_gang(), state=State.RUNNING), detail=WorkloadDetail()))
    seen = await look(paper, 2)
    assert (seen.phase, services.asked) == (Phase.ENDED, 0)
