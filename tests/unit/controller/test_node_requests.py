"""A cluster that grows: what is wanted of it, and what those are told who wait for it."""

import json

import pytest

from jupyter_gq.backends.capabilities import Capabilities
from jupyter_gq.client.models import JobRequest
from jupyter_gq.client.state import read_state
from jupyter_gq.domain.amount import Instant, MiB
from jupyter_gq.domain.cluster import Device, NewNodes, Node, NodeRequest
from jupyter_gq.domain.errors import NeverFits
from tests.fakes import FakeBackend

from .world import ANN, BOB, World, story_settings

POOLS = {"gpu": {"nodes": {}, "scale_up": {"gpus": 4, "nodes": 2}}}
QUEUES = {
    "vision": {"quota": 4, "groups": ["vision"], "limit": 8},
    "nlp": {"quota": 0, "groups": ["nlp"]},
}


class AddsNodesWhenAsked(FakeBackend):
    """Its cluster has no node; `asked` is what it says to who asks for one."""

    def __init__(self, *args):
        super().__init__(*args)
        self._nodes, self.count, self.asked, self.wanted = (), 2, None, []
        self.capabilities = Capabilities(node_supply=self)

    def new_nodes(self):
        devices = tuple(Device(id=f"new/{i}", index=i, model="A100", memory=MiB(40_000), pool="gpu") for i in range(4))
        like = Node(name="new", devices=devices, cpu_milli=32_000, memory=MiB(2**18))
        return (NewNodes(pool="gpu", like=like, count=self.count),)

    def request_nodes(self, wanted):
        self.wanted.append(dict(wanted))

    def node_request(self, pool):
        return self.asked


@pytest.fixture
def growing(tmp_path):
    settings = story_settings((), Pools={"pools": POOLS, "over_subscription": 1.0}, TrainingQueues={"queues": QUEUES})
    world = World(tmp_path, backend=AddsNodesWhenAsked, settings=settings)
    world.servers._nodes = ()
    yield world
    world.close()


@pytest.mark.asyncio
async def test_what_would_serve_somebody_is_asked_for_with_each_decision(growing):
    await growing.step()
    assert growing.backend.wanted == [{}]
    job = growing.send(ANN, "vision", 4)
    await growing.step()
    assert growing.backend.wanted[-1] == {"gpu": 1}
    assert growing.job(job).sentence.endswith("The cluster is asked for a new node of gpu.")
    growing.controller.jobs.cancel(ANN, job)
    await growing.step()
    assert growing.backend.wanted[-1] == {}


@pytest.mark.asyncio
async def test_who_borrows_reads_nothing_of_new_nodes(growing):
    entitled, borrows = growing.send(ANN, "vision", 4), growing.send(BOB, "nlp", 4)
    growing.backend.asked = NodeRequest(since=growing.clock.now())
    await growing.step()
    assert "was asked for a moment ago" in growing.job(entitled).sentence
    assert "new node" not in growing.job(borrows).sentence


@pytest.mark.asyncio
async def test_what_no_node_could_serve_is_refused_while_none_may_come(growing):
    growing.backend.count = 0
    with pytest.raises(NeverFits):
        growing.send(ANN, "vision", 4)
    assert growing.controller.overview.describe_user(ANN).largest_request == "0"


@pytest.mark.asyncio
async def test_who_asks_before_hears_that_a_node_would_be_asked_for(growing):
    await growing.step()
    seen = await growing.controller.previews.preview(ANN, JobRequest(queue="vision", gpus=4))
    assert not seen.starts_now
    assert seen.sentence.endswith("The cluster is asked for a new node of gpu.")
    assert "new node" not in (await growing.controller.previews.preview(BOB, JobRequest(queue="nlp", gpus=4))).sentence


@pytest.mark.asyncio
async def test_the_dialogs_know_what_a_new_node_has(growing):
    await growing.step()
    me = growing.controller.overview.describe_user(ANN)
    assert me.largest_request == "4"
    (pool,) = me.pools
    assert (pool.devices, pool.total, pool.largest_cpus, pool.largest_memory) == (0, "0", "32", "256 GiB")
    share = next(choice for choice in me.choices if choice.gpus == "0.25")
    assert share.available
    assert share.sentence.endswith("The cluster is asked for a new node of gpu.")


@pytest.mark.asyncio
async def test_a_notebook_waits_for_the_first_node(growing):
    ticket = growing.ask(ANN, "0.25")
    growing.backend.asked = NodeRequest(since=Instant(growing.clock.now() - 130))
    await growing.step()
    view = growing.controller.tickets.show(ANN, ticket.id)
    assert view.phase == "waiting"
    assert view.sentence.endswith("A new node of gpu was asked for 2 min ago.")


@pytest.mark.asyncio
async def test_the_state_says_it_too_and_can_be_read_again(growing):
    growing.send(ANN, "vision", 4)
    await growing.step()
    wanted = len(growing.backend.wanted)
    document = growing.controller.overview.read_state()
    assert document["decision"]["pending"][0]["why"]["sentence"].endswith("is asked for a new node of gpu.")
    read = read_state(json.dumps(document))
    assert read.state.snapshot.new_nodes == growing.backend.new_nodes()
    assert len(growing.backend.wanted) == wanted, "looking asks for nothing"
