"""What a user is told before a job is sent: its place, its start, its quota, and what would start earlier."""

import asyncio
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from traitlets.config import Config

from jupyter_gq.client.models import JobRequest, Preview
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.requests.previews import Previews
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.domain.errors import SecretUnavailable
from tests.fakes import a_node
from tests.patience import scaled

from .world import ANN, BOB, World, a_submission, story_settings

pytestmark = pytest.mark.asyncio

#: A member of both queues.
EVE = Caller(user="eve", groups=frozenset({"vision", "nlp"}))
TWO_QUEUES = {
    "TrainingQueues": {
        "queues": {"vision": {"quota": "1", "groups": ["vision"]}, "nlp": {"quota": "1", "groups": ["nlp"]}}
    },
    "Pools": {"pools": {"build": {"devices": 1}, "train": {"devices": 2}}},
}


def a_world(folder, devices: int = 3, **sections) -> World:
    nodes = (a_node(devices),)
    return World(folder, nodes=nodes, settings=story_settings(nodes, **{**TWO_QUEUES, **sections}))


async def ask(world: World, caller: Caller, **request) -> Preview:
    return await world.controller.previews.preview(caller, JobRequest.model_validate({"queue": "vision", **request}))


def offers(preview: Preview) -> list[str]:
    return [each.sentence for each in preview.alternatives]


async def test_a_job_that_starts_within_its_quota_has_no_alternatives(tmp_path):
    world = a_world(tmp_path)
    preview = await ask(world, EVE, gpus="1")
    assert preview.sentence == "Starts now, within the quota."
    assert preview.alternatives == []
    assert preview.expected_start is None


async def test_a_job_that_would_wait_is_offered_a_share_that_starts_now(tmp_path):
    world = a_world(tmp_path)
    world.send(ANN, "vision", "1")
    world.send(BOB, "nlp", "0.5")
    await world.step(2)
    preview = await ask(world, ANN, gpus="1")
    assert not preview.starts_now
    assert offers(preview) == [
        "0.5 GPU would start now, 0.5 GPU over your queue's quota; may be paused when nlp needs its GPUs back."
    ]
    (offer,) = preview.alternatives
    assert (offer.queue, offer.gpus, offer.gpu_model) == ("vision", "0.5", None)
    assert offer.over_quota == "0.5"


async def test_another_queue_is_offered_to_its_members_only(tmp_path):
    world = a_world(tmp_path)
    world.send(ANN, "vision", "1")
    await world.step(2)
    for_member, for_other = await ask(world, EVE, gpus="1"), await ask(world, ANN, gpus="1")
    assert for_member.starts_now
    assert for_member.over_quota == "1"
    assert offers(for_member) == ["The queue nlp would start now, within the quota."]
    assert offers(for_other) == [], "Ann is no member of nlp, and every share in vision is over the quota"


async def test_another_model_is_offered_where_only_one_is_allowed(tmp_path):
    big = a_node(1, name="big")
    big = replace(big, devices=tuple(replace(device, model="H100") for device in big.devices))
    nodes = (a_node(1), big)
    queues = {"vision": {"quota": "1"}, "nlp": {"quota": "1"}}
    sections = {"Pools": {"pools": {}}, "TrainingQueues": {"queues": queues}}
    world = World(tmp_path, nodes=nodes, settings=build_settings(Config(sections), nodes))
    model = nodes[0].devices[0].model
    world.send(ANN, "vision", "1", gpu_model="H100")
    await world.step(2)
    preview = await ask(world, ANN, gpus="1", gpu_model="H100")
    assert not preview.starts_now
    assert [(each.gpu_model, each.gpus) for each in preview.alternatives] == [(model, "1")]


async def test_the_start_of_a_job_that_waits_is_a_range(tmp_path):
    world = a_world(tmp_path)
    world.send(ANN, "vision", "2", expected_seconds=600)
    await world.step(2)
    preview = await ask(world, ANN, gpus="1")
    assert preview.position == 1
    assert preview.expected_start is not None
    now = world.clock.now()
    assert preview.expected_start.p50 - now == pytest.approx(600, abs=5)
    assert preview.expected_start.p90 > preview.expected_start.p50
    assert world.controller.forecasts._forecaster.stated == {}, "no outcome is expected of a job that was not sent"


class ForecastsThatHang:
    """Forecasts that come when the test says so."""

    def __init__(self):
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    async def foresee(self, workload):
        self.begun.set()
        await self.go_on.wait()


async def test_nobody_waits_long_for_the_forecasts_of_others(tmp_path, monkeypatch):
    """The tenth dialog that is opened at the same time has its answer about as soon as the first."""
    world = a_world(tmp_path)
    world.send(ANN, "vision", "2")
    await world.step(2)
    part, hanging = world.controller.previews, ForecastsThatHang()
    previews = Previews(part._context, part._decider, hanging)
    request = JobRequest(queue="vision", gpus="1")
    first = asyncio.create_task(previews.preview(ANN, request))
    await hanging.begun.wait()
    monkeypatch.setattr("jupyter_gq.controller.requests.previews.LONGEST_WAIT", 0.01)
    second = await asyncio.wait_for(previews.preview(ANN, request), scaled(5))
    assert (second.starts_now, second.position, second.expected_start) == (False, 1, None)
    hanging.go_on.set()
    assert (await first).position == 1
    assert (await previews.preview(ANN, request)).position == 1, "the turn was given back"


class DecidesOnTheRecord:
    """A decider that notes who asked in which round of the event loop."""

    def __init__(self, decider):
        self._decider, self.round, self.asked = decider, 0, []

    def preview(self, caller, workloads):
        self.asked.append((self.round, caller.user))
        return self._decider.preview(caller, workloads)

    async def count_rounds(self):
        while True:
            self.round += 1
            await asyncio.sleep(0)


async def test_many_previews_of_one_user_do_not_hold_up_those_of_others(tmp_path):
    """A user's previews are decided in turns, with one decision of a user in a round of the event loop."""
    world = a_world(tmp_path)
    world.send(ANN, "vision", "2")
    await world.step(2)
    part = world.controller.previews
    decider = DecidesOnTheRecord(part._decider)
    previews = Previews(part._context, decider, part._forecasts)
    counting = asyncio.create_task(decider.count_rounds())
    asking = [(ANN, "vision")] * 10 + [(BOB, "nlp")]
    answers = await asyncio.gather(*(previews.preview(who, JobRequest(queue=queue, gpus="2")) for who, queue in asking))
    counting.cancel()
    assert not any(each.starts_now for each in answers)
    assert len(decider.asked) == len(set(decider.asked)) >= 2 * len(asking), "each decision has a round of its own"
    of_bob = [place for place, (_, user) in enumerate(decider.asked) if user == BOB.user]
    assert max(of_bob) <= 2 * len(of_bob), "Bob comes every second time"


async def test_another_queue_whose_work_starts_much_earlier_is_offered_with_its_range(tmp_path):
    world = a_world(
        tmp_path,
        TrainingQueues={
            "queues": {
                "vision": {"quota": "1", "limit": "1", "groups": ["vision"]},
                "nlp": {"quota": "1", "limit": "1", "groups": ["nlp"]},
            }
        },
    )
    world.send(ANN, "vision", "1", expected_seconds=7200)
    world.send(BOB, "nlp", "1", expected_seconds=600)
    await world.step(2)
    preview = await ask(world, EVE, gpus="1")
    assert offers(preview) == ["The queue nlp would probably start within 10 min, almost surely within 30 min."]


async def test_a_queue_with_a_min_runtime_says_how_long_a_run_is_protected(tmp_path):
    world = a_world(tmp_path, Fairness={"reclaim_min_runtime": 600})
    preview = await ask(world, EVE, gpus="2")
    assert preview.sentence == (
        "Starts now, 1 GPU over your queue's quota; may be paused when nlp needs its GPUs back, but not within its "
        "first 10 min."
    )
    assert offers(preview) == ["1 GPU would start now, within the quota."]


AMOUNTS = ("0.25", "0.5", "1", "2")
LOADS = st.lists(st.tuples(st.sampled_from(["vision", "nlp"]), st.sampled_from(AMOUNTS)), max_size=5)


@given(load=LOADS, gpus=st.sampled_from(AMOUNTS), queue=st.sampled_from(["vision", "nlp"]))
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_each_alternative_that_starts_now_starts_when_it_is_sent(tmp_path_factory, load, gpus, queue):
    """Safety: an offer is never a promise that the next cycle breaks."""
    offered = await offered_by(a_loaded_world(tmp_path_factory, load), gpus, queue)
    for offer in [each for each in offered if each.starts_now]:
        world = a_loaded_world(tmp_path_factory, load)
        await world.step(2)
        sent = a_submission(offer.queue, offer.gpus)
        job, _ = world.controller.jobs.submit(EVE, sent, None)
        await world.step(1)
        view = world.controller.jobs.show(EVE, job.id)
        assert view.phase in {"starting", "running"}, (offer, view.sentence)
        assert view.over_quota == offer.over_quota
        world.close()


def a_loaded_world(folders, load) -> World:
    world = a_world(folders.mktemp("previews"))
    for queue, gpus in load:
        world.send(EVE, queue, gpus)
    return world


async def offered_by(world: World, gpus: str, queue: str):
    await world.step(2)
    preview = await ask(world, EVE, gpus=gpus, queue=queue)
    world.close()
    return preview.alternatives


@pytest.mark.parametrize(
    ("name", "said"),
    [("HF_/../../x", "is no name of a secret"), ("HF_TOKEN", "add it to c.TrainingQueues.secrets")],
)
async def test_a_secret_that_no_job_may_have_is_told_before_sending(tmp_path, name, said):
    world = a_world(tmp_path)
    request = JobRequest.model_validate({"queue": "vision", "gpus": "1"})
    with pytest.raises(SecretUnavailable, match=said):
        await world.controller.previews.preview(ANN, request, secrets=[name])
    world.close()


async def test_the_fixed_quota_of_a_user_has_no_name_in_a_preview(tmp_path):
    world = a_world(tmp_path, devices=4, Pools={"pools": {"all": {"devices": 4}}})
    await world.start_server(ANN, "0.5", "lab")
    preview = await ask(world, EVE, gpus="2")
    assert "may be paused when nlp or a notebook needs its GPUs back" in preview.sentence
