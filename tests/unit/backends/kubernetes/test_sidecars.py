"""A sidecar that runs on keeps neither a job nor a ticket, and its GPU goes to nobody while the pod holds it."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.api.containers import Ended
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.states import State

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

DONE = Ended(exit_code=0, message='{"outcome": "SUCCEEDED"}')


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


async def free(paper):
    paper.runs._is_stale = True
    await paper.runs.observe()
    (node,) = paper.runs.nodes()
    return [device.index for device in node.devices if device.healthy]


async def soon():
    for _ in range(9):
        await asyncio.sleep(0)


def ends(paper, workload, ended=DONE, **fields):
    """The work has ended, and a sidecar runs on."""
    paper.pod(workload, "n1/0", has_run=True, ended=ended, ended_for_good=True, **fields)


@pytest.mark.parametrize("phase", ["Running", "Pending"])
async def test_a_job_ends_and_its_gpu_is_given_to_others_when_the_pod_is_gone(paper, phase):
    await paper.launch("job", "a", "n1/0", gpus="1")
    paper.pod("job-a", "n1/0", phase=phase, has_run=True)
    assert (await paper.observed("job-a")).phase is Phase.RUNNING
    ends(paper, "job-a")
    seen = await paper.observed("job-a")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.SUCCEEDED)
    assert paper.cluster.deleted == [], "its result is not recorded yet"
    assert await free(paper) == [1]
    await paper.runs.forget("job-a", 1)
    await soon()
    assert paper.cluster.deleted == ["gq-job-a-1-0"]
    assert await free(paper) == [1], "the sidecar has its grace"
    paper.pod("job-a", "n1/0", terminating=True)
    assert await free(paper) == [1]
    paper.no_pod("job-a")
    assert await free(paper) == [0, 1]


async def test_a_service_that_begins_anew_finds_the_result_and_gives_the_gpu_to_nobody(paper):
    paper.pod("job-a", "n1/0", phase="Running", has_run=True, terminating=True, ended=DONE, ended_for_good=True)
    assert await free(paper) == [1]
    paper.clock.at += 11
    seen = await paper.observed("job-a")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.SUCCEEDED)


async def test_a_job_that_shall_stop_has_stopped_when_its_runner_has(paper):
    await paper.launch("job", "a", "n1/0", gpus="1")
    paper.pod("job-a", "n1/0", has_run=True)
    await paper.runs.observe()
    await paper.runs.stop("job-a", 1, 30)
    ends(paper, "job-a", Ended(exit_code=0, message='{"outcome": "PAUSED"}'), terminating=True)
    seen = await paper.observed("job-a")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.PAUSED)
    assert await free(paper) == [1]


async def test_a_ticket_ends_with_its_server(paper):
    await paper.launch("nb", "ann", "n1/0", State.RUNNING, gpus="1")
    paper.pod("nb-ann", "n1/0", has_run=True)
    assert (await paper.observed("nb-ann")).phase is Phase.RUNNING
    ends(paper, "nb-ann", Ended(exit_code=1, message="no memory left"))
    seen = await paper.observed("nb-ann")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.LOST)
    assert "no memory left" in seen.sentence
    assert await free(paper) == [1]
    paper.no_pod("nb-ann")
    assert await free(paper) == [0, 1]


async def test_agents_do_not_look_at_a_pod_in_which_only_sidecars_run(paper):
    """They see no device, which would look like a mismatch."""
    await paper.launch("job", "a", "n1/0", gpus="1")
    uid = paper.pod("job-a", "n1/0", phase="Pending", has_run=True)
    await paper.runs.observe()
    reports = paper.runs.capabilities.agent_reports
    assert [pod.pod_uid for pod in reports.orders("n1").watch] == [uid], "another sidecar cannot start"
    ends(paper, "job-a", phase="Running")
    assert reports.orders("n1").watch == []


async def test_devices_of_a_server_without_a_slot_are_not_ours_to_give(paper):
    """Its spawner was told to remove no requests for GPUs."""
    await paper.launch("nb", "ann", "n1/0", State.RUNNING, gpus="0")
    paper.pod("nb-ann", "n1/0", annotations={})
    paper.report(given=[("hub", "gq-nb-ann-1-0", "GPU-1")])
    assert await free(paper) == [0]
