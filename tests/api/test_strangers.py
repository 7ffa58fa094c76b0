"""What belongs to somebody: for a stranger it looks as if it were not there, in every route, and stays as it is."""

import json
from typing import Any

import pytest
import pytest_asyncio

from jupyter_gq.api.access import Access
from jupyter_gq.api.route import Route
from jupyter_gq.api.routes import ROUTES
from jupyter_gq.client.models import TicketRequest
from jupyter_gq.domain.states import State

from .conftest import Served
from .fuzzed import ANN, PIECE
from .hubs import SUBMIT, user
from .test_access import body_of
from .world import World, submission

pytestmark = pytest.mark.asyncio

HUB_TOKENS = {Access.READ, Access.CHANGE, Access.SUBMIT}
OWNED = [
    route
    for route in ROUTES
    if route.access in HUB_TOKENS and any(part in route.path for part in ("{job}", "{ticket}"))
]
#: Parameters without which a route asks for nothing.
QUERIES = {"jobs/{job}/results/content": "?path=vars/0.pickle", "jobs/{job}/log/lines": "?contains=x"}
#: Ids that no object has.
NOWHERE = {"job": "nowhere-1", "ticket": "nowhere-1"}
#: A user of another group, one of the same group, and one whose name differs from the owner's in its case.
STRANGERS = {
    "bob": user("bob", SUBMIT, groups=("nlp",)),
    "carl": user("carl", SUBMIT, groups=("vision",)),
    "ANN": user("ANN", SUBMIT, groups=("vision",)),
}


@pytest_asyncio.fixture
async def owned(world: World, bundle: dict[str, Any]) -> dict[str, str]:
    """A job of ann that runs and has printed something, and a notebook of ann."""
    job = world.controller.jobs.submit(ANN, submission(bundle), None)[0].id
    ticket = world.controller.tickets.open(ANN, TicketRequest(server="lab", gpus="0.25"))[0].id
    await world.steps(4)
    assert world.store.get(job).workload.state is State.RUNNING
    world.controller.jobs.append_outputs(job, [PIECE])
    world.bundles.listed[job] = {"variables": [{"name": "x", "path": "vars/0.pickle", "bytes": 6, "sha256": "0" * 64}]}
    world.bundles.brought[job, "vars/0.pickle"] = b"secret"
    return {"job": job, "ticket": ticket}


@pytest.mark.parametrize("route", OWNED, ids=lambda route: f"{route.method} {route.path}")
async def test_a_stranger_cannot_tell_what_is_there_and_changes_nothing(serve, hub, world, bundle, owned, route):
    hub.tokens |= STRANGERS
    served = await serve(world.controller)
    before = {part: world.store.get(id) for part, id in owned.items()}
    for stranger in STRANGERS:
        there = await ask(served, route, owned, stranger, bundle)
        assert there == await ask(served, route, NOWHERE, stranger, bundle)
        assert (there[0], json.loads(there[1])["code"]) == (404, "not_found")
    assert {part: world.store.get(id) for part, id in owned.items()} == before


@pytest.mark.parametrize("route", OWNED, ids=lambda route: f"{route.method} {route.path}")
async def test_the_owner_is_answered_about_what_is_there(serve, world, bundle, owned, route):
    served = await serve(world.controller)
    there = await ask(served, route, owned, "ann", bundle)
    assert there[0] < 500
    assert there != await ask(served, route, NOWHERE, "ann", bundle)


async def ask(
    served: Served, route: Route, parts: dict[str, str], token: str, bundle: dict[str, Any]
) -> tuple[int, str]:
    """The status and the text of the answer, with the same word in the place of each id."""
    path = "api/v1/" + route.path.format_map(parts) + QUERIES.get(route.path, "")
    answer = await served.ask(route.method, path, token, body_of(route, bundle))
    text = answer.body.decode()
    for id in parts.values():
        text = text.replace(id, "ID")
    return answer.code, text
