"""The service's web page: who may see it, and what a browser may do with it."""

import json
import re
from dataclasses import dataclass

import pytest
import pytest_asyncio
from tornado.httpclient import HTTPRequest, HTTPResponse
from tornado.web import create_signed_value

from jupyter_gq.api import app as composition
from jupyter_gq.api import page as page_module
from jupyter_gq.client.models import TicketRequest
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.views.mentions import ShowNames
from jupyter_gq.scheduling.wording import UNOBSERVED
from tests.fakes.trouble import CannotBeObserved

from .conftest import PREFIX, Served
from .fakes import Raises
from .hubs import SERVICE_TOKEN
from .world import World, submission

pytestmark = pytest.mark.asyncio

CLIENT = "service-jupyter-gq"
SECRET = b"the same in this test as in the application"


@dataclass
class Browser:
    """Keeps cookies, follows no redirect."""

    served: Served
    cookies: dict[str, str]

    async def get(self, path: str, **headers: str) -> HTTPResponse:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        request = HTTPRequest(self.served.url + path, headers=sent, follow_redirects=False)
        response = await self.served.http.fetch(request, raise_error=False)
        for cookie in response.headers.get_list("Set-Cookie"):
            name, _, value = cookie.partition("=")
            self.cookies[name] = value.partition(";")[0]
        return response

    async def open(self) -> HTTPResponse:
        """As by typing the address."""
        return await self.get("", Sec_Fetch_Mode="navigate", Sec_Fetch_Site="none")


@pytest_asyncio.fixture
async def browse(serve, hub, tmp_path, monkeypatch):
    """A browser in which this token's holder has logged in; None = nobody has."""
    for name, value in {
        "JUPYTERHUB_API_URL": hub.url,
        "JUPYTERHUB_API_TOKEN": SERVICE_TOKEN,
        "JUPYTERHUB_CLIENT_ID": CLIENT,
        "JUPYTERHUB_SERVICE_PREFIX": PREFIX,
        "JUPYTERHUB_SERVICE_NAME": "jupyter-gq",
        "JUPYTERHUB_BASE_URL": "/",
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": json.dumps(["access:services!service=jupyter-gq"]),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(composition.secrets, "token_bytes", lambda _: SECRET)
    world = World(tmp_path, machine_of=CannotBeObserved)

    async def start(token: str | None, controller=None) -> Browser:
        served = await serve(controller or world.controller, page=True)
        browser = Browser(served, {})
        if token is not None:
            browser.cookies[CLIENT] = create_signed_value(SECRET, CLIENT, token).decode()
        return browser

    start.world = world
    yield start
    world.close()


def xsrf_of(page: HTTPResponse) -> str:
    return re.search(r'data-xsrf="([^"]+)"', page.body.decode())[1]


async def test_who_is_not_logged_in_is_sent_to_the_hub(browse):
    response = await (await browse(None)).open()
    assert response.code == 302
    assert "/hub/api/oauth2/authorize" in response.headers["Location"]
    assert f"client_id={CLIENT}" in response.headers["Location"]


async def test_the_page_and_its_data(browse, bundle):
    for who, group in (("ann", "vision"), ("bob", "nlp")):
        caller = Caller(user=who, groups=frozenset({group}))
        browse.world.controller.jobs.submit(caller, submission(bundle, name=f"job of {who}", queue=group), None)
    browser = await browse("ann")
    page = await browser.open()
    assert page.code == 200
    policy = page.headers["Content-Security-Policy"]
    nonce = re.search(r"script-src 'nonce-([^']+)'", policy)[1]
    assert page.body.decode().count(f'nonce="{nonce}"') == 2
    assert "{{" not in page.body.decode()
    assert "unsafe" not in policy
    assert not re.search(r"(src|href)=\"https?:", page.body.decode())

    data = await browser.get("overview", X_XSRFToken=xsrf_of(page), Sec_Fetch_Mode="cors", Sec_Fetch_Site="same-origin")
    assert data.code == 200
    overview = json.loads(data.body)
    assert overview["me"]["user"] == "ann"
    assert [job["name"] for job in overview["jobs"]] == ["job of ann"]
    assert all(device["holders"] == [] for device in overview["devices"])


@pytest.mark.parametrize(
    ("show", "reader", "sees"),
    [
        (ShowNames.NOBODY, "bob", False),
        (ShowNames.GROUP, "bob", False),
        (ShowNames.ALL, "bob", True),
        (ShowNames.NOBODY, "root", True),
    ],
)
async def test_the_page_names_others_only_where_the_setting_says_so(browse, tmp_path, show, reader, sees):
    (tmp_path / "named").mkdir()
    world = World(tmp_path / "named", show_names=show)
    for user, group in (("ann", "vision"), ("carol", "vision"), ("bob", "nlp")):
        caller = Caller(user=user, groups=frozenset({group}))
        gpus = "0.25" if user == "bob" else "0.5"
        world.controller.tickets.open(caller, TicketRequest(server=f"lab-of-{user}", gpus=gpus))
        await world.steps()
    browser = await browse(reader, world.controller)
    data = await browser.get("overview", X_XSRFToken=xsrf_of(await browser.open()), Sec_Fetch_Mode="cors")
    (notebook,) = [each for each in json.loads(data.body)["notebooks"] if each["owner"] == "bob"]
    assert notebook["phase"] == "waiting"
    told = data.body.decode()
    assert any(name in told for name in ("lab-of-ann", "carol")) == sees
    assert ("another user's notebook" in told) != sees
    world.close()


async def test_a_job_that_has_not_ended_is_on_the_page_however_many_newer_ones_have(browse, bundle, monkeypatch):
    monkeypatch.setattr(page_module, "MOST_JOBS", 2)
    caller, jobs = Caller(user="ann", groups=frozenset({"vision"})), browse.world.controller.jobs
    jobs.submit(caller, submission(bundle, name="oldest"), None)
    for name in ("ended", "newest"):
        jobs.cancel(caller, jobs.submit(caller, submission(bundle, name=name), None)[0].id)
    browser = await browse("ann")
    data = await browser.get("overview", X_XSRFToken=xsrf_of(await browser.open()), Sec_Fetch_Mode="cors")
    overview = json.loads(data.body)
    assert ([job["name"] for job in overview["jobs"]], overview["more_jobs"]) == (["oldest", "newest"], True)
    monkeypatch.setattr(page_module, "MOST_JOBS", 3)
    data = await browser.get("overview", X_XSRFToken=xsrf_of(await browser.open()), Sec_Fetch_Mode="cors")
    assert [job["name"] for job in json.loads(data.body)["jobs"]] == ["oldest", "newest", "ended"]
    assert not json.loads(data.body)["more_jobs"]


async def test_an_admin_sees_everybody(browse, bundle):
    caller = Caller(user="ann", groups=frozenset({"vision"}))
    browse.world.controller.jobs.submit(caller, submission(bundle), None)
    browser = await browse("root")
    data = await browser.get("overview", X_XSRFToken=xsrf_of(await browser.open()), Sec_Fetch_Mode="cors")
    assert [job["owner"] for job in json.loads(data.body)["jobs"]] == ["ann"]


async def test_while_what_runs_cannot_be_seen_the_page_and_the_metrics_say_so(browse):
    browser = await browse("ann")
    xsrf = xsrf_of(await browser.open())

    async def told() -> tuple[str, bytes]:
        await browse.world.steps()
        data = await browser.get("overview", X_XSRFToken=xsrf, Sec_Fetch_Mode="cors")
        metrics = (await browser.served.ask("GET", "api/v1/metrics", token="prometheus")).body
        (unseen,) = re.findall(rb"^jupyter_gq_runs_found_unseen (\S+)$", metrics, re.MULTILINE)
        return json.loads(data.body)["runs"], unseen

    assert await told() == ("ok", b"0")
    browse.world.machine.blind = True
    assert await told() == (UNOBSERVED, b"1")
    browse.world.machine.blind = False
    assert await told() == ("ok", b"0")


async def test_an_unexpected_error_is_told_with_the_number_under_which_it_is_logged(browse, caplog):
    browser = await browse("ann", Raises(RuntimeError("a defect")))
    xsrf = xsrf_of(await browser.open())
    data = await browser.get("overview", X_XSRFToken=xsrf, Sec_Fetch_Mode="cors")
    assert data.code == 500
    (number,) = re.findall(r"this number: ([0-9a-f]+)\.", json.loads(data.body)["message"])
    (logged,) = [record for record in caplog.records if number in record.getMessage()]
    assert "a defect" in str(logged.exc_info[1])
    assert b"a defect" not in data.body


async def test_another_page_of_this_origin_cannot_read_the_data(browse):
    """A notebook of somebody else runs on the same origin: it may send the cookie, but does not know the token."""
    browser = await browse("ann")
    page = await browser.open()
    for headers in ({}, {"X_XSRFToken": "guessed"}):
        response = await browser.get("overview", Sec_Fetch_Mode="cors", Sec_Fetch_Site="same-origin", **headers)
        assert response.code == 401
        assert b"vision" not in response.body
    assert (await browser.get("overview", X_XSRFToken=xsrf_of(page), Sec_Fetch_Mode="cors")).code == 200


@pytest.mark.parametrize("mode", [None, "navigate", "no-cors", "cors", "same-origin", "websocket"])
@pytest.mark.parametrize("site", [None, "none", "same-origin", "same-site", "cross-site"])
async def test_the_data_need_the_token_of_the_page_in_every_fetch_mode(browse, mode, site):
    browser = await browse("ann")
    page = await browser.open()
    fetch = {name: value for name, value in (("Sec_Fetch_Mode", mode), ("Sec_Fetch_Site", site)) if value}
    for headers in ({}, {"X_XSRFToken": ""}, {"X_XSRFToken": "guessed"}, {"X_XSRFToken": "\xe9"}):
        response = await browser.get("overview", **fetch, **headers)
        assert response.code == 401, headers
        assert b"vision" not in response.body
    assert (await browser.get("overview", X_XSRFToken=xsrf_of(page), **fetch)).code == 200


async def test_the_cookie_opens_nothing_of_the_api(browse):
    browser = await browse("root")
    token = xsrf_of(await browser.open())
    for path in ("api/v1/me", "api/v1/jobs", "api/v1/metrics", "api/v1/events"):
        assert (await browser.get(path, X_XSRFToken=token, Sec_Fetch_Mode="cors")).code == 401


async def test_who_lacks_the_scope_is_told_so(browse):
    response = await (await browse("ann-nothing")).open()
    assert response.code == 403
    assert "custom:gq:read" in response.body.decode()


async def test_a_revoked_login_leads_to_the_login(browse, hub):
    browser = await browse("ann")
    del hub.tokens["ann"]
    assert (await browser.open()).code == 302


async def test_a_forged_cookie_is_no_login(browse):
    browser = await browse(None)
    browser.cookies[CLIENT] = create_signed_value(b"another secret", CLIENT, "root").decode()
    assert (await browser.open()).code == 302


@pytest.mark.parametrize("method", ["TRACE", "PATCH"])
async def test_a_method_that_the_page_does_not_have_is_refused_and_not_blamed_on_the_hub(browse, method):
    browser = await browse("ann")
    for path in ("", "overview"):
        response = await browser.served.ask(method, path)
        assert response.code == 405, path
        assert f"{method} is not possible here; use GET." in response.body.decode()
