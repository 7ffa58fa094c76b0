"""What goes wrong in a cluster, and what the backend makes of it, against a real API server."""

import asyncio

import pytest
from kubernetes.client import CoreV1Api

from jupyter_gq.backends.capabilities import Attestation, AttestationResult
from jupyter_gq.backends.kubernetes import PodPool
from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.identity import PodIdentity
from jupyter_gq.domain.pod_pool import Hold
from jupyter_gq.domain.states import State
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio


async def test_a_lost_node_loses_its_runs_and_its_slots_until_the_pods_are_gone(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    job = world.job("marooned", (node, 0))
    await world.launch(job)
    await world.running(job)
    kwok.lose(node)
    await eventually(lambda: _not_ready(world, node), "the node is not ready")

    async def noticed():
        await world.backend.observe()
        return not any(world.offered(node).values())

    await eventually(noticed, "no slot is offered")
    assert (await world.observed(job)).phase is Phase.RUNNING
    world.clock.ahead += 61
    end = await world.end(job)
    assert end.outcome is Outcome.LOST
    assert end.sentence.startswith(f"The node {node} has not answered for ")
    await world.backend.forget(job.id, 1)
    await world.backend.observe()
    assert world.backend.training.blocked_slots() == {f"{node}/0"}, "its pod stands: nobody ends it by force"
    kwok.find(node)

    async def swept():
        await world.backend.observe()
        return all(world.offered(node).values())

    await eventually(swept, "the node is back, and its old pod gone")


async def test_a_node_that_is_off_for_good_lets_go_of_its_pods(world, kwok):
    """Deleted, or tainted as out of service: Kubernetes itself ends the pods by force then, and not before."""
    deleted, off = kwok.add_nodes(2, gpus=1)
    jobs = [world.job("deleted", (deleted, 0)), world.job("off", (off, 0))]
    for job in jobs:
        await world.launch(job)
    for job in jobs:
        await world.running(job)
    kwok.lose(off)
    await eventually(lambda: _not_ready(world, off), "the node is not ready")
    kwok.remove_nodes(deleted)

    async def noticed():
        await world.backend.observe()
        return deleted not in {node.name for node in world.backend.nodes()} and not any(world.offered(off).values())

    await eventually(noticed, "both are away")
    world.clock.ahead += 61
    ends = [await world.end(job) for job in jobs]
    assert [end.outcome for end in ends] == [Outcome.LOST, Outcome.LOST]
    for job in jobs:
        await world.backend.forget(job.id, 1)
    await world.backend.observe()
    assert f"{off}/0" in world.backend.training.blocked_slots()
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    world.plane.core.patch_node(off, {"spec": {"taints": [taint]}})

    async def let_go():
        await world.backend.observe()
        return not world.backend.training.blocked_slots() and not await asyncio.to_thread(world.pods)

    await eventually(let_go, lambda: f"no pod is left: {world.backend.training.blocked_slots()}")


def _not_ready(world, node):
    conditions = world.plane.core.read_node(node).status.conditions
    return any(each.type == "Ready" and each.status != "True" for each in conditions)


async def test_a_cordoned_node_is_offered_nothing_new(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=1)
    world.plane.core.patch_node(node, {"spec": {"unschedulable": True}})

    async def healthy(wanted):
        await world.backend.observe()
        return world.offered(node) == {f"{node}/0": wanted}

    await eventually(lambda: healthy(False), "cordoned")
    assert closed_and_draining(world, node) == (f"{node} is cordoned", True)
    world.backend = world.new_backend(leave_cordoned=False)
    await eventually(lambda: healthy(False), "cordoned, for another one")
    assert closed_and_draining(world, node) == (f"{node} is cordoned", False), "where nobody leaves"
    world.plane.core.patch_node(node, {"spec": {"unschedulable": False}})
    await eventually(lambda: healthy(True), "uncordoned")


def closed_and_draining(world, name):
    (node,) = [each for each in world.backend.nodes() if each.name == name]
    return (node.closed, node.draining)


async def test_a_pod_that_does_not_end_holds_its_slot_and_is_spoken_of(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2, name="never-end")
    job = world.job("stuck", (node, 0))
    await world.launch(job)
    await world.running(job)
    await world.backend.stop(job.id, 1, 5)
    world.clock.ahead += 30
    assert (await world.observed(job)).sentence == ""
    world.clock.ahead += 40
    seen = await world.until(job, lambda seen: "should have ended" in seen.sentence, "that it is late")
    assert seen.phase is Phase.RUNNING, "it holds its devices"
    pod = world.pod(job)
    assert pod.metadata.deletion_grace_period_seconds <= 5
    world.plane.core.delete_namespaced_pod(pod.metadata.name, pod.metadata.namespace, grace_period_seconds=0)
    assert (await world.end(job)).outcome is Outcome.KILLED


async def test_a_device_that_is_not_held_in_time_is_refused(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    job = world.job("unheard", (node, 0), gpus="0.5")
    await world.launch(job)
    await world.until(job, lambda seen: "has not reported yet" in seen.sentence, "that the agent is silent")
    world.clock.ahead += 31
    end = await world.end(job)
    assert end.outcome is Outcome.REFUSED
    assert f"{node}/0 could not be held: The agent of the node {node} has not reported yet." in end.sentence
    assert not any(world.offered(node).values()), "its node pauses"
    await world.backend.forget(job.id, 1)

    async def gone():
        await world.backend.observe()
        return not await asyncio.to_thread(world.pods)

    await eventually(gone, "its reservation is gone")


async def test_a_reservation_that_vanishes_under_its_shares_is_found_again_on_the_same_device(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    job = world.job("share", (node, 0), gpus="0.5")
    await world.launch(job)
    device = await world.held(f"{node}/0", node)
    await world.running(job)
    other = next(uuid for uuid in world.agents.devices(node) if uuid != device.id)
    (reservation,) = [pod for pod in world.pods() if pod.metadata.namespace == world.namespaces.nodes]
    # The device plugin gives the other one first.
    world.agents.order = {node: [other, device.id]}
    core = world.plane.core
    core.delete_namespaced_pod(reservation.metadata.name, reservation.metadata.namespace, grace_period_seconds=0)

    async def back():
        await world.backend.observe()
        await world.agents.tell(node)
        held = world.backend.reservation_pods.reserved_device(f"{node}/0")
        left = [pod for pod in await asyncio.to_thread(world.pods) if pod.metadata.namespace == world.namespaces.nodes]
        return held is not None and held.id == device.id and len(left) == 1

    await eventually(back, "the same device, and no other, is held again", every=0.1)
    assert (await world.observed(job)).phase is Phase.RUNNING

    (reservation,) = [pod for pod in world.pods() if pod.metadata.namespace == world.namespaces.nodes]
    # Now somebody else is faster.
    world.agents.foreign[node] = [device.id]
    thief = {
        "metadata": {"name": "thief"},
        "spec": {
            "nodeName": node,
            "containers": [{"name": "c", "image": "i", "resources": {"limits": {"nvidia.com/gpu": "1"}}}],
        },
    }
    await world.agents.tell(node)
    core.delete_namespaced_pod(reservation.metadata.name, reservation.metadata.namespace, grace_period_seconds=0)
    core.create_namespaced_pod(world.namespaces.hub, thief)

    async def told():
        seen = await world.observed(job)
        await world.agents.tell(node)
        world.clock.ahead += 0.5
        return seen if seen.phase is Phase.ENDED else None

    end = await eventually(told, "that its device was given to others", every=0.1)
    assert end.outcome is Outcome.LOST
    assert "was given to others" in end.sentence


async def test_a_pool_that_keeps_its_devices_holds_them_without_shares(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2, labels={"pool": "kept"})
    world.pools[:] = [PodPool(name="kept", selector={"pool": "kept"}, hold=Hold.ALWAYS)]
    for slot in (f"{node}/0", f"{node}/1"):
        await world.held(slot, node)
    whole = world.job("whole", (node, 0, 1), gpus=2)
    await world.launch(whole)
    await world.running(whole)
    (environment,) = [each.env for each in world.pod(whole).spec.containers]
    visible = {variable.name: variable.value for variable in environment}["NVIDIA_VISIBLE_DEVICES"]
    assert sorted(visible.split(",")) == sorted(world.agents.devices(node))
    world.pools[:] = []
    await world.backend.stop(whole.id, 1, 1)
    await world.end(whole)
    await world.backend.forget(whole.id, 1)


async def test_foreign_pods_and_sharing_plugins_take_slots_away(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    share = world.job("share", (node, 0), gpus="0.5")
    world.agents.foreign[node] = [f"GPU-{node}-0"]
    await world.backend.observe()
    world.agents.report(node)
    await world.backend.observe()
    assert world.offered(node) == {f"{node}/0": True, f"{node}/1": False}
    await world.launch(share)
    # A kubelet before 1.34 lists pods that have ended: their devices are free, or already ours.
    await world.held(f"{node}/0", node)
    world.agents.given[node] = {key: [f"GPU-{node}-0"] for key in world.agents.given[node]}
    world.agents.report(node)
    await world.backend.observe()
    assert world.offered(node) == {f"{node}/0": True, f"{node}/1": True}
    world.agents.foreign[node] = [f"GPU-{node}-0::2"]
    world.agents.report(node)
    await world.backend.observe()
    assert not any(world.offered(node).values())
    assert "Switch its sharing off" in world.backend.agents.unfit(node)


async def test_a_pod_that_sees_a_device_of_others_is_stopped(world, kwok):
    node, other = kwok.add_nodes(2, gpus=2)
    job = world.job("curious", (node, 0), gpus="0.5")
    await world.launch(job)
    await world.held(f"{node}/0", node)
    await world.running(job)
    uid = world.pod(job).metadata.uid
    world.agents.shares[uid] = {"visible": [f"GPU-{node}-0"]}
    assert world.backend.attestation(job.id, 1, 0) == Attestation(
        result=AttestationResult.UNCHECKED,
        required=True,
        sentence=f"The agent of the node {node} has not checked the container yet.",
    )
    changes = world.changes
    for _ in range(3):
        world.agents.report(node)
    assert world.changes > changes, "who waits for that is told"
    assert world.backend.attestation(job.id, 1, 0).result is AttestationResult.RIGHT
    assert (await world.observed(job)).phase is Phase.RUNNING
    world.agents.shares[uid] = {"visible": world.agents.devices(node)}
    for _ in range(3):
        world.agents.report(other)
    assert world.backend.attestation(job.id, 1, 0).result is AttestationResult.RIGHT, "an agent speaks for its own node"
    world.agents.report(node)
    assert (await world.observed(job)).phase is Phase.RUNNING, "once may be a container that is being set up"
    world.agents.report(node)
    assert world.backend.attestation(job.id, 1, 0).result is AttestationResult.WRONG
    end = await world.end(job)
    assert (end.outcome, end.sentence.partition(":")[0]) == (Outcome.FAILED, "DEVICE_MISMATCH")


async def test_a_notebook_that_sees_a_device_of_others_ends_through_the_hub_and_says_why(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    notebook = world.notebook("curious", node, 0)
    await world.launch(notebook)
    await world.held(f"{node}/0", node)
    server = world.start_server(notebook, world.backend.notebooks.pod_additions(notebook.id, 1))
    await world.running(notebook)
    assert world.backend.attestation(notebook.id, 1, 0).result is AttestationResult.UNCHECKED, "kernels wait"
    world.agents.shares[server.metadata.uid] = {"visible": [f"GPU-{node}-0"]}
    world.agents.report(node)
    assert world.backend.attestation(notebook.id, 1, 0).result is AttestationResult.RIGHT
    world.agents.shares[server.metadata.uid] = {"visible": world.agents.devices(node)}
    for _ in range(2):
        world.agents.report(node)
    assert world.backend.attestation(notebook.id, 1, 0).result is AttestationResult.WRONG
    end = await world.end(notebook)
    assert (end.outcome, end.sentence.partition(":")[0]) == (Outcome.FAILED, "DEVICE_MISMATCH")
    assert world.hub.asked == [(notebook.owner, notebook.name)]
    assert not any(world.offered(node).values()), "the node pauses"


async def test_images_that_cannot_be_pulled_fail_the_job_with_the_reason(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2, name="never-start")
    wrong, slow = world.job("wrong", (node, 0)), world.job("slow", (node, 1))
    for job, reason in ((wrong, "InvalidImageName"), (slow, "ImagePullBackOff")):
        await world.launch(job)
        await eventually(lambda job=job: _bound(world, job), "it is bound")
        waiting = {"waiting": {"reason": reason, "message": "no such image"}}
        state = {"name": "runner", "image": "i", "imageID": "", "ready": False, "restartCount": 0, "state": waiting}
        world.patch_status(world.pod(job), {"containerStatuses": [state]})
    end = await world.end(wrong)
    assert (end.outcome, "no such image" in end.sentence) == (Outcome.FAILED, True)
    seen = await world.until(slow, lambda seen: "no such image" in seen.sentence, "the reason")
    assert seen.phase is Phase.STARTING
    world.clock.ahead += 61
    assert (await world.end(slow)).outcome is Outcome.FAILED


async def _bound(world, job):
    await world.backend.observe()
    try:
        return world.pod(job).spec.node_name
    except Exception:  # noqa: BLE001 - it is not there yet
        return None


async def test_only_the_pod_of_a_task_is_that_task(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=1)
    job = world.job("asks", (node, 0))
    await world.launch(job)
    await world.running(job)
    pod = world.pod(job)
    token = world.plane.token(world.namespaces.train, "gq-runner", audience="jupyter-gq", pod=pod)
    review = world.backend.cluster.review_token
    identity = await review(token, "jupyter-gq")
    assert (identity.service_account, identity.pod, identity.node) == ("gq-runner", pod.metadata.name, node)
    assert identity.expires == pytest.approx(world.clock.now() + 3600, abs=120)
    assert world.backend.find_task(job.id, 1, identity) == 0
    assert world.backend.find_task(job.id, 2, identity) is None
    assert world.backend.find_task("job-other", 1, identity) is None
    stranger = PodIdentity(
        namespace=world.namespaces.train, service_account="default", pod=identity.pod, uid=identity.uid
    )
    assert world.backend.find_task(job.id, 1, stranger) is None
    with pytest.raises(BackendError, match="has not been seen yet"):  # a restarted service has to look first
        world.new_backend().find_task(job.id, 1, identity)
    assert await review(token, "another-audience") is None
    assert await review("nonsense", "jupyter-gq") is None
    unbound = world.plane.token(world.namespaces.train, "gq-runner", audience="jupyter-gq")
    assert await review(unbound, "jupyter-gq") is None, "a token of no pod speaks for nobody"


async def test_what_stops_before_it_began_leaves_nothing(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    early = world.job("early", (node, 0))
    await world.launch(early)
    await world.backend.observe()
    await world.backend.stop(early.id, 1, 0)
    assert (await world.end(early)).outcome in (Outcome.PAUSED, Outcome.KILLED)
    reserved = world.job("reserved", (node, 1), gpus="0.5")
    await world.launch(reserved)
    await world.backend.stop(reserved.id, 1, 0)
    assert (await world.end(reserved)).outcome is Outcome.PAUSED
    gone = world.job("gone", (node, 0), state=State.STOPPING)
    await world.launch(gone)
    assert (await world.end(gone)).outcome is Outcome.LOST
    names = {"pods": CoreV1Api(world.plane.client()).list_namespaced_pod(world.namespaces.train).items}
    assert not names["pods"]
