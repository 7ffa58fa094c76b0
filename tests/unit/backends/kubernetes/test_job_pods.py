"""Pods that the cluster makes from Jobs are compared with what was asked for, as bare pods are."""

import asyncio
import copy
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.objects.names import INSTALLATION, SLOTS, WORKLOAD
from jupyter_gq.backends.protocol import Outcome, Phase

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

JOB = "gq-job-j-1-0"
ELSEWHERE = {"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]}]}


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend("n1", "n2", as_jobs=True)
    await made.runs.observe()
    await made.launch("job", "j", "n1/0", gpus="1")
    await settle()
    yield made
    await made.close()


async def settle():
    for _ in range(9):
        await asyncio.sleep(0)


def made_pod(paper, version=200):
    """The pod that a cluster makes from the Job: with its labels, and more of the cluster's own."""
    template = copy.deepcopy(paper.cluster.bodies[JOB]["spec"]["template"])
    owner = {"kind": "Job", "name": JOB, "controller": True, "apiVersion": "batch/v1", "uid": "u-job"}
    meta = {"namespace": "train", "name": f"{JOB}-x7z2k", "uid": "u", "resourceVersion": str(version)}
    labels = {**template["metadata"]["labels"], "batch.kubernetes.io/job-name": JOB}
    template["metadata"].update({**meta, "labels": labels, "ownerReferences": [owner]})
    return {**template, "spec": {**template["spec"], "nodeName": "n1"}, "status": {"phase": "Running"}}


def strip(mark):
    return lambda pod: [pod["metadata"][part].pop(mark, None) for part in ("labels", "annotations")]


def move(pod):
    pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"] = ELSEWHERE


def add_a_gpu(pod):
    pod["spec"]["containers"][0].setdefault("resources", {}).setdefault("limits", {})["nvidia.com/gpu"] = "2"


def see(paper, pod):
    paper.runs._job_pods.copy.put(paper.runs._job_pods._trim(pod))


async def test_a_pod_as_it_was_asked_for_runs(paper):
    see(paper, made_pod(paper))
    assert (await paper.observed("job-j")).phase is Phase.RUNNING


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (strip(WORKLOAD), WORKLOAD),
        (strip(INSTALLATION), INSTALLATION),
        (strip(SLOTS), SLOTS),
        (move, "its node"),
        (add_a_gpu, "nvidia.com/gpu"),
    ],
)
async def test_a_pod_that_the_cluster_changed_is_deleted_with_its_job_and_the_run_refused(paper, change, told):
    pod = made_pod(paper)
    change(pod)
    see(paper, pod)
    await paper.observed("job-j")
    await settle()
    assert set(paper.cluster.deleted) == {JOB, f"{JOB}-x7z2k"}
    paper.runs._job_pods.copy.remove(("train", f"{JOB}-x7z2k"), 300)
    seen = await paper.observed("job-j")
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.REFUSED)
    assert seen.sentence == (
        f"The cluster changed the pod {JOB}-x7z2k at its creation ({told}), so that the service would not know it or "
        "count it right, and it was deleted again. Leave the namespace train out of the webhook or policy that does so."
    )
    await paper.runs.forget("job-j", 1)
    assert not paper.runs.training._objects.templates._templates


async def test_a_label_that_is_taken_later_ends_nothing_and_is_told(paper):
    see(paper, made_pod(paper))
    later = made_pod(paper, version=210)
    strip(WORKLOAD)(later)
    see(paper, later)
    seen = await paper.observed("job-j")
    assert (seen.phase, seen.outcome) == (Phase.RUNNING, None)
    assert f"Somebody has taken {WORKLOAD} from the pod {JOB}-x7z2k" in seen.sentence


async def test_a_pod_of_another_job_is_none_of_ours(paper):
    pod = made_pod(paper)
    for part in ("labels", "annotations"):
        pod["metadata"][part] = {}
    pod["metadata"]["ownerReferences"] = [{**pod["metadata"]["ownerReferences"][0], "name": "theirs"}]
    see(paper, pod)
    assert (await paper.observed("job-j")).phase is Phase.STARTING


async def test_a_pod_that_has_ended_counts_as_it_ended(paper):
    pod = made_pod(paper)
    move(pod)
    view = paper.runs._job_pods._trim(pod)
    paper.runs._job_pods.copy.put(replace(view, phase="Succeeded"))
    assert (await paper.observed("job-j")).outcome is not Outcome.REFUSED
