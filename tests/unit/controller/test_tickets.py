"""What spawners ask: a share is granted within the quota, held by a process, and free when that is gone."""

import asyncio
import contextlib
import re

import pytest
from traitlets.config import Config

from jupyter_gq.backends.protocol import Outcome
from jupyter_gq.client.models import ProcessReport, TicketRequest
from jupyter_gq.controller.controller import make_id
from jupyter_gq.controller.settings.config import build_settings
from jupyter_gq.domain.audit import SCHEDULER, Action, AuditFilter
from jupyter_gq.domain.errors import BackendError, Conflict, InvalidAmount, NotFound, QuotaExceeded
from jupyter_gq.domain.mentions import reveal
from tests.builders import cordoned
from tests.fakes import ServersArePods, ServiceKilled, a_node
from tests.patience import scaled

from .world import ADMIN, ANN, BOB, CAROL, World

pytestmark = pytest.mark.asyncio


async def test_within_the_quota_the_server_may_start_after_one_step(world: World):
    ticket = world.ask(ANN, "0.5")
    assert (ticket.phase, ticket.environment) == ("waiting", {})
    await world.step()
    ticket = world.controller.tickets.show(ANN, ticket.id)
    assert ticket.phase == "starting"
    assert ticket.environment["CUDA_VISIBLE_DEVICES"] == "GPU-sim-box-0"
    assert ticket.environment["JUPYTER_GQ_MEMORY_MIB"] == "20480"
    assert ticket.environment["JUPYTER_GQ_SIMULATED"] == "1"


async def test_the_id_of_a_ticket_is_a_label_of_kubernetes_as_it_is(world: World):
    """The pod of its server is known by it."""
    world.new_id = make_id
    world.restart()
    ids = {world.ask(ANN, "0", f"Ärger & Söhne {number}").id for number in range(50)}
    assert len(ids) == 50
    assert all(re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", each) for each in ids), ids


async def test_what_a_spawner_was_told_of_its_pod_is_written_down_before_it_hears_it(tmp_path):
    """Its pod may come at any time: whoever serves then must know which device it names."""
    with contextlib.closing(World(tmp_path, servers=ServersArePods)) as world:
        ticket = world.ask(ANN, "0.5")
        await world.step()
        assert world.controller.tickets.show(ANN, ticket.id).pod.annotations == {"devices": "UUID of GPU-sim-box-0"}
        world.restart()
        await world.step()
        (launch,) = world.servers.launches
        assert launch.detail.named_devices == {"GPU-sim-box-0": "UUID of GPU-sim-box-0"}


@pytest.mark.parametrize("gpus", ["1.5", "abc", "0.1234", "-1"])
async def test_an_amount_that_is_none_is_refused(world, gpus):
    with pytest.raises(InvalidAmount):
        world.ask(ANN, gpus)


async def test_what_waits_counts_against_the_quota(world):
    world.ask(ANN, "0.25", "one")
    world.ask(ANN, "0.25", "two")
    with pytest.raises(QuotaExceeded) as caught:
        world.ask(ANN, "0.25", "three")
    told = "0.5 of it is in use (ann's server 'one' (0.25 GPU), ann's server 'two' (0.25 GPU))"
    assert told in reveal(str(caught.value))
    with pytest.raises(QuotaExceeded, match=r"0\.75 GPU, but your fixed quota is 0\.25"):
        world.ask(BOB, "0.75")


async def test_a_server_without_gpu_is_always_admitted_and_counts_nothing(world):
    await world.start_server(ANN, "0.5")
    ticket = world.ask(ANN, "0", "cpu")
    assert ticket.environment["NVIDIA_VISIBLE_DEVICES"] == "void"
    world.attach(ANN, ticket.id)  # it may come up before the loop has looked
    await world.step(3)
    assert world.controller.tickets.show(ANN, ticket.id).phase == "running"
    assert world.controller.overview.describe_user(ANN).used == "0.5"


async def test_asking_again_returns_the_ticket_that_waits(world):
    first = world.ask(ANN, "0.5")
    again, created = world.controller.tickets.open(ANN, TicketRequest(server="", gpus=0.5))
    assert (again.id, created) == (first.id, False)
    await world.step()
    assert world.ask(ANN, "0.5").id == first.id


async def test_asking_for_another_amount_replaces_the_ticket(world):
    first = world.ask(ANN, "0.5")
    second = world.ask(ANN, "0.25")
    assert second.id != first.id
    assert world.controller.tickets.show(ANN, first.id).phase == "stopped"
    await world.step()
    third = world.ask(ANN, "0.5")
    await world.step(3)
    assert world.controller.tickets.show(ANN, second.id).phase == "stopped"
    assert world.controller.tickets.show(ANN, third.id).phase == "starting"


async def test_a_service_that_is_killed_while_a_ticket_is_replaced_leaves_one_that_waits(world):
    first = world.ask(ANN, "0.25")
    world.fuse.light(1)
    with pytest.raises(ServiceKilled):
        world.ask(ANN, "0.5")
    world.restart()
    (left,) = world.controller.tickets.list_notebooks(ANN).notebooks
    assert (left.phase, left.id == first.id) == ("waiting", False)


async def test_a_refused_replacement_leaves_the_first_ticket_as_it_was(world):
    first = world.ask(ANN, "0.5")
    with pytest.raises(QuotaExceeded):
        world.ask(ANN, "0.75")
    assert world.controller.tickets.show(ANN, first.id).phase == "waiting"


async def test_a_server_can_be_restarted_while_its_old_process_still_ends(world):
    """The new ticket is not refused for the old one's share; it starts when that is free."""
    old = await world.start_server(ANN, "0.5")
    world.controller.tickets.close(ANN, old.id)
    assert world.controller.overview.describe_user(ANN).used == "0"
    new = world.ask(ANN, "0.5")
    await world.step(2)
    assert world.controller.overview.describe_user(ANN).used == "0.5"
    assert world.controller.tickets.show(ANN, old.id).phase == "stopping"
    assert world.controller.tickets.show(ANN, new.id).phase == "waiting"
    world.servers.processes.clear()
    await world.step(2)
    assert world.controller.tickets.show(ANN, new.id).phase == "starting"


async def test_what_the_spawner_gives_back_is_not_stopped_through_the_hub(world):
    """The Hub may be starting the same server anew: a stop would end that one."""
    held = await world.start_server(ANN, "0.25", "held")
    unused = world.ask(ANN, "0.25", "unused")
    await world.step()
    world.controller.tickets.close(ANN, held.id)
    world.controller.tickets.close(ANN, unused.id)
    await world.step(2)
    assert not world.servers.stops
    assert world.controller.tickets.show(ANN, unused.id).phase == "stopped"
    assert world.controller.tickets.show(ANN, held.id).phase == "stopping"
    world.servers.processes.clear()
    await world.step()
    assert world.controller.tickets.show(ANN, held.id).phase == "stopped"
    world.controller.tickets.close(ANN, held.id)


async def test_a_server_that_runs_on_after_its_share_was_given_back_is_stopped_through_the_hub(world):
    """Its user can give the share back as well as the spawner: nobody keeps a device that counts for nobody."""
    held, unused = await world.start_server(ANN, "0.25", "held"), world.ask(ANN, "0.25", "unused")
    world.controller.tickets.close(ANN, held.id)
    world.servers._told_to_stop = lambda run: None  # the Hub takes its time
    await world.step(29)
    assert (world.servers.stops, world.controller.tickets.show(ANN, held.id).sentence) == (
        [],
        "The server is being stopped.",
    )
    await world.step(4)
    assert world.servers.stops == [(held.id, 1, 30)], "the process has the usual time to end"
    told = "The share of the server was given back, but the server did not end within 30 s: the server is stopped."
    assert world.controller.tickets.show(ANN, held.id).sentence == told
    assert world.controller.overview.describe_user(ANN).last_eviction.sentence == told
    (act,) = world.sql.audit(AuditFilter(action=Action.NOTEBOOK_EVICT))
    assert (act.actor, act.object, act.details["sentence"]) == (SCHEDULER, held.id, told)
    world.servers.processes.clear()
    await world.step()
    assert world.controller.tickets.show(ANN, held.id).phase == "stopped"
    assert world.controller.tickets.show(ANN, unused.id).phase != "stopped"


async def test_a_server_that_outlived_its_share_is_stopped_after_a_restart_of_the_service_as_well(world):
    held = await world.start_server(ANN, "0.25")
    world.controller.tickets.close(ANN, held.id)
    await world.step()
    world.clock.forward(20)
    world.restart()
    await world.step(2, seconds=29)
    assert world.servers.stops == [], "the spawner has the whole grace, as far as this service knows"
    await world.step(4)
    assert world.controller.tickets.show(ANN, held.id).phase == "stopped"


async def test_a_server_that_dies_gives_its_share_back_by_itself(world):
    ticket = await world.start_server(ANN, "0.5")
    world.servers.processes.clear()
    await world.step()
    assert world.controller.tickets.show(ANN, ticket.id).phase == "stopped"
    assert world.controller.tickets.list_notebooks(ANN).notebooks == []


async def test_a_ticket_that_nobody_follows_lapses(world):
    ticket, other = world.ask(ANN, "0.5"), world.ask(CAROL, "0.5")
    await world.step()
    waiting, polled = world.ask(BOB, "0.25"), world.ask(ADMIN, "0.25")
    for _ in range(3):
        world.clock.forward(30)
        world.controller.tickets.show(ADMIN, polled.id)
        await world.step()
    assert world.sql.get(waiting.id).workload.state == "CANCELLED"
    assert "nobody asked after it for 60 s" in world.controller.tickets.show(BOB, waiting.id).sentence
    assert world.controller.tickets.show(ADMIN, polled.id).phase == "waiting"
    # Those that were launched stay: whether a process comes up for them is the backend's to say.
    assert world.controller.tickets.show(ANN, ticket.id).phase == "starting"
    assert world.controller.tickets.show(CAROL, other.id).phase == "starting"


async def test_a_server_without_gpu_waits_for_no_answer_so_its_ticket_does_not_lapse(world):
    """Where servers are pods, nobody tells of its process: it is known when its ticket is admitted."""
    (open_node,) = world.nodes
    world.servers._nodes = world.backend._nodes = (cordoned(open_node),)
    ticket = world.ask(ANN, "0").id
    for _ in range(3):
        await world.step(seconds=60)
    assert world.sql.get(ticket).workload.state == "PENDING", "no node takes anything new"
    world.servers._nodes = world.backend._nodes = (open_node,)
    await world.step(2)
    assert world.controller.tickets.show(ANN, ticket).phase == "starting"


async def test_a_restart_of_the_service_does_not_make_tickets_lapse(world):
    for caller in (ANN, CAROL):
        await world.start_server(caller, "0.5")
    waiting = world.ask(BOB, "0.25")
    world.clock.forward(50)
    world.restart()
    await world.step(2)
    world.clock.forward(50)
    await world.step(2)
    assert world.controller.tickets.show(BOB, waiting.id).phase == "waiting"


async def test_a_process_is_attached_to_a_share_that_expects_it(world):
    ticket = world.ask(ANN, "0.5")
    with pytest.raises(Conflict, match="still waits"):
        world.attach(ANN, ticket.id)
    await world.step()
    with pytest.raises(Conflict, match="no process 7"):
        world.controller.tickets.attach(ANN, ticket.id, ProcessReport(pid=7, started=0))
    with pytest.raises(NotFound):
        world.attach(BOB, ticket.id)
    world.attach(ANN, ticket.id)
    world.controller.tickets.close(ANN, ticket.id)
    with pytest.raises(Conflict, match="has ended"):
        world.attach(ANN, ticket.id)


async def test_tickets_of_others_do_not_exist(world):
    ticket = world.ask(ANN, "0.25")
    for act in (world.controller.tickets.show, world.controller.tickets.close):
        with pytest.raises(NotFound):
            act(BOB, ticket.id)
    assert world.controller.tickets.list_notebooks(BOB, owner="ann").notebooks == []
    assert [each.id for each in world.controller.tickets.list_notebooks(ADMIN, owner="ann").notebooks] == [ticket.id]
    assert [each.id for each in world.controller.tickets.list_notebooks(ADMIN, owner="*").notebooks] == [ticket.id]


async def test_who_waits_reads_why_and_how_many_are_ahead(world):
    await world.start_server(ANN, "0.5")
    await world.start_server(CAROL, "0.5")
    ticket = world.ask(BOB, "0.25")
    await world.step()
    ticket = world.controller.tickets.show(BOB, ticket.id)
    assert (ticket.phase, ticket.position, ticket.ahead) == ("waiting", 1, 0)
    assert "no device is idle; carol's server (0.5 GPU) is in the way" in reveal(ticket.sentence)


async def test_in_a_shared_pool_a_notebook_takes_its_share_back_from_borrowing_jobs(tmp_path):
    """A fixed quota is always there, although nobody keeps a device idle for it."""
    queues = {"vision": {"quota": 1}}
    settings = build_settings(Config({"TrainingQueues": {"queues": queues}}), (a_node(2),))
    world = World(tmp_path, settings=settings)
    jobs = [world.send(ANN, "vision"), world.send(ANN, "vision")]
    await world.step(2)
    assert [world.job(job).phase for job in jobs] == ["running", "running"]
    ticket = world.ask(BOB, "0.25")
    await world.step(3)
    assert world.controller.tickets.show(BOB, ticket.id).phase == "starting"
    assert sorted(world.job(job).phase for job in jobs) == ["paused", "running"]
    told = next(world.job(job) for job in jobs if world.job(job).phase == "paused")
    assert reveal(told.sentence).startswith("Paused: bob needed its 0.25 GPU back.")
    world.close()


@pytest.mark.parametrize("given_back", [False, True])
async def test_why_a_server_failed_is_told_to_who_chooses_the_next_one(world, given_back):
    ticket = await world.start_server(ANN, "0.25")
    if given_back:  # the spawner ends what failed, and may be faster than the look at it
        world.servers._told_to_stop = lambda run: None
        world.controller.tickets.close(ANN, ticket.id)
        await world.step()
    world.servers.end(ticket.id, Outcome.FAILED, "It saw devices of others.")
    await world.step()
    assert world.controller.tickets.show(ANN, ticket.id).sentence == "It saw devices of others."
    eviction = world.controller.overview.describe_user(ANN).last_eviction
    assert (eviction.reason, eviction.sentence, eviction.by) == ("ENDED", "It saw devices of others.", None)
    world.ask(ANN, "0.25")
    assert world.controller.overview.describe_user(ANN).last_eviction is None


async def test_a_server_that_was_lost_says_how(world):
    ticket = await world.start_server(ANN, "0.25")
    world.servers.end(ticket.id, Outcome.LOST, "The node n1 has not answered for 61 s.")
    await world.step()
    ended = world.controller.tickets.show(ANN, ticket.id)
    assert (ended.phase, ended.sentence) == ("stopped", "The node n1 has not answered for 61 s.")
    assert world.controller.overview.describe_user(ANN).last_eviction is None, "the Hub's spawner tells that"


async def test_what_is_wrong_with_a_server_is_said_while_it_is_so(world):
    ticket = await world.start_server(ANN, "0.25")
    listener = world.controller.events.subscribe(ANN, None)
    (run,) = world.servers.runs.values()
    for trouble in ("Its device may be in other hands as well.", ""):
        run.sentence = trouble
        await world.step(3)
        async with asyncio.timeout(scaled(5)):
            event = await anext(listener)
        assert (event.id, event.data["trouble"]) == (None, trouble), "told once, not remembered"
        (notebook,) = world.controller.tickets.list_notebooks(ANN).notebooks
        assert notebook.trouble == trouble
        assert notebook.sentence == f"The server has 0.25 GPU of A100-40GB. {trouble}".strip()
    assert world.controller.tickets.show(ANN, ticket.id).phase == "running"


async def test_what_is_wrong_is_not_forgotten_while_nothing_can_be_seen(world):
    await world.start_server(ANN, "0.25")
    (run,) = world.servers.runs.values()
    run.sentence = "Its device may be in other hands as well."
    await world.step()
    observe, world.servers.observe = world.servers.observe, sees_nothing
    await world.step()
    assert world.controller.tickets.list_notebooks(ANN).notebooks[0].trouble == run.sentence
    world.servers.observe = observe
    world.servers.end(run.workload, Outcome.SUCCEEDED)
    await world.step()
    assert world.controller._context.troubles == {}


async def sees_nothing():
    raise BackendError("It is away.")
