"""Jobs that have to end although nobody told them to, and what their nodes are made to answer for."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.api.errors import Refused
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.protocol import Outcome, Phase

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

GIVEN = {names.SLOTS: "n1/0", names.TASKS: "1"}


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend("n1", "n2")
    yield made
    await made.close()


async def settle():
    for _ in range(9):
        await asyncio.sleep(0)


async def a_job_of(paper, name="j", gpus="1", **pod):
    """A job that was launched on n1, whose pod is seen like that."""
    await paper.runs.observe()
    await paper.launch("job", name, "n1/0", gpus=gpus)
    await settle()
    given = {} if gpus == "0" else GIVEN
    paper.pod(f"job-{name}", "n1/0", **{"phase": "Pending", "annotations": given, **pod})
    return await paper.observed(f"job-{name}")


def closed(paper, name="n1"):
    return next(node.closed for node in paper.runs.nodes() if node.name == name)


@pytest.mark.parametrize(("gpus", "devices", "pauses"), [("1", 2, True), ("0", 2, False), ("0", 0, True)])
async def test_work_without_a_gpu_that_finds_no_place_keeps_no_gpus_from_others(paper, gpus, devices, pauses):
    """It pauses itself; only a node that has no GPU pauses with it."""
    paper.node("n1", devices={"nvidia.com/gpu": devices})
    await a_job_of(paper, gpus=gpus, node="", unschedulable="Insufficient cpu")
    paper.clock.at += 20
    await paper.observed("job-j")
    paper.no_pod("job-j")
    seen = await paper.observed("job-j")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.REFUSED)
    assert "on n1 in 20 s: Insufficient cpu" in seen.sentence
    assert bool(closed(paper)) is pauses


HANGS = {"node": "n1", "waiting": "ContainerCreating"}


async def test_a_job_whose_container_does_not_start_lets_go_of_its_gpu_in_the_end(paper):
    """A volume that is not mounted shows nowhere in the pod but in that."""
    assert not (await a_job_of(paper, **HANGS)).sentence
    paper.clock.at += 61
    told = (await paper.observed("job-j")).sentence
    assert "gq-job-j-1-0 is on n1" in told
    assert "has not started for more than a minute" in told
    assert "planned again after 1200 s" in told
    paper.clock.at += 1138
    await paper.observed("job-j")
    await settle()
    assert not paper.cluster.deleted
    paper.clock.at += 1
    await paper.observed("job-j")
    paper.no_pod("job-j")
    seen = await paper.observed("job-j")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.REFUSED)
    assert "did not start on n1 in 1200 s" in seen.sentence
    assert closed(paper) == "n1 pauses after a failure"
    assert not closed(paper, "n2")


async def test_a_long_pull_that_succeeds_is_forgotten(paper):
    await a_job_of(paper, **HANGS)
    paper.clock.at += 900
    assert (await paper.observed("job-j")).sentence
    paper.pod("job-j", "n1/0", phase="Running", waiting="")
    paper.clock.at += 900
    seen = await paper.observed("job-j")
    assert (seen.phase, seen.sentence) == (Phase.RUNNING, "")


async def test_while_nobody_can_be_seen_to_start_nobody_is_late(paper):
    await a_job_of(paper, **HANGS)
    paper.clock.at += 1190
    await paper.observed("job-j")
    paper.runs.training.restart_clocks()
    paper.clock.at += 1190
    await paper.observed("job-j")
    await settle()
    assert not paper.cluster.deleted


def silent(namespace, job):
    return []


def two_quotas(namespace, job):
    assert (namespace, job) == ("train", "gq-job-j-1-0")
    return [{"message": "Error creating: exceeded quota: one"}, {"message": "Error creating: exceeded quota: two"}]


def not_allowed(namespace, job):
    raise Refused("The service may not list the events.")


@pytest.mark.parametrize(
    ("events", "told"),
    [
        (two_quotas, "The Job gq-job-j-1-0 has made no pod in 30 s: exceeded quota: two."),
        (silent, "The Job gq-job-j-1-0 has made no pod in 30 s; the Job's events say why."),
        (not_allowed, "The Job gq-job-j-1-0 has made no pod in 30 s; the Job's events say why."),
    ],
)
async def test_why_a_job_of_the_cluster_makes_no_pod_is_asked_once_and_told(events, told):
    asked = []

    async def failed_creates(namespace, job):
        asked.append(job)
        return events(namespace, job)

    paper = PaperBackend(as_jobs=True)
    paper.cluster.failed_creates = failed_creates
    await paper.runs.observe()
    await paper.launch("job", "j", "n1/0", gpus="1")
    await settle()
    await paper.observed("job-j")
    assert not asked
    paper.clock.at += 31
    for _ in range(3):
        await settle()
        seen = await paper.observed("job-j")
    assert (seen.outcome, seen.sentence) == (Outcome.REFUSED, told)
    assert len(asked) == 1
    await paper.runs.forget("job-j", 1)
    await settle()
    await paper.observed("job-j")
    assert not paper.runs._writes._messages
    await paper.close()
