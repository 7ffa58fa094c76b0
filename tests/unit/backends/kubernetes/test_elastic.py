"""Elastic runs of pods on paper: tasks join and leave, also over a restart, and the run goes on if one cannot join."""

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.api.views import PodView
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.runs.membership import derive_membership
from jupyter_gq.backends.protocol import Launch, Outcome, Phase
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Leaving, Stop, TaskPlacement
from jupyter_gq.domain.workload_detail import WorkloadDetail
from tests.builders import a_job

from .paper_backend import PaperBackend

JOB = "job-grows"


def places(*slots):
    return tuple(TaskPlacement(node=slot.partition("/")[0], devices=(slot,)) for slot in slots)


def elastic(*slots, state=State.STARTING, **fields):
    """A job that may have 2 to 4 tasks, with one at each of these slots."""
    job = a_job("grows", "vision", 1, id=JOB, tasks=4, min_members=2, run=1, **fields)
    return replace(job, placement=places(*slots), state=state)


def told_to_leave(*slots):
    stop = Stop(reason=EvictReason.RECLAIMED, sentence="", by=None, at=Instant(0), requeue=True)
    return tuple(Leaving(task=place, stop=stop) for place in places(*slots))


def task_pod(task, slot, **fields):
    labels = {names.WORKLOAD: JOB, names.ATTEMPT: "1", names.TASK: str(task)}
    pod = PodView(
        namespace="train",
        name=names.training_name(JOB, 1, task),
        uid=f"uid-{task}",
        node=slot.partition("/")[0],
        phase="Running",
        has_run=True,
        labels=labels,
        annotations={names.SLOTS: slot, names.TASKS: "4"},
    )
    return replace(pod, **fields)


class Paper(PaperBackend):
    """Two nodes with two devices each."""

    def see(self, task, slot, **fields):
        """The pod of that task is seen on that slot."""
        self.runs._job_pods.copy.put(task_pod(task, slot, **fields, version=self._next()))

    async def settle(self):
        for _ in range(9):
            await asyncio.sleep(0)
        return await self.observed(JOB)

    async def start(self, *slots, **fields):
        job = elastic(*slots, **fields)
        await self.runs.observe()
        await self.runs.launch(Launch(workload=job, detail=WorkloadDetail(image="i")))
        await self.settle()
        for task, slot in enumerate(slots):
            self.see(task, slot)
        return job, await self.settle()

    async def resize(self, *slots, grace=30):
        await self.runs.resize(elastic(*slots), WorkloadDetail(), {}, grace)
        return await self.settle()


@pytest_asyncio.fixture
async def paper():
    made = Paper("n1", "n2")
    yield made
    await made.close()


def names_of(*tasks):
    return [names.training_name(JOB, 1, task) for task in tasks]


@pytest.mark.asyncio
async def test_a_task_leaves_with_its_grace_and_another_one_gets_its_number_later(paper):
    _, seen = await paper.start("n1/0", "n1/1", "n2/0")
    assert (seen.phase, seen.placement, seen.closed) == (Phase.RUNNING, places("n1/0", "n1/1", "n2/0"), False)
    seen = await paper.resize("n1/0", "n2/0")
    assert (seen.placement, seen.leaving) == (places("n1/0", "n2/0"), places("n1/1"))
    assert paper.cluster.deleted == names_of(1)
    assert paper.runs.present_tasks(JOB, 1) == (0, 2)
    seen = await paper.resize("n1/0", "n2/0", "n2/1")
    assert names_of(3)[0] in paper.cluster.made, "number 1 is in use as long as its pod exists"
    paper.see(3, "n2/1")
    paper.see(1, "n1/1", phase="Failed", terminating=True)
    assert (await paper.settle()).leaving == places("n1/1")
    paper.no_task(JOB, 1)
    seen = await paper.settle()
    assert (seen.phase, seen.placement, seen.leaving) == (Phase.RUNNING, places("n1/0", "n2/0", "n2/1"), ())
    before = paper.cluster.made.count(names_of(1)[0])
    await paper.resize("n1/0", "n2/0", "n2/1", "n1/1")
    assert paper.cluster.made.count(names_of(1)[0]) == before + 1
    assert paper.runs.present_tasks(JOB, 1) == (0, 1, 2, 3)


@pytest.mark.asyncio
async def test_task_0_never_leaves(paper):
    await paper.start("n1/0", "n1/1", "n2/0")
    with pytest.raises(BackendError, match="Task 0"):
        await paper.resize("n1/1", "n2/0")
    assert (await paper.settle()).placement == places("n1/0", "n1/1", "n2/0")


@pytest.mark.asyncio
async def test_a_task_that_cannot_join_is_given_up_for_a_minute_and_the_others_run_on(paper):
    await paper.start("n1/0", "n1/1")
    await paper.resize("n1/0", "n1/1", "n2/0")
    paper.see(2, "n2/0", phase="Failed", has_run=False, reason="UnexpectedAdmissionError", message="no devices left")
    seen = await paper.settle()
    assert (seen.phase, seen.placement, seen.leaving) == (Phase.RUNNING, places("n1/0", "n1/1"), places("n2/0"))
    assert seen.closed
    assert seen.sentence == ("No task can be added to this run. The node n2 rejected the pod: no devices left.")
    paper.no_task(JOB, 2)
    assert (await paper.resize("n1/0", "n1/1", "n2/1")).placement == places("n1/0", "n1/1")
    paper.clock.at += 61
    seen = await paper.settle()
    assert (seen.closed, seen.sentence, seen.leaving) == (False, "", ())
    assert len((await paper.resize("n1/0", "n1/1", "n2/1")).placement) == 3


@pytest.mark.asyncio
async def test_no_task_joins_after_one_has_finished_and_the_run_ends_as_those_that_stayed(paper):
    await paper.start("n1/0", "n1/1", "n2/0")
    await paper.resize("n1/0", "n1/1")
    paper.see(1, "n1/1", phase="Succeeded")
    seen = await paper.resize("n1/0", "n1/1", "n2/1")
    assert (seen.closed, seen.placement) == (True, places("n1/0", "n1/1"))
    paper.see(0, "n1/0", phase="Succeeded")
    assert (await paper.settle()).phase is Phase.RUNNING, "the task that leaves has its device still"
    paper.see(2, "n2/0", phase="Failed", terminating=True)
    seen = await paper.settle()
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.LOST), "pods without a result"


@pytest.mark.parametrize(
    ("pods", "members", "leaving"),
    [
        pytest.param({0: "n1/0", 1: "n1/1", 3: "n2/0"}, {0: "n1/0", 3: "n2/0"}, {1: "n1/1"}, id="not told yet"),
        pytest.param({0: "n1/0", 3: "n2/0"}, {0: "n1/0", 3: "n2/0"}, {}, id="left meanwhile"),
        pytest.param({0: "n1/0"}, {0: "n1/0", 1: "n2/0"}, {}, id="not joined yet"),
        pytest.param({0: "n1/0", 2: "n2/0", 3: "n2/1"}, {0: "n1/0", 2: "n2/0", 3: "n2/1"}, {}, id="unknown place"),
    ],
)
def test_a_new_service_finds_the_tasks_by_their_pods(pods, members, leaving):
    job = elastic("n1/0", "n2/0", leaving=told_to_leave("n1/1"))
    found = derive_membership(job, {task: task_pod(task, slot) for task, slot in pods.items()}, fills=True)
    assert {task: place.devices[0] for task, place in found.members.items()} == members
    assert {task: place.devices[0] for task, place in found.leaving.items()} == leaving


@pytest.mark.asyncio
async def test_a_new_service_goes_on_with_the_tasks_that_leave_and_join(paper):
    paper.see(0, "n1/0")
    paper.see(1, "n1/1")
    job = elastic("n1/0", "n2/0", state=State.RUNNING, leaving=told_to_leave("n1/1"), started_at=Instant(1.0))
    await paper.runs.launch(Launch(workload=job, detail=WorkloadDetail(image="i")))
    seen = await paper.settle()
    assert (seen.phase, seen.placement, seen.leaving) == (Phase.RUNNING, places("n1/0", "n2/0"), places("n1/1"))
    await paper.settle()
    assert paper.cluster.deleted == names_of(1)
    assert names_of(2)[0] in paper.cluster.made


@pytest.mark.asyncio
async def test_a_run_whose_pods_are_all_gone_is_lost_and_gets_no_new_ones(paper):
    job = elastic("n1/0", "n2/0", state=State.RUNNING, started_at=Instant(1.0))
    await paper.runs.launch(Launch(workload=job, detail=WorkloadDetail(image="i")))
    seen = await paper.settle()
    assert (seen.phase, seen.outcome, seen.sentence) == (Phase.ENDED, Outcome.LOST, "The pods of the job are gone.")
    assert paper.cluster.made == []


def test_the_pods_of_an_elastic_job_are_told_where_to_meet_and_where_to_read_their_number():
    from .test_manifests import a_pod

    pod = a_pod(tasks=4, min_members=2, task=1)
    told = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
    assert (told["PET_NNODES"], told["PET_RDZV_ID"], told["GQ_SIZE_FILE"]) == ("2:4", "job-1-3", "/gq/job/size.json")
    assert "WORLD_SIZE" not in told
