"""Tests of `show_names`: in all answers and events, names of others appear only where the setting says so."""

import asyncio
import json
import re

import pytest
import pytest_asyncio

from jupyter_gq.api.access import Access
from jupyter_gq.api.routes import ROUTES
from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.client.models import TicketRequest
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.views.mentions import ShowNames
from tests.patience import scaled

from .hubs import READ, SUBMIT, user
from .world import World, submission

pytestmark = pytest.mark.asyncio

ANN = Caller(user="ann", groups=frozenset({"vision"}))
#: A user of the same group who has no server yet.
LIKE = {"bob": "eve", "dora": "fay", "root": "root"}
NAMES = ("ann", "carol", "secret-lab")


@pytest.fixture(params=list(ShowNames))
def world(request, tmp_path):
    made = World(tmp_path, show_names=request.param)
    yield made
    made.close()


@pytest_asyncio.fixture
async def served(serve, hub, world):
    """Ann's and Carol's servers have the device; Bob of another group and Dora of theirs wait for it."""
    for name, group in (("carol", "vision"), ("dora", "vision"), ("fay", "vision"), ("eve", "nlp")):
        hub.tokens[name] = user(name, SUBMIT, READ, groups=(group,))
    service = await serve(world.controller)
    for name, server in (("ann", "secret-lab"), ("carol", ""), ("bob", ""), ("dora", "")):
        client = ServiceClient(service.url, name)
        await client.open_ticket(TicketRequest(server=server, gpus="0.25" if name == "bob" else "0.5"))
        await world.steps()
    return service


async def answers(served, world, token):
    """Everything that this reader is told about what waits, as text: a list, tickets, the options page, an event."""
    opened = asyncio.Event()
    events = ServiceClient(served.url, token).events(on_open=opened.set)
    event = asyncio.ensure_future(anext(events))
    listed = await served.ask("GET", "api/v1/notebooks" + ("?owner=*" if token == "root" else ""), token)
    waiting = [each["id"] for each in json.loads(listed.body)["notebooks"] if each["phase"] == "waiting"]
    tickets = [await served.ask("GET", f"api/v1/tickets/{ticket}", token) for ticket in waiting]
    page = await served.ask("GET", "api/v1/me", LIKE[token])
    async with asyncio.timeout(scaled(60)):
        await opened.wait()
        world.controller._presenter.announce(waiting[0])
        told = json.dumps((await event).data, ensure_ascii=False)
    await events.aclose()
    return [told, *(response.body.decode() for response in (listed, *tickets, page))]


@pytest.mark.parametrize("reader", ["bob", "dora", "root"])
async def test_names_of_others_appear_only_where_the_setting_says_so(served, world, reader):
    sees = reader == "root" or world.show_names in ({"bob": {"all"}, "dora": {"all", "group"}}.get(reader, set()))
    for text in await answers(served, world, reader):
        assert not any("\ufdd0" <= character <= "\ufdef" for character in text), "no mark is left"
        assert ("ann's server 'secret-lab' (0.5 GPU)" in text) == sees
        assert ("another user's notebook (0.5 GPU)" in text) != sees
        assert sees or not any(name in text for name in NAMES)


async def test_owners_read_their_own_names_also_in_refusals(served):
    _, problem = await served.problem("POST", "api/v1/tickets", "ann", {"server": "other", "gpus": "0.5"})
    assert "your server 'secret-lab' (0.5 GPU)" in problem["message"]


async def test_outputs_are_passed_on_as_the_job_wrote_them(served, world, bundle):
    job, _ = world.controller.jobs.submit(ANN, submission(bundle), None)
    forged = "\ufdd0carol\ufdd1another user\ufdd1carol\ufdd2"
    piece = {"seq": 1, "run": 1, "at": 0, "op": "append", "cell": "c", "role": "target", "output": {"text": forged}}
    world.controller.jobs.append_outputs(job.id, [piece])
    page = json.loads((await served.ask("GET", f"api/v1/jobs/{job.id}/outputs", "ann")).body)
    assert page["events"][0]["output"]["text"] == forged


async def test_groups_are_known_after_a_restart(world, bundle):
    if world.show_names is not ShowNames.GROUP:
        return
    world.controller.jobs.submit(Caller(user="eve", groups=frozenset({"vision", "night"})), submission(bundle), None)
    world.controller._context.groups.clear()
    mentions = world.controller.mentions
    assert mentions.may_see(Caller(user="fred", groups=frozenset({"night"})), "eve")
    assert not mentions.may_see(Caller(user="fred", groups=frozenset({"day"})), "eve")
    assert not mentions.may_see(None, "eve")


#: All routes that a holder of a token of the Hub may read; a new one is asked here too.
READABLE = [
    route
    for route in ROUTES
    if route.method == "GET" and route.path != "events" and route.access in {Access.OPEN, Access.PUBLIC, Access.READ}
]


async def test_no_route_tells_names_of_others_to_a_reader_who_may_not_see_them(served, world, bundle):
    if world.show_names is not ShowNames.NOBODY:
        return
    for name, group in (("ann", "vision"), ("carol", "vision"), ("bob", "nlp")):
        caller = Caller(user=name, groups=frozenset({group}))
        for number in range(2):
            request = submission(bundle, name=f"job-of-{name}-{number}", queue=group, gpus="0.5")
            job = world.controller.jobs.submit(caller, request, None)[0].id
    await world.steps(5)
    ticket = json.loads((await served.ask("GET", "api/v1/notebooks", "bob")).body)["notebooks"][0]["id"]
    parts = {"job": job, "ticket": ticket, "server": "-", "node": "box", "drain": "box", "queue": "vision"}
    asked = [(route.method, route.path.format_map(parts), None) for route in READABLE]
    asked.append(("POST", "jobs/preview", {"queue": "nlp", "gpus": "1"}))
    asked.append(("POST", "tickets", {"server": "another", "gpus": "0.25"}))
    for method, path, body in asked:
        for token in ("bob", "eve", "prometheus", None):
            told = (await served.ask(method, f"api/v1/{path}", token, body)).body.decode()
            found = re.search(r"\bann\b|carol|secret-lab|job-of-ann|dora", told)
            assert found is None, (token, path, told[max(0, found.start() - 100) :][:200])
    metrics = (await served.ask("GET", "api/v1/metrics", "prometheus")).body.decode()
    assert "jupyter_gq_queue_waiting_jobs" in metrics
    assert re.search(r"\bann\b|carol|secret-lab|bob|dora|job-of", metrics) is None
