"""The Kubernetes backend keeps the promises of every backend, and those of its own, against a real API server."""

import asyncio

import pytest

from jupyter_gq.backends.protocol import Outcome, Phase
from jupyter_gq.domain.errors import BackendError
from jupyter_gq.domain.states import State
from tests.kubernetes.waiting import eventually

pytestmark = pytest.mark.asyncio


async def forgotten(world, *workloads):
    """Their ends are written down: nothing of them is left behind."""
    for workload in workloads:
        await world.backend.forget(workload.id, workload.run)

    async def gone():
        await world.backend.observe()
        left = await asyncio.to_thread(world.pods)
        return not [pod for pod in left if "jupyter-gq.org/workload" in pod.metadata.labels]

    await eventually(gone, "nothing is left behind")


async def test_a_whole_gpu_runs_on_the_node_that_was_chosen_and_stops_when_told(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    job = world.job("whole", (node, 0, 1), gpus=2)
    await world.launch(job)
    await world.launch(job)
    seen = await world.running(job)
    assert seen.outcome is None
    (pod,) = await asyncio.to_thread(world.pods)
    assert pod.spec.node_name == node
    assert pod.spec.containers[0].resources.limits == {"nvidia.com/gpu": "2"}
    names = [variable.name for variable in pod.spec.containers[0].env]
    assert not {"NVIDIA_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"} & set(names)
    await world.backend.stop(job.id, job.run, 60)
    await world.backend.stop(job.id, job.run, 60)
    end = await world.end(job)
    assert end.outcome is Outcome.KILLED
    assert await world.observed(job) == end
    await forgotten(world, job)
    await world.backend.forget(job.id, job.run)
    assert await world.observed(job) is None
    await world.backend.stop("job-unknown", 1, 10)
    assert await world.backend.observe() == []


async def test_the_pod_of_a_job_refers_to_the_secret_of_its_owner(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    plain, secret = world.job("plain", (node, 0)), world.job("secret", (node, 1))
    await world.launch(plain)
    await world.launch(secret, secrets=("HF_TOKEN",))
    for job in (plain, secret):
        await world.running(job)
    without, pod = [await asyncio.to_thread(world.pod, job) for job in (plain, secret)]
    assert [each.name for each in without.spec.containers[0].env if each.value_from] == []
    (reference,) = [each for each in pod.spec.containers[0].env if each.name == "HF_TOKEN"]
    assert reference.value is None
    source = reference.value_from.secret_key_ref
    assert (source.name, source.key, source.optional) == ("gq-ann", "HF_TOKEN", None)
    await forgotten(world, plain, secret)


async def test_what_the_pod_shows_last_is_the_end(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=8)
    jobs = [world.job(name, (node, index)) for index, name in enumerate(["said", "memory", "evicted", "no-runner"])]
    for job in jobs:
        await world.launch(job)
    for job in jobs:
        await world.running(job)
    said, memory, evicted, no_runner = [await asyncio.to_thread(world.pod, job) for job in jobs]
    world.finish(said, 1, '{"outcome": "FAILED", "sentence": "ValueError: no"}', "Error")
    world.finish(memory, 137, "", "OOMKilled")
    disruption = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": "m"}
    world.finish(evicted, 143, "", "Error", conditions=[disruption])
    world.finish(no_runner, 1, "python: No module named jupyter_gq", "Error")
    ends = [await world.end(job) for job in jobs]
    assert [end.outcome for end in ends] == [Outcome.FAILED, Outcome.FAILED, Outcome.LOST, Outcome.FAILED]
    assert ends[0].sentence == "ValueError: no"
    assert "memory" in ends[1].sentence
    assert "scheduler gave the pod's place" in ends[2].sentence
    assert "example.org/runner:1" in ends[3].sentence
    assert len(await asyncio.to_thread(world.pods)) == 4, "pods stay until their end is written down"
    await forgotten(world, *jobs)


async def test_shares_wait_for_their_device_and_name_it(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    one, two = (world.job(name, (node, 1), gpus="0.5") for name in ("one", "two"))
    await world.launch(one)
    await world.observed(one)
    assert (await world.observed(one)).phase is Phase.STARTING
    device = await world.held(f"{node}/1", node)
    await world.launch(two)
    for job in (one, two):
        await world.running(job)
    pod = await asyncio.to_thread(world.pod, two)
    environment = {variable.name: variable.value for variable in pod.spec.containers[0].env}
    assert environment["NVIDIA_VISIBLE_DEVICES"] == environment["CUDA_VISIBLE_DEVICES"] == device.id
    assert environment["JUPYTER_GQ_MEMORY_MIB"] == "20000"
    assert not pod.spec.containers[0].resources.limits
    assert pod.spec.runtime_class_name == "nvidia"
    watched = world.agents.report(node).watch
    assert {(each.pod, tuple(each.devices)) for each in watched} == {
        ("gq-job-one-1-0", (device.id,)),
        ("gq-job-two-1-0", (device.id,)),
    }
    (seen,) = [each for each in world.backend.nodes() if each.name == node]
    assert seen.labels["jupyter-gq.org/shares"] == "yes"
    assert {(d.id, d.model, d.memory, d.healthy) for d in seen.devices} == {
        (f"{node}/{index}", "A100-40GB", 40_000, True) for index in (0, 1)
    }
    world.clock.ahead += 61
    await world.backend.observe()
    (silent,) = [each for each in world.backend.nodes() if each.name == node]
    assert "jupyter-gq.org/shares" not in silent.labels, "its agent is silent"
    for job in (one, two):
        await world.backend.stop(job.id, job.run, 0)
        await world.end(job)
    await forgotten(world, one, two)
    assert [pod.metadata.name for pod in await asyncio.to_thread(world.pods)], "it lingers"
    world.clock.ahead += 61

    async def released():
        await world.backend.observe()
        return not await asyncio.to_thread(world.pods)

    await eventually(released, "the reservation is let go")


async def test_a_notebook_is_told_its_place_watched_and_ended_through_the_hub(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    notebook = world.notebook("ben", node, 0)
    await world.launch(notebook)
    await world.backend.observe()
    assert world.backend.notebooks.pod_additions(notebook.id, 1) is None
    assert "reserved" in world.backend.notebooks.describe_preparation(notebook.id, 1)
    device = await world.held(f"{node}/0", node)
    added = world.backend.notebooks.pod_additions(notebook.id, 1)
    assert (added.node, added.environment["NVIDIA_VISIBLE_DEVICES"]) == (node, device.id)
    pod = await asyncio.to_thread(world.start_server, notebook, added)
    await world.running(notebook)
    world.agents.shares[pod.metadata.uid] = {"memory_mib": 512, "utilisation": 7}
    world.agents.report(node)
    uses = world.backend.find_uses([notebook.id, "nb-other"])
    assert uses.keys() == {notebook.id}
    assert (uses[notebook.id].memory, uses[notebook.id].utilisation) == (512, 7)
    assert world.backend.image_of(notebook.id) == "example.org/lab:1"
    world.hub.deaf = True
    await world.backend.stop(notebook.id, 1, 5)
    await eventually(lambda: world.hub.asked == [("ben", "")], "the Hub is asked")
    world.clock.ahead += 60
    seen = await world.observed(notebook)
    assert seen.phase is Phase.RUNNING, "its pod is never deleted by us"
    world.hub.deaf = False
    assert (await world.end(notebook)).outcome is Outcome.SUCCEEDED
    await world.backend.forget(notebook.id, 1)


async def test_a_gang_starts_together_or_not_at_all_and_fails_together(world, kwok):
    (good,), (slow,) = kwok.add_nodes(1, gpus=2), kwok.add_nodes(1, gpus=2, name="never-start")
    gang = world.job("gang", (good, 0), (slow, 0))
    await world.launch(gang)

    async def half_of_it_runs():
        await world.backend.observe()
        pods = world.backend.training.pods.of_run((gang.id, 1))
        return sorted((pod.task, pod.phase, pod.node) for pod in pods) == [(0, "Running", good), (1, "Pending", slow)]

    await eventually(half_of_it_runs, "one pod runs, the other does not")
    service = world.plane.core.read_namespaced_service("gq-job-gang-1", world.namespaces.train)
    assert service.spec.cluster_ip == "None"
    assert (await world.observed(gang)).phase is Phase.STARTING
    world.clock.ahead += 301
    end = await world.end(gang)
    assert end.outcome is Outcome.REFUSED
    assert end.sentence == "The job did not start: 1 of 2 tasks had not begun after 300 s."
    pauses = world.backend.cluster_nodes.back_off.until
    assert (bool(pauses(good)), bool(pauses(slow))) == (False, True)
    await forgotten(world, gang)
    assert not world.plane.core.list_namespaced_service(world.namespaces.train).items
    again = world.job("gang", (good, 0), (good, 1), run=2)
    await world.launch(again)
    await world.running(again)
    await asyncio.to_thread(world.finish, world.pod(again, 1), 1, '{"outcome": "FAILED", "sentence": "no"}', "Error")
    end = await world.end(again)
    assert (end.outcome, end.sentence) == (Outcome.FAILED, "Task 1 of 2: no")
    await forgotten(world, again)


async def test_what_finds_no_place_is_refused_and_its_node_pauses(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=1)
    first, second = world.job("first", (node, 0)), world.job("second", (node, 0))
    await world.launch(first)
    await world.running(first)
    await world.launch(second)
    await world.until(second, lambda seen: "Insufficient nvidia.com/gpu" in seen.sentence, "the scheduler's word")
    world.clock.ahead += 21
    end = await world.end(second)
    assert end.outcome is Outcome.REFUSED
    assert "Insufficient nvidia.com/gpu" in end.sentence
    (seen,) = [each for each in world.backend.nodes() if each.name == node]
    assert [device.healthy for device in seen.devices] == [False]
    world.clock.ahead += 21
    await world.backend.observe()
    (seen,) = [each for each in world.backend.nodes() if each.name == node]
    assert [device.healthy for device in seen.devices] == [True]
    await world.backend.stop(first.id, 1, 1)
    await world.end(first)
    await forgotten(world, first, second)


async def test_another_process_finds_everything_again(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=6)
    world.agents.gpus = 6
    whole, share = world.job("kept", (node, 0)), world.job("share", (node, 1), gpus="0.5")
    gang = world.job("half", (node, 2), (node, 3))
    unknown, unknown_share = world.job("unknown", (node, 4)), world.job("unknown-share", (node, 5), gpus="0.5")
    for job in (whole, share, unknown, unknown_share):
        await world.launch(job)
    for index in (1, 5):
        await world.held(f"{node}/{index}", node)
    for job in (whole, share, unknown, unknown_share):
        await world.running(job)
    before = {pod.metadata.uid for pod in await asyncio.to_thread(world.pods)}
    world.backend = world.new_backend()
    assert await world.observed(unknown) is None, "who is alive is told first; what nobody speaks of is reported then"
    for job in (world.job("kept", (node, 0), state=State.RUNNING), share, gang):
        await world.launch(job)
    vanished = world.job("vanished", (node, 3), state=State.RUNNING)
    await world.launch(vanished)
    for job in (whole, share, gang):
        await world.running(job)
    assert (await world.end(vanished)).outcome is Outcome.LOST
    after = {pod.metadata.uid for pod in await asyncio.to_thread(world.pods)}
    assert before < after, "nothing was made twice"
    assert len(after) == len(before) + 2, "what was missing was made"
    (seen,) = [each for each in world.backend.nodes() if each.name == node]
    healthy = {device.id: device.healthy for device in seen.devices}
    assert (healthy[f"{node}/4"], healthy[f"{node}/5"]) == (False, False), "somebody unknown is there"
    for _ in range(7):
        world.clock.ahead += 11
        await world.agents.tell(node)
        for job in (unknown, unknown_share):
            assert (await world.observed(job)).phase is Phase.RUNNING, "it is reported, and left alone"
    held = {pod.metadata.uid for pod in await asyncio.to_thread(world.pods) if not pod.metadata.deletion_timestamp}
    assert before <= held, "its device is held, too"
    jobs = (whole, share, gang, unknown, unknown_share)
    for job in jobs:
        await world.backend.stop(job.id, job.run, 1)
    for job in jobs:
        await world.end(job)
    await forgotten(world, *jobs, vanished)


async def test_while_the_api_server_is_away_nothing_is_known_and_then_all_is_as_before(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=2)
    job = world.job("patient", (node, 0))
    await world.launch(job)
    await world.running(job)
    await asyncio.to_thread(world.plane.stop_api)

    async def unknown():
        try:
            await world.backend.observe()
        except BackendError as error:
            return str(error)

    assert await eventually(unknown, "that it is away")
    late = world.job("late", (node, 1))
    await world.launch(late)
    world.clock.ahead += 90
    await asyncio.to_thread(world.plane.start_api)
    # What runs the pods of this test may overlook one that comes while it looks again, and so may the scheduler.
    await asyncio.to_thread(world.plane.settle)
    await asyncio.to_thread(kwok.start)
    await eventually(lambda: not any(watch.failure for watch in world.backend._watches), "contact")
    assert (await world.running(job)).outcome is None
    await world.running(late)
    pods = await asyncio.to_thread(world.pods)
    assert len([pod for pod in pods if pod.metadata.namespace == world.namespaces.train]) == 2
    for watch in world.backend._watches:
        watch._version = "1"
        watch._stream.end()
    lists = [watch.lists for watch in world.backend._watches]
    await eventually(
        lambda: all(watch.lists > n for watch, n in zip(world.backend._watches, lists, strict=True)),
        "410: listed again",
    )
    # A watch that was ended at once, and then the 410: for the second time in a row it is no contact for a moment.
    await eventually(lambda: not any(watch.failure for watch in world.backend._watches), "contact again")
    for each in (job, late):
        await world.backend.stop(each.id, 1, 1)
        await world.end(each)
    await forgotten(world, job, late)


async def test_nothing_is_asked_while_nothing_happens(world, kwok):
    (node,) = kwok.add_nodes(1, gpus=8)
    jobs = [world.job(f"quiet-{index}", (node, index)) for index in range(8)]
    for job in jobs:
        await world.launch(job)
    for job in jobs:
        await world.running(job)
    before, changes = world.backend.cluster.requests.total(), world.changes
    for _ in range(40):
        await world.backend.observe()
        await asyncio.sleep(0.05)
    assert world.backend.cluster.requests.total() == before
    assert world.changes - changes <= 2
    for job in jobs:
        await world.backend.stop(job.id, 1, 1)
    for job in jobs:
        await world.end(job)
    await forgotten(world, *jobs)
