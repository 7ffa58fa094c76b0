"""Who may do what: every route of the table, every kind of token."""

import asyncio
import json

import pytest

from jupyter_gq.api.access import Access
from jupyter_gq.api.route import Media, Route
from jupyter_gq.api.routes import ROUTES
from jupyter_gq.domain.errors import NotFound
from tests.patience import scaled

from .fakes import JOB_TOKEN, Raises, authenticator
from .hubs import ADMIN, CHANGE, READ, SUBMIT, HubIsDown, HubIsSlow, HubSaysNo, HubTalksNonsense, user

pytestmark = pytest.mark.asyncio

#: Written out by hand, so that opening a route to everybody needs a change here too.
PUBLIC = {("GET", "ready"), ("GET", "openapi.json")}
OPEN = {("GET", "health")}
JOB_TOKEN_ONLY = {
    ("POST", "jobs/{job}/outputs"),
    ("POST", "jobs/{job}/heartbeat"),
    ("GET", "jobs/{job}/bundle"),
    ("GET", "jobs/{job}/devices"),
    ("GET", "jobs/{job}/size"),
    ("GET", "jobs/{job}/files"),
    ("PUT", "jobs/{job}/log"),
    ("PUT", "jobs/{job}/results"),
    ("POST", "jobs/{job}/results/parts"),
}
PODS = {("POST", "jobs/{job}/token"): Access.POD, ("POST", "agents/{node}/report"): Access.AGENT}
READS = {
    ("GET", "me"),
    ("GET", "queues"),
    ("GET", "queues/{queue}/jobs"),
    ("GET", "devices"),
    ("GET", "jobs"),
    ("POST", "jobs/preview"),
    ("GET", "jobs/{job}"),
    ("GET", "jobs/{job}/outputs"),
    ("GET", "jobs/{job}/usage"),
    ("GET", "jobs/{job}/notebook"),
    ("GET", "jobs/{job}/log"),
    ("GET", "jobs/{job}/log/size"),
    ("GET", "jobs/{job}/log/content"),
    ("GET", "jobs/{job}/log/lines"),
    ("GET", "jobs/{job}/results"),
    ("GET", "jobs/{job}/results/content"),
    ("GET", "notebooks"),
    ("GET", "tickets/{ticket}/devices"),
    ("GET", "events"),
}
CHANGES = {("PATCH", "jobs/{job}"), ("DELETE", "jobs/{job}"), ("POST", "jobs/cancel")}
DELETIONS = {("DELETE", "jobs/{job}/record")}
BODIES = {
    "JobChange": {"held": True},
    "JobSelection": {"jobs": ["job-1"]},
    "JobRequest": {"queue": "q", "gpus": "1"},
    "OutputReport": {"events": []},
    "Heartbeat": {"run": 1},
    "TicketRequest": {},
    "ProcessReport": {"pid": 1, "started": 1.0},
    "ActivityReport": {"at": 1.0, "kernels": []},
    "AgentReport": {"probe": "OK"},
    "DrainRequest": {"name": "0"},
    "PartsQuestion": {"parts": []},
    "FileParts": {"contents": []},
    "ResultsReport": {"results": {}, "contents": []},
}
#: A token, and what it opens.
TOKENS = {
    None: set(),
    "unknown": set(),
    "ann-nothing": set(),
    "ann-elsewhere": set(),
    "ann-reads": {Access.READ},
    "ann-changes": {Access.READ, Access.CHANGE},
    "ann-deletes": {Access.READ, Access.DELETE},
    "ann": {Access.READ, Access.CHANGE, Access.DELETE, Access.SUBMIT},
    "root": {Access.READ, Access.CHANGE, Access.DELETE, Access.SUBMIT, Access.MONITOR, Access.ADMIN},
    "prometheus": {Access.MONITOR},
    JOB_TOKEN: {Access.JOB_TOKEN},
    "agent": {Access.AGENT},
    "runner": {Access.POD},
    "default": set(),
}
IDS = [f"{route.method} {route.path}" for route in ROUTES]


def path_of(route: Route) -> str:
    return "api/v1/" + route.path.format_map(
        {"job": "job-1", "ticket": "nb-1", "server": "-", "node": "node-a", "drain": "0", "queue": "vision"}
    )


def body_of(route: Route, bundle) -> dict | bytes | None:
    if route.request is None:
        return None
    if isinstance(route.request, Media):
        return b"some text"
    bodies = BODIES | {"JobSubmission": {"queue": "q", "gpus": "1", "bundle": bundle}}
    return bodies[route.request.__name__]


async def test_the_table_opens_to_each_access_exactly_what_is_meant():
    table = {(route.method, route.path): route.access for route in ROUTES}
    assert len(table) == len(ROUTES)
    assert {row for row, access in table.items() if access is Access.PUBLIC} == PUBLIC
    assert {row for row, access in table.items() if access is Access.OPEN} == OPEN
    assert {row for row, access in table.items() if access is Access.JOB_TOKEN} == JOB_TOKEN_ONLY
    assert {row for row, access in table.items() if access is Access.READ} == READS
    assert {row for row, access in table.items() if access is Access.CHANGE} == CHANGES
    assert {row for row, access in table.items() if access is Access.DELETE} == DELETIONS
    assert {row: access for row, access in table.items() if access in {Access.POD, Access.AGENT}} == PODS


@pytest.mark.parametrize("route", ROUTES, ids=IDS)
async def test_each_route_opens_to_the_right_tokens_only(serve, bundle, route):
    controller = Raises(NotFound("reached the controller"))
    served = await serve(controller, pods=authenticator())
    for token, opens in TOKENS.items():
        controller.acts.clear()
        response = await served.ask(route.method, path_of(route), token=token, body=body_of(route, bundle))
        if route.access in {Access.PUBLIC, Access.OPEN} or route.access in opens:
            assert response.code in {200, 404}, (token, response.body)
            assert controller.acts or route.path == "openapi.json"
        else:
            assert response.code in {401, 403}, (token, response.body)
            assert not controller.acts


async def test_who_sends_no_token_is_told_how(serve):
    served = await serve(Raises(AssertionError()))
    response = await served.ask("GET", "api/v1/me", token=None)
    assert (response.code, response.headers["WWW-Authenticate"]) == (401, 'token realm="jupyter-gq"')
    for header in ("", "token", "token ", "Basic YTpi", "ann"):
        assert (await served.problem("GET", "api/v1/me", token=None, Authorization=header))[1]["code"] == "no_token"


async def test_bearer_is_as_good_as_token(serve):
    served = await serve(Raises(NotFound("reached")))
    for header in ("Bearer ann", "bearer ann", "Token ann", "token  ann "):
        assert (await served.ask("GET", "api/v1/me", token=None, Authorization=header)).code == 404


async def test_a_missing_scope_is_403_and_named(serve):
    served = await serve(Raises(AssertionError()))
    status, problem = await served.problem("DELETE", "api/v1/jobs/job-1", token="ann-reads")
    assert (status, problem["code"]) == (403, "missing_scope")
    assert CHANGE in problem["message"]
    status, problem = await served.problem("GET", "api/v1/me", token="ann-elsewhere")
    assert (status, problem["code"]) == (403, "missing_scope")
    assert "access:services!service=jupyter-gq" in problem["message"]
    assert "configure(c, admins=[...])" not in problem["message"]
    _, problem = await served.problem("GET", "api/v1/audit", token="ann")
    assert "configure(c, admins=[...]) in the configuration of the Hub" in problem["message"]
    assert "an administrator makes one on the Hub's page Token" in problem["message"]


@pytest.mark.parametrize(
    ("model", "status"),
    [
        (user("ann", READ, access="access:services"), 404),
        (user("ann", f"{READ}!user=ann"), 404),
        (user("ann", f"{READ}!user=bob"), 403),
        (user("ann", f"{READ}!server=ann/"), 403),
        (user("ann", SUBMIT), 404),
        (user("ann", ADMIN), 404),
        (user("ann", "custom:gq:readonly"), 403),
        (user("ann", "admin:users"), 403),
    ],
    ids=lambda value: str(value)[-60:],
)
async def test_wider_and_filtered_scopes(serve, hub, model, status):
    hub.tokens["special"] = model
    served = await serve(Raises(NotFound("reached")))
    assert (await served.ask("GET", "api/v1/me", token="special")).code == status


@pytest.mark.parametrize(
    "scopes",
    [
        (f"{ADMIN}!user=root",),
        (f"{ADMIN}!group=vision",),
        (f"{ADMIN}!server=root/",),
        (f"{ADMIN}!user=ann",),
        (f"{ADMIN}!user=root", f"{SUBMIT}!user=root", f"{READ}!user=root"),
        (READ, f"{ADMIN}!user=root"),
    ],
)
@pytest.mark.parametrize("kind", ["user", "service"])
async def test_a_filtered_admin_scope_makes_no_admin(serve, hub, scopes, kind):
    narrow = {**user("root", *scopes), "kind": kind}
    narrow["scopes"] += [each.replace("!user=", "!service=") for each in scopes]
    hub.tokens["narrow"] = narrow
    controller = Raises(NotFound("reached"))
    served = await serve(controller)
    for path in ("state", "jobs?owner=*", "jobs?owner=ann", "notebooks?owner=*"):
        assert (await served.problem("GET", f"api/v1/{path}", token="narrow"))[0] == 403
    await served.ask("GET", "api/v1/jobs", token="narrow")
    assert not any(given[0].admin for _, given in controller.acts)


async def test_a_scope_filtered_to_its_holder_opens_what_is_the_holders(serve, hub):
    hub.tokens["own"] = user("ann", f"{ADMIN}!user=ann")
    served = await serve(Raises(NotFound("reached")))
    assert (await served.ask("GET", "api/v1/jobs", token="own")).code == 404
    assert (await served.ask("DELETE", "api/v1/jobs/job-1", token="own")).code == 404


@pytest.mark.parametrize("owner", ["bob", "*", "", "ANN"])
async def test_only_admins_ask_for_the_things_of_others(serve, owner):
    served = await serve(Raises(NotFound("reached")))
    for path in ("jobs", "notebooks"):
        assert (await served.problem("GET", f"api/v1/{path}?owner={owner}"))[0] == 403
        assert (await served.problem("GET", f"api/v1/{path}?owner=ann"))[0] == 404
        assert (await served.problem("GET", f"api/v1/{path}?owner={owner}", token="root"))[0] == 404


async def test_the_caller_is_who_the_hub_says(serve, hub):
    controller = Raises(NotFound("reached"))
    served = await serve(controller)
    for token in ("ann", "bob", "root"):
        await served.ask("GET", "api/v1/me", token=token, X_Forwarded_User="root")
    callers = [given[0] for _, given in controller.acts]
    assert [(c.user, sorted(c.groups), c.admin) for c in callers] == [
        ("ann", ["vision"], False),
        ("bob", ["nlp"], False),
        ("root", [], True),
    ]


async def test_a_service_is_never_taken_for_the_user_of_that_name(serve, hub):
    hub.tokens["impostor"] = {**user("ann", READ), "kind": "service"}
    controller = Raises(NotFound("reached"))
    served = await serve(controller)
    await served.ask("GET", "api/v1/me", token="impostor")
    assert controller.acts[0][1][0].user == "service/ann"


async def test_groups_that_a_narrow_token_does_not_show_are_asked_for(serve, hub):
    hub.tokens["narrow"] = user("ann", READ, groups=None)
    hub.groups["ann"] = ["nlp", "vision"]
    controller = Raises(NotFound("reached"))
    served = await serve(controller)
    await served.ask("GET", "api/v1/me", token="narrow")
    assert controller.acts[0][1][0].groups == {"nlp", "vision"}


async def test_a_job_token_opens_its_own_job_only(serve):
    served = await serve(Raises(NotFound("reached")))
    beat = {"run": 1}
    assert (await served.problem("POST", "api/v1/jobs/job-1/heartbeat", JOB_TOKEN, beat))[0] == 404
    assert (await served.problem("POST", "api/v1/jobs/job-2/heartbeat", JOB_TOKEN, beat))[0] == 401
    assert (await served.problem("POST", "api/v1/jobs/job-2/outputs", JOB_TOKEN, {"events": []}))[0] == 401
    assert (await served.problem("POST", "api/v1/jobs/job-1/heartbeat", "root", beat))[0] == 401
    assert (await served.problem("GET", "api/v1/jobs/job-1", JOB_TOKEN))[0] == 401


async def test_a_token_that_the_hub_refuses_is_not_called_invalid_without_a_doubt(serve, world):
    """The Hub refuses every token while its database fails."""
    served = await serve(world.controller)
    answer = await served.ask("GET", "api/v1/jobs", token="token-of-nobody")
    assert (answer.code, json.loads(answer.body)["code"]) == (401, "invalid_token")
    assert "A Hub whose database fails, such as on a full disk, refuses every token" in answer.body.decode()


@pytest.mark.parametrize("kind", [HubIsDown, HubSaysNo, HubTalksNonsense])
async def test_without_the_hub_nobody_is_let_in_and_all_are_told_to_come_back(serve, kind):
    broken = kind()
    await broken.start()
    try:
        served = await serve(Raises(AssertionError()), hub_url=broken.url)
        response = await served.ask("GET", "api/v1/me")
        assert response.code == 503
        assert b'"hub_unreachable"' in response.body
        assert response.headers["Retry-After"] == "2"
        assert (await served.ask("GET", "api/v1/openapi.json")).code == 200
        assert (await served.problem("GET", "api/v1/me", token=None))[0] == 401
    finally:
        await broken.stop()


async def test_a_job_reports_on_while_the_hub_is_away(serve):
    controller = Raises(NotFound("reached"))
    served = await serve(controller, hub_url="http://127.0.0.1:9/hub/api")
    assert (await served.problem("POST", "api/v1/jobs/job-1/outputs", JOB_TOKEN, {"events": []}))[0] == 404
    assert [act for act, _ in controller.acts] == ["append_outputs"]


async def test_a_revoked_token_is_refused_when_the_cache_has_aged(serve, hub):
    now = [1000.0]
    served = await serve(Raises(NotFound("reached")), clock=lambda: now[0])
    for _ in range(3):
        assert (await served.ask("GET", "api/v1/me")).code == 404
    assert hub.asked == 1
    del hub.tokens["ann"]
    now[0] += 29.9
    assert (await served.ask("GET", "api/v1/me")).code == 404
    now[0] += 0.2
    assert (await served.ask("GET", "api/v1/me")).code == 401


async def test_who_asks_often_never_waits_for_the_hub(serve, hub):
    """The answer is renewed while the old one still serves; a revocation is noticed before the answer has aged."""
    now = [1000.0]
    served = await serve(Raises(NotFound("reached")), clock=lambda: now[0])
    assert (await served.ask("GET", "api/v1/me")).code == 404
    for round_ in range(2, 6):
        now[0] += 20
        assert (await served.ask("GET", "api/v1/me")).code == 404
        async with asyncio.timeout(scaled(60)):
            while hub.asked < round_:
                await asyncio.sleep(0.01)
    del hub.tokens["ann"]
    now[0] += 20
    async with asyncio.timeout(scaled(60)):
        while (await served.ask("GET", "api/v1/me")).code == 404:
            await asyncio.sleep(0.01)
    assert (await served.ask("GET", "api/v1/me")).code == 401


async def test_an_answer_is_not_renewed_by_an_outage(serve, hub):
    now = [1000.0]
    served = await serve(Raises(NotFound("reached")), clock=lambda: now[0])
    assert (await served.ask("GET", "api/v1/me")).code == 404
    await hub.stop()
    now[0] += 20
    for _ in range(3):
        assert (await served.ask("GET", "api/v1/me")).code == 404
    now[0] += 10.1
    assert (await served.ask("GET", "api/v1/me")).code == 503


async def test_a_hub_that_comes_back_is_asked_at_once(serve, hub):
    known = hub.tokens.pop("ann")
    served = await serve(Raises(NotFound("reached")))
    assert (await served.ask("GET", "api/v1/me")).code == 401
    hub.tokens["ann"] = known
    assert (await served.ask("GET", "api/v1/me")).code == 404


async def test_many_requests_with_one_token_ask_the_hub_once(serve):
    slow = HubIsSlow()
    await slow.start()
    try:
        served = await serve(Raises(NotFound("reached")), hub_url=slow.url)
        answers = await asyncio.gather(*(served.ask("GET", "api/v1/me") for _ in range(20)))
        assert {answer.code for answer in answers} == {404}
        assert slow.asked == 1
    finally:
        await slow.stop()


@pytest.mark.parametrize("token", ["x" * 5000, "a b", "caf\u00e9"])
async def test_a_token_that_cannot_be_one_is_not_passed_on(serve, hub, token):
    served = await serve(Raises(AssertionError()))
    assert (await served.ask("GET", "api/v1/me", token=token)).code == 401
    assert hub.asked == 0


async def test_a_sender_without_the_right_is_told_although_the_body_still_comes(serve):
    served = await serve(Raises(AssertionError()))
    status, problem = await served.problem("POST", "api/v1/jobs", token="ann-reads", body=b"x" * 5_000_000)
    assert (status, problem["code"]) == (403, "missing_scope")
