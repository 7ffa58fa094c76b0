"""How notebooks end, and what their owners are told."""

import asyncio
from dataclasses import replace

import pytest
import pytest_asyncio

from jupyter_gq.backends.kubernetes.api.containers import Ended
from jupyter_gq.backends.kubernetes.objects import names
from jupyter_gq.backends.kubernetes.objects.names import reservation_name
from jupyter_gq.backends.protocol import Launch, Outcome, Phase
from jupyter_gq.client.pods.device_check import DEVICES_GIVEN_VARIABLE
from jupyter_gq.domain.states import State
from tests.builders import a_notebook

from .paper_backend import PaperBackend

pytestmark = pytest.mark.asyncio

FULL = "0/1 nodes are available: 1 Insufficient cpu."
WRONG = {"visible": ["GPU-0", "GPU-1"]}


@pytest_asyncio.fixture
async def paper():
    made = PaperBackend()
    yield made
    await made.close()


async def a_server(paper):
    """A notebook that runs on a share of GPU-0."""
    notebook = await paper.launch("nb", "ann", "n1/0", State.RUNNING)
    paper.reservation("n1/0")
    uid = paper.pod(notebook.id, "n1/0", "GPU-0")
    assert (await paper.observed(notebook.id)).phase is Phase.RUNNING
    return notebook, uid


def healthy(paper):
    return [device.healthy for node in paper.runs.nodes() for device in node.devices]


async def test_one_that_sees_devices_of_others_ends_with_the_reason_and_its_node_pauses(paper):
    notebook, uid = await a_server(paper)
    for _ in range(2):
        paper.report(shares={uid: WRONG})
    await asyncio.sleep(0)
    assert paper.hub.asked == ["ann"], "it ends through the Hub"
    await paper.observed(notebook.id)
    assert healthy(paper) == [False, False]
    assert "did not see just its own devices" in paper.runs.nodes()[0].closed
    await paper.runs.notebooks.release(notebook.id, 1)
    paper.no_pod(notebook.id)
    seen = await paper.observed(notebook.id)
    assert (seen.phase, seen.outcome, seen.sentence.partition(":")[0]) == (
        Phase.ENDED,
        Outcome.FAILED,
        "DEVICE_MISMATCH",
    )


async def test_a_server_that_outlives_its_share_is_stopped_through_the_hub(paper):
    notebook, _ = await a_server(paper)
    await paper.runs.notebooks.release(notebook.id, 1)
    await paper.observed(notebook.id)
    await asyncio.sleep(0)
    assert paper.hub.asked == [], "its spawner ends it"
    await paper.runs.stop(notebook.id, 1, 30)
    await asyncio.sleep(0)
    assert paper.hub.asked == ["ann"]
    await paper.runs.notebooks.release(notebook.id, 1)  # as the controller does in each step
    paper.clock.at += 11
    await paper.runs.stop(notebook.id, 1, 30)
    await asyncio.sleep(0)
    assert paper.hub.asked == ["ann"] * 2
    paper.no_pod(notebook.id)
    assert (await paper.observed(notebook.id)).outcome is Outcome.SUCCEEDED


async def test_a_server_that_was_started_again_is_not_stopped_for_the_share_of_its_first_start(paper):
    """The Hub knows both by the same name, and would stop the second."""
    first, _ = await a_server(paper)
    again = replace(
        a_notebook("ann", id="nb-again", run=1, submitted=60), placement=first.placement, state=State.STARTING
    )
    await paper.runs.notebooks.release(first.id, 1)
    await paper.runs.launch(Launch(workload=again))
    paper.pod(again.id, "n1/0", "GPU-0")
    await paper.observed(again.id)
    await paper.runs.stop(first.id, 1, 30)
    await paper.observed(first.id)
    await asyncio.sleep(0)
    assert paper.hub.asked == []
    await paper.runs.stop(again.id, 1, 30)
    await asyncio.sleep(0)
    assert paper.hub.asked == ["ann"]


async def test_a_node_where_pods_see_devices_of_others_pauses_for_longer_each_time_though_others_start(paper):
    pauses = []
    for name in ("job-a", "job-b"):
        await paper.launch("job", name.partition("-")[2], "n1/0")
        uid = paper.pod(name, "n1/0", "GPU-0")
        await paper.observed(name)
        for _ in range(2):
            paper.report(shares={uid: WRONG})
        began = paper.clock.at
        while paper.runs.cluster_nodes.mistrust.until("n1"):
            paper.clock.at += 5
        pauses.append(paper.clock.at - began)
    assert pauses == [20, 40]


async def test_whose_device_a_pod_of_others_has_is_told_until_it_is_ours_again(paper):
    notebook, _ = await a_server(paper)
    paper.report(given=[("nodes", reservation_name("n1/0"), "GPU-0")])
    assert (await paper.observed(notebook.id)).sentence == ""

    paper.no_reservation("n1/0")
    paper.report(given=[("foreign", "x", "GPU-0"), ("foreign", "y", "GPU-1")])
    await paper.observed(notebook.id)
    paper.reservation("n1/0", phase="Pending", node="", unschedulable="0/1 nodes: Insufficient nvidia.com/gpu")
    for _ in range(7):
        paper.clock.at += 5
        paper.report(given=[("foreign", "x", "GPU-0"), ("foreign", "y", "GPU-1")])
        seen = await paper.observed(notebook.id)
    assert seen.phase is Phase.RUNNING, "the user may save work meanwhile"
    assert seen.sentence.startswith("The device of the server may be used by others as well, so save your work")
    assert paper.hub.asked == []

    given = [("nodes", reservation_name("n1/0"), "GPU-0"), ("foreign", "y", "GPU-1")]
    paper.no_reservation("n1/0")  # it was deleted, since it was not held in time
    paper.reservation("n1/0", uid="another")
    for _ in range(2):
        paper.report(given=given)
        seen = await paper.observed(notebook.id)
    assert (seen.phase, seen.sentence) == (Phase.RUNNING, "")


@pytest.mark.parametrize(("gpus", "given"), [("0.25", "named"), ("1", "chosen"), ("0", None)])
async def test_a_server_is_told_how_its_devices_were_given(paper, gpus, given):
    """By us, by the device plugin, or not at all: its first kernel waits accordingly."""
    notebook = await paper.launch("nb", "ann", "n1/0", gpus=gpus)
    if given == "named":
        paper.reservation("n1/0")
        paper.report(given=[("nodes", reservation_name("n1/0"), "GPU-0")])
    await paper.observed(notebook.id)
    assert paper.runs.notebooks.pod_additions(notebook.id, 1).environment.get(DEVICES_GIVEN_VARIABLE) == given


async def _awaited(paper, gpus="1"):
    """A notebook whose pod is not there yet, and what was said of it last."""
    notebook = await paper.launch("nb", "ann", "n1/0", gpus=gpus)
    return notebook.id, await paper.observed(notebook.id)


async def test_a_pod_that_the_cluster_does_not_place_is_refused_after_a_while_and_its_node_pauses(paper):
    name, _ = await _awaited(paper)
    paper.pod(name, "n1/0", node="", phase="Pending", unschedulable=FULL)
    seen = await paper.observed(name)
    assert (seen.phase, seen.sentence) == (
        Phase.STARTING,
        f"The cluster does not place the pod gq-nb-ann-1-0 yet: {FULL}",
    )
    paper.clock.at += 19
    assert (await paper.observed(name)).phase is Phase.STARTING
    assert healthy(paper) == [True, True]
    paper.clock.at += 1
    seen = await paper.observed(name)
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.REFUSED)
    assert seen.sentence == f"The cluster did not place the pod gq-nb-ann-1-0 on n1 in 20 s: {FULL}"
    assert paper.runs.notebooks.pod_additions(name, 1) is None, "its spawner asks for another place"
    await paper.runs.forget(name, 1)
    await paper.runs.observe()
    assert healthy(paper) == [False, False]
    assert paper.runs.nodes()[0].closed == "n1 pauses after a failure"


async def test_a_share_whose_server_is_never_started_is_free_again(paper):
    """Its time begins when its device is held: before that no pod could be made."""
    name, seen = await _awaited(paper, "0.25")
    paper.clock.at += 20
    assert (await paper.observed(name)).phase is Phase.STARTING
    paper.reservation("n1/0")
    paper.report(given=[("nodes", reservation_name("n1/0"), "GPU-0")])
    seen = await paper.observed(name)
    assert (seen.phase, paper.runs.notebooks.pod_additions(name, 1) is None) == (Phase.STARTING, False)
    paper.clock.at += 179
    assert (await paper.observed(name)).phase is Phase.STARTING
    paper.clock.at += 1
    seen = await paper.observed(name)
    assert (seen.phase, seen.outcome) == (Phase.ENDED, Outcome.LOST)
    assert seen.sentence == "The server was not started within 180 seconds, so the share is free again."


@pytest.mark.parametrize(
    ("pulled", "expected"),
    [
        ("docker-pullable://lab/torch@sha256:0f1e", "lab/torch@sha256:0f1e"),
        ("docker.io/lab/torch@sha256:0f1e", "docker.io/lab/torch@sha256:0f1e"),
        ("sha256:0f1e", "lab/torch:1"),  # an image that was built there: by this nobody could pull it
        ("", "lab/torch:1"),
    ],
)
async def test_jobs_get_just_the_image_that_runs_in_their_notebook(paper, pulled, expected):
    notebook, _ = await a_server(paper)
    paper.pod(notebook.id, "n1/0", "GPU-0", image="lab/torch:1", image_id=pulled)
    assert paper.runs.image_of(notebook.id) == expected


@pytest.mark.parametrize("phase", ["Pending", "Running"])
async def test_a_server_that_fails_says_why(paper, phase):
    name, _ = await _awaited(paper)
    paper.pod(name, "n1/0", phase=phase)
    await paper.observed(name)
    ended = Ended(exit_code=1, reason="Error", message="[I] hello\nOSError: no home\n")
    paper.pod(name, "n1/0", phase="Failed", ended=ended)
    seen = await paper.observed(name)
    assert (seen.outcome, seen.sentence) == (Outcome.LOST, "The server ended with exit code 1: OSError: no home.")


async def test_the_device_that_a_pod_was_told_to_name_is_its_own_also_after_a_restart(paper):
    """The pod may be on its way; meanwhile its reservation is deleted, and that of another slot is given its device."""
    anns = await paper.launch("nb", "ann", "n1/0")
    assert paper.runs.notebooks.named_devices(anns.id, 1) == {}
    paper.reservation("n1/0")
    paper.report(given=[("nodes", reservation_name("n1/0"), "GPU-0")])
    await paper.observed(anns.id)
    assert paper.runs.notebooks.pod_additions(anns.id, 1).annotations[names.DEVICES] == "GPU-0"
    named = paper.runs.notebooks.named_devices(anns.id, 1)

    later = PaperBackend()
    await later.launch("nb", "ann", "n1/0", named_devices=named)
    bobs = await later.launch("nb", "ben", "n1/1")
    later.reservation("n1/1")
    later.report(given=[("nodes", reservation_name("n1/1"), "GPU-0")])
    await later.observed(bobs.id)
    assert later.runs.notebooks.pod_additions(bobs.id, 1) is None
    assert later.runs.notebooks.pod_additions(anns.id, 1).annotations[names.DEVICES] == "GPU-0"
    await later.close()
