"""Slices of GPUs (MIG) as whole devices of a pool, with every provider: they run, and nothing stops them."""

import pytest
import pytest_asyncio

from jupyter_gq.backends.capabilities import AttestationResult
from jupyter_gq.backends.kubernetes.objects.names import reservation_name
from jupyter_gq.backends.protocol import Phase
from jupyter_gq.domain.pod_pool import Hold, Provider

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

MIG = "nvidia.com/mig-1g.10gb"


@pytest_asyncio.fixture(params=Provider)
async def paper(request):
    made = PaperBackend(pool={"resource": MIG, "provider": request.param})
    made.node("n1", devices={MIG: 4}, labels={f"{MIG}.memory": "9856"})
    yield made
    await made.close()


async def test_a_notebook_asks_for_a_slice_by_count_and_hears_how_much_memory_that_has(paper):
    paper.report()
    await paper.launch("nb", "ann", "n1/3", gpus="1")
    await paper.runs.observe()
    added = paper.runs.notebooks.pod_additions("nb-ann", 1)
    assert added.resources == {MIG: "1"}
    assert added.environment["JUPYTER_GQ_MEMORY_MIB"] == "9856"
    assert not any("uuid" in name for name in added.annotations)


async def test_a_pod_that_was_given_a_slice_is_not_stopped_for_seeing_its_gpu(paper):
    await paper.launch("job", "a", "n1/3", gpus="1")
    uid = paper.pod("job-a", "n1/3")
    for _ in range(3):
        paper.report(given=[("train", "gq-job-a-1-0", "MIG-1")], shares={uid: {"visible": ["GPU-0"]}})
    assert (await paper.observed("job-a")).phase is Phase.RUNNING
    seen = paper.runs.attestation("job-a", 1, 0)
    assert (seen.result, seen.required, seen.is_settled) == (AttestationResult.UNCLEAR, False, True)
    assert "MIG-1, a slice of a GPU" in seen.sentence


async def test_a_pool_that_keeps_its_slices_gives_them_by_name():
    paper = PaperBackend(pool={"resource": MIG, "hold": Hold.ALWAYS})
    paper.node("n1", devices={MIG: 1}, labels={f"{MIG}.memory": "9856"})
    paper.reservation("n1/0")
    paper.report(given=[("nodes", reservation_name("n1/0"), "MIG-1")])
    await paper.launch("nb", "ann", "n1/0", gpus="1")
    await paper.runs.observe()
    told = paper.runs.notebooks.pod_additions("nb-ann", 1).environment
    assert (told["NVIDIA_VISIBLE_DEVICES"], told["JUPYTER_GQ_MEMORY_MIB"]) == ("MIG-1", "9856")
    uid = paper.pod("nb-ann", "n1/0", "MIG-1")
    for _ in range(3):
        paper.report(given=[("nodes", reservation_name("n1/0"), "MIG-1")], shares={uid: {"visible": ["GPU-0"]}})
    seen = paper.runs.attestation("nb-ann", 1, 0)
    assert (seen.result, seen.is_settled) == (AttestationResult.UNCLEAR, True), "its first kernel does not wait"
    await paper.close()
