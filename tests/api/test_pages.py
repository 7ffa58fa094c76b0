"""Lists in pages: newest first, each entry once, and no page above the bytes of the settings."""

import json

import pytest
import pytest_asyncio

from jupyter_gq.api.routes import ROUTES
from jupyter_gq.client.models import TicketRequest
from jupyter_gq.controller.caller import Caller

from .world import World, submission

pytestmark = pytest.mark.asyncio

#: The routes that list things, by their query; the name of the list in each answer.
PAGED = {route.path for route in ROUTES if {"limit", "before"} <= {parameter.name for parameter in route.query}}
LISTS = {"jobs": "jobs", "queues/{queue}/jobs": "jobs", "notebooks": "notebooks", "audit": "entries"}


@pytest.fixture
def world(tmp_path):
    made = World(tmp_path)
    yield made
    made.close()


@pytest_asyncio.fixture
async def served(serve, world, bundle):
    """Five jobs and five notebooks, of different users, whose acts stand in the audit log."""
    for number in range(5):
        world.clock.forward(1)
        caller = Caller(user=f"user-{number}", groups=frozenset({"vision"}))
        world.controller.jobs.submit(caller, submission(bundle, name=f"job-{number}"), None)
        world.controller.tickets.open(caller, TicketRequest(server=f"server-{number}", gpus="0.25"))
    return await serve(world.controller)


async def read(served, path, limit):
    """The ids of all entries, page by page, and the pages."""
    owner = "&owner=*" if path in {"jobs", "notebooks"} else ""
    ids, pages, before = [], [], ""
    while True:
        response = await served.ask("GET", f"api/v1/{path.format(queue='vision')}?limit={limit}{owner}{before}", "root")
        page = json.loads(response.body)
        pages.append(response.body)
        ids += [entry["id"] for entry in page[LISTS[path]]]
        if page["next"] is None:
            return ids, pages
        before = f"&before={page['next']}"


async def test_every_list_with_pages_is_tested_here():
    assert LISTS.keys() == PAGED


@pytest.mark.parametrize("path", LISTS)
@pytest.mark.parametrize("limit", [1, 2, 5, 500])
async def test_each_entry_stands_in_one_page(served, path, limit):
    everything, _ = await read(served, path, 500)
    ids, pages = await read(served, path, limit)
    assert ids == everything
    assert len(pages) == -(-len(everything) // limit)
    assert len(set(ids)) == len(ids) >= 5


@pytest.mark.parametrize("path", LISTS)
async def test_a_page_has_no_more_bytes_than_the_settings_say(served, world, path):
    everything, (whole,) = await read(served, path, 500)
    world.settings.change(max_page_bytes=len(whole) // 2)
    ids, pages = await read(served, path, 500)
    assert ids == everything
    assert len(pages) > 1
    assert max(map(len, pages)) < len(whole)
    world.settings.change(max_page_bytes=1)
    ids, pages = await read(served, path, 500)
    assert (ids, len(pages)) == (everything, len(everything)), "a page has one entry at least"


async def test_a_page_after_a_notebook_that_has_ended_meanwhile_goes_on_behind_it(served, world):
    everything, _ = await read(served, "notebooks", 500)
    world.controller.tickets.close(Caller(user="root", admin=True), everything[1])
    response = await served.ask("GET", f"api/v1/notebooks?owner=*&before={everything[1]}", "root")
    assert [each["id"] for each in json.loads(response.body)["notebooks"]] == everything[2:]


@pytest.mark.parametrize("path", ["jobs", "notebooks"])
async def test_a_page_after_an_object_that_is_not_there_is_refused(served, world, path):
    """An empty list would look like the end."""
    of_another_user, _ = await read(served, path, 500)
    of_another_list, _ = await read(served, {"jobs": "notebooks", "notebooks": "jobs"}[path], 500)
    for token, before in (("root", "nope"), ("root", ""), ("ann", of_another_user[0]), ("root", of_another_list[0])):
        status, problem = await served.problem("GET", f"api/v1/{path}?before={before}", token)
        assert (status, problem["code"]) == (404, "not_found"), before
        assert "Begin with the first page" in problem["message"]


async def test_lists_show_no_cells(served):
    jobs = json.loads((await served.ask("GET", "api/v1/jobs?owner=*", "root")).body)["jobs"]
    assert jobs
    assert all({"prefix", "targets"}.isdisjoint(job) for job in jobs)
