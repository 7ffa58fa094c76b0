"""What an agent tells counts for its own node and for nothing else."""

import asyncio

import pytest
import pytest_asyncio

from jupyter_gq.backends.capabilities import AttestationResult
from jupyter_gq.backends.protocol import Phase
from jupyter_gq.devices.meter import ShareUse

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

WRONG = {"visible": ["GPU-9"], "memory_mib": 0, "utilisation": 0}


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend("n1", "n2")
    yield made
    await made.close()


@pytest.mark.parametrize("kind", ["job", "nb"])
async def test_an_agent_does_not_speak_for_the_pods_of_another_node(paper, kind):
    workload = await paper.launch(kind, "victim", "n1/0")
    uid = paper.pod(workload.id, "n1/0", "GPU-0")
    true = {uid: {"visible": ["GPU-0"], "memory_mib": 7, "utilisation": 90}}
    paper.report("n1", shares=true)
    assert (await paper.observed(workload.id)).phase is Phase.RUNNING
    for _ in range(3):
        paper.report("n2", shares={uid: WRONG})
    assert paper.runs.find_uses([workload.id]).get(workload.id) == ShareUse(memory=7, utilisation=90)
    assert (await paper.observed(workload.id)).phase is Phase.RUNNING
    assert (paper.cluster.deleted, paper.hub.asked) == ([], [])
    for _ in range(2):
        paper.report("n1", shares={uid: WRONG})
    assert paper.runs.find_uses([workload.id]).get(workload.id) == ShareUse(memory=0, utilisation=0), (
        "its own agent does"
    )


async def test_of_pods_that_nobody_knows_nothing_is_kept(paper):
    for number in range(3):
        paper.report("n1", shares={f"unknown-{number}": WRONG, f"another-{number}": WRONG})
    assert paper.runs.agents._reports["n1"].checks == {}
    assert paper.runs.agents._uses == {}


@pytest.mark.parametrize("kind", ["job", "nb"])
async def test_a_pod_without_a_gpu_is_looked_at_too_and_waits_for_nobody(paper, kind):
    workload = await paper.launch(kind, "cpu", "n1/0", gpus="0")
    uid = paper.pod(workload.id, "", node="n1")
    assert [pod.pod_uid for pod in paper.report("n1").watch] == [uid]
    for visible in (None, []):
        for _ in range(3):
            paper.report("n1", shares={uid: {"visible": visible}})
        seen = paper.runs.attestation(workload.id, 1, 0)
        assert (seen.result, seen.required) == (AttestationResult.RIGHT, False)
    assert paper.runs.find_uses([workload.id]).get(workload.id) is None, "it has nothing that could be used"
    assert (await paper.observed(workload.id)).phase is Phase.RUNNING
    paper.report("n1", shares={uid: {"visible": ["GPU-0"]}})
    assert paper.runs.attestation(workload.id, 1, 0).is_settled, "it goes on meanwhile"
    paper.report("n1", shares={uid: {"visible": ["GPU-0"]}})
    seen = paper.runs.attestation(workload.id, 1, 0)
    assert (seen.result, seen.sentence[:16]) == (AttestationResult.WRONG, "DEVICE_MISMATCH:")
    for _ in range(9):
        await paper.observed(workload.id)
        await asyncio.sleep(0)
    assert paper.hub.asked or paper.cluster.deleted
