"""What a job asks of its nodes and devices: CPU, memory and GPU model, refused or granted."""

from dataclasses import replace

import pytest

from jupyter_gq.client.models import JobChange, JobRequest
from jupyter_gq.domain.amount import MiB
from jupyter_gq.domain.cluster import UNKNOWN_MODEL
from jupyter_gq.domain.errors import InvalidAmount, NeverFits
from jupyter_gq.scheduling.placement import resolved
from tests.fakes import a_node

from .world import ANN, World, a_submission, story_settings

pytestmark = pytest.mark.asyncio


def a_box(*models, cores=8, gib=64):
    """A machine that counts its CPU cores and memory."""
    node = a_node(2)
    devices = tuple(replace(d, model=model) for d, model in zip(node.devices, models, strict=False)) or node.devices
    return replace(node, devices=devices, cpu_milli=1000 * cores, memory=MiB(1024 * gib))


def a_world(tmp_path, node, **queue):
    """The world of the story on that machine, where both queues say that, too."""
    queues = {name: {"quota": "0.5", "groups": [name], **queue} for name in ("vision", "nlp")}
    train = {"Pools": {"pools": {}}, "TrainingQueues": {"queues": queues}}
    return World(tmp_path, settings=story_settings((node,), **train), nodes=(node,))


@pytest.mark.parametrize(
    ("changes", "error", "words", "resource"),
    [
        ({"cpus": "four"}, InvalidAmount, "'four' is not a valid amount of CPU cores", "cpu"),
        ({"cpus": 0}, InvalidAmount, "a job needs some; use more, or leave it out", "cpu"),
        ({"memory": "16 X"}, InvalidAmount, "'16 X' is not a valid amount of memory", "memory"),
        ({"memory": "0"}, InvalidAmount, "a job needs some", "memory"),
        (
            {"cpus": 9},
            NeverFits,
            "9 CPU cores beside 1 GPU on one node, but no such node .* Ask for 8 CPU cores",
            "cpu",
        ),
        ({"memory": 65}, NeverFits, "65 GiB of memory beside .* has more than 64 GiB. Ask for 64 GiB", "memory"),
        ({"cpus": 5, "gpus": "0.5", "tasks": 2}, NeverFits, "2 tasks of 0.5 GPU and 5 CPU cores .* room for 1", "gpu"),
        ({"gpu_model": "H100"}, NeverFits, "of the model H100, .* it has A100-40GB. Ask for A100-40GB", "model"),
        ({"gpu_model": "A100-40GB", "gpus": 0}, NeverFits, "A100-40GB, but for no GPU", "model"),
    ],
)
async def test_cpu_memory_and_models_that_no_node_has_are_refused(tmp_path, changes, error, words, resource):
    world = a_world(tmp_path, a_box())
    request = JobRequest.model_validate({"queue": "vision", "gpus": "1", **changes})
    with pytest.raises(error, match=words) as refused:
        await world.controller.previews.preview(ANN, request)
    assert refused.value.resource == resource
    world.close()


async def test_a_job_has_the_cpu_memory_and_model_that_it_asked_for(tmp_path):
    world = a_world(tmp_path, a_box("A100-40GB", "H100"))
    asked = a_submission(cpus=2, memory="4 GiB", gpu_model="H100", expected_seconds=3600)
    view, _ = world.controller.jobs.submit(ANN, asked, None)
    assert (view.cpus, view.memory, view.gpu_model, view.expected_seconds) == ("2", "4 GiB", "H100", 3600)
    await world.step(2)
    (launch,) = world.backend.launches
    request = launch.workload.request
    assert (request.cpu_milli, request.memory) == (2000, 4096)
    assert launch.workload.placement[0].devices == (world.nodes[0].devices[1].id,)
    world.close()


async def test_what_is_taken_is_waited_for_and_the_preview_says_so(tmp_path):
    world = a_world(tmp_path, a_box())
    world.controller.jobs.submit(ANN, a_submission(gpus="0.25", cpus=6), None)
    await world.step(2)
    preview = await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus="0.25", cpus=4))
    assert not preview.starts_now
    assert "no node with 0.25 GPU idle has 4 CPU cores free" in preview.sentence
    world.close()


async def test_a_job_that_names_nothing_gets_what_its_queue_says(tmp_path):
    world = a_world(tmp_path, a_box(), default_cpus=3, default_memory="6 GiB")
    preview = await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus="1"))
    assert (preview.cpus, preview.memory) == ("3", "6 GiB")
    named, _ = world.controller.jobs.submit(ANN, a_submission(cpus=1), None)
    assert (named.cpus, named.memory) == ("1", "6 GiB")
    world.close()


async def test_a_refusal_for_an_amount_that_the_user_did_not_name_says_whose_it_is(tmp_path):
    world = a_world(tmp_path, a_box(cores=8))
    world.settings.current = story_settings(
        TrainingQueues={"queues": {"vision": {"default_cpus": 16}}}, Pools={"pools": {}}
    )
    with pytest.raises(NeverFits, match="You named no CPU cores: this is what the queue vision gives to such jobs"):
        await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus="1"))
    with pytest.raises(NeverFits) as refused:
        await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus="1", cpus=16))
    assert "You named no" not in str(refused.value)
    world.close()


async def test_a_queue_at_its_limit_of_memory_says_so(tmp_path):
    world = a_world(tmp_path, a_box(), limit_memory="8 GiB")
    world.controller.jobs.submit(ANN, a_submission(gpus="0.25", memory="6 GiB"), None)
    waits, _ = world.controller.jobs.submit(ANN, a_submission(gpus="0.25", memory="6 GiB"), None)
    await world.step(2)
    told = world.controller.jobs.show(ANN, waits.id)
    assert "the limit of vision is 8 GiB of memory, of which it uses 6 GiB, and this needs 6 GiB" in told.sentence
    with pytest.raises(NeverFits, match="the limit of vision is 8 GiB of memory"):
        await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpus="0.25", memory=9))
    world.close()


@pytest.mark.parametrize(
    ("changes", "error", "words", "resource"),
    [
        ({"gpu_memory": "much"}, InvalidAmount, "'much' is not a valid amount of GPU memory", "GPU memory"),
        ({"gpu_memory": 0}, InvalidAmount, "a task with a GPU needs some", "GPU memory"),
        ({"gpu_memory": "12 GB", "gpus": "0.5"}, InvalidAmount, "name either GPU memory or a fraction", "gpu"),
        ({"gpu_memory": "12 GB", "gpus": 0}, InvalidAmount, "name either GPU memory or a fraction", "gpu"),
        ({"gpu_memory": "12 GB", "gpus": 2}, InvalidAmount, "ask for whole GPUs without GPU memory", "gpu"),
        ({"gpu_memory": "80 GB"}, NeverFits, "80 GiB of GPU memory.* largest GPU has 40 GiB. Ask for 40", "GPU memory"),
        (
            {"gpu_memory": "24 GB", "tasks": 3},
            NeverFits,
            "3 tasks of 24 GiB of GPU memory .* has room for 2 of them. Ask for 2 tasks",
            "gpu",
        ),
        ({"preferred_gpu_models": ["A100"]}, NeverFits, "has none. It has A100-40GB and H100", "preferred models"),
        ({"preferred_gpu_models": ["H100"], "gpus": 0}, NeverFits, "H100, but for no GPU", "preferred models"),
        (
            {"preferred_gpu_models": ["H100"], "gpu_model": "H100"},
            NeverFits,
            "Name the model either as required or as preferred",
            "preferred models",
        ),
    ],
)
async def test_gpu_memory_and_preferences_that_no_gpu_meets_are_refused(tmp_path, changes, error, words, resource):
    world = a_world(tmp_path, a_box("A100-40GB", "H100"))
    request = JobRequest.model_validate({"queue": "vision", **changes})
    with pytest.raises(error, match=words) as refused:
        await world.controller.previews.preview(ANN, request)
    assert refused.value.resource == resource
    world.close()


async def test_gpu_memory_is_a_part_of_one_gpu_which_the_job_says(tmp_path):
    world = a_world(tmp_path, a_box())
    preview = await world.controller.previews.preview(ANN, JobRequest(queue="vision", gpu_memory="12 GB"))
    assert (preview.gpus, preview.starts_now) == ("0.3", True)
    view, _ = world.controller.jobs.submit(ANN, a_submission(gpu_memory="12 GB"), None)
    assert (view.gpus, view.gpu_memory) == ("0.3", "12 GiB")
    await world.step(2)
    assert world.backend.launches[0].environment["JUPYTER_GQ_MEMORY_MIB"] == str(12 * 1024)
    await world.step(2)
    told = world.controller.jobs.show(ANN, view.id)
    assert told.sentence == "Running on 12 GiB (0.3 GPU) of A100-40GB."
    world.close()


async def test_a_job_on_a_gpu_of_an_unknown_model_names_no_model(tmp_path):
    world = a_world(tmp_path, a_box(UNKNOWN_MODEL))
    job = world.send(ANN, "vision", "1")
    await world.step(3)
    assert world.job(job).sentence == "Running on 1 GPU."
    world.close()


async def test_a_part_that_was_computed_before_other_gpus_came_is_computed_anew_at_the_start(tmp_path):
    world = a_world(tmp_path, a_box())
    view, _ = world.controller.jobs.submit(ANN, a_submission(gpu_memory="12 GB"), None)
    small = replace(world.nodes[0], devices=tuple(replace(d, memory=MiB(16 * 1024)) for d in world.nodes[0].devices))
    world.servers._nodes = world.backend._nodes = (small,)
    await world.step(2)
    (launch,) = world.backend.launches
    assert launch.workload.request.milli_per_device == 750
    assert world.controller.jobs.show(ANN, view.id).gpus == "0.75"
    world.close()


async def test_a_running_job_keeps_its_part_whatever_gpus_come(tmp_path):
    world = a_world(tmp_path, a_box())
    view, _ = world.controller.jobs.submit(ANN, a_submission(gpu_memory="12 GB"), None)
    await world.step(3)
    large = replace(world.nodes[0], devices=tuple(replace(d, memory=MiB(80 * 1024)) for d in world.nodes[0].devices))
    world.servers._nodes = world.backend._nodes = (large,)
    await world.step()
    (running,) = resolved(world.controller._context.snapshot()).workloads
    assert (running.id, running.request.milli_per_device) == (view.id, 300)
    world.close()


async def test_the_preferred_model_is_used_while_it_has_room_and_then_another(tmp_path):
    world = a_world(tmp_path, a_box("A100-40GB", "H100"))
    asked = a_submission(preferred_gpu_models=["H100"])
    views = [world.controller.jobs.submit(ANN, asked, None)[0] for _ in range(2)]
    assert views[0].preferred_gpu_models == ["H100"]
    await world.step(2)
    devices = [launch.workload.placement[0].devices[0] for launch in world.backend.launches]
    assert devices == [world.nodes[0].devices[1].id, world.nodes[0].devices[0].id]
    world.close()


async def test_gpus_take_the_place_of_gpu_memory_while_the_job_waits(tmp_path):
    world = a_world(tmp_path, a_box())
    view, _ = world.controller.jobs.submit(
        ANN, a_submission(gpu_memory="12 GB", preferred_gpu_models=["A100-40GB"]), None
    )
    changed = world.controller.job_changes.change(ANN, view.id, JobChange(gpus="0.3"))
    assert (changed.gpus, changed.gpu_memory, changed.preferred_gpu_models) == ("0.3", None, ["A100-40GB"])
    world.close()


def two_racks():
    """Two racks of two nodes with two GPUs each."""
    return tuple(
        replace(a_node(2, name=name), labels={"example.com/rack": name[1]}) for name in ("a1", "a2", "b1", "b2")
    )


def a_cluster(tmp_path, topology=("example.com/rack",)):
    queues = {"vision": {"groups": ["vision"]}}
    nodes = two_racks()
    sections = {"Pools": {"pools": {}}, "TrainingQueues": {"queues": queues}, "Placement": {"topology": list(topology)}}
    return World(tmp_path, settings=story_settings(nodes, **sections), nodes=nodes)


async def test_all_tasks_run_within_the_level_that_the_job_asks_for(tmp_path):
    world = a_cluster(tmp_path)
    world.controller.jobs.submit(ANN, a_submission(gpus="1"), None)
    await world.step(2)
    view, _ = world.controller.jobs.submit(ANN, a_submission(gpus="1", tasks=4, within="rack"), None)
    assert view.within == "rack"
    await world.step(2)
    launch = world.backend.launches[-1]
    assert {place.node for place in launch.workload.placement} == {"a2", "b2"}
    world.close()


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"within": "room"}, "within one room, but there is no such level. Use rack or node."),
        ({"within": "rack", "tasks": 5}, "in one rack, but no rack of the pool .* for more than 4 of them. Ask for 4"),
        ({"within": "node", "tasks": 3}, "in one node, but no node of the pool .* for more than 2 of them. Ask for 2"),
    ],
)
async def test_a_level_that_cannot_hold_the_tasks_is_refused(tmp_path, changes, words):
    world = a_cluster(tmp_path)
    with pytest.raises(NeverFits, match=words):
        await world.controller.previews.preview(
            ANN, JobRequest.model_validate({"queue": "vision", "gpus": "1", **changes})
        )
    world.close()


async def test_a_job_waits_if_no_domain_has_room_and_if_its_level_is_no_longer_known(tmp_path):
    world = a_cluster(tmp_path)
    for _ in range(2):
        world.controller.jobs.submit(ANN, a_submission(gpus="1", tasks=2, within="node"), None)
    await world.step(2)
    view, _ = world.controller.jobs.submit(ANN, a_submission(gpus="1", tasks=4, within="rack"), None)
    await world.step(2)
    assert "4 GPUs are idle, at most 2 of them in one rack" in world.controller.jobs.show(ANN, view.id).sentence
    world.settings.current = a_cluster(tmp_path, topology=()).settings.current
    await world.step(2)
    assert world.controller.jobs.show(ANN, view.id).phase == "waiting"
    world.close()
