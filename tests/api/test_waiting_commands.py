"""The commands of users while the service does not answer: they wait a moment, or for as long as they follow a job."""

import asyncio

import pytest
import pytest_asyncio
from tornado.httpserver import HTTPServer
from tornado.netutil import bind_sockets
from tornado.web import Application, RequestHandler

from jupyter_gq.api.app import make_server
from jupyter_gq.app import main
from jupyter_gq.client.outputs.delivery import Delivery
from tests.patience import eventually
from tests.ports import claim_port
from tests.serving import application_of

from .conftest import PREFIX
from .world import piece, submission

pytestmark = pytest.mark.asyncio


@pytest_asyncio.fixture
async def listen(serve, world, people):
    """Start a service at a port; return its server."""
    authenticator = (await serve(world.controller)).authenticator

    def start(port):
        server = make_server(application_of(world.controller, authenticator, PREFIX))
        server.add_sockets(bind_sockets(port, "127.0.0.1"))
        return server

    return start


async def stop(server):
    """End a service, which listens no more."""
    server.stop()
    await server.close_all_connections()


def has_printed(capsys, told, name, text):
    """Whether a command has printed the text; `told` collects what it prints on "out" and "err"."""
    new = capsys.readouterr()
    told["out"] += new.out
    told["err"] += new.err
    return text in told[name]


@pytest.mark.usefixtures("say")
async def test_a_command_that_begins_while_the_service_restarts_waits_and_says_so(people, bundle, listen, capsys):
    job, _ = await people["ann"].submit(submission(bundle))
    port = claim_port()
    told = {"out": "", "err": ""}
    address = ["--url", f"http://127.0.0.1:{port}{PREFIX}"]
    listing = asyncio.create_task(asyncio.to_thread(main, ["jobs", *address]))
    says = "The service cannot answer now; this command tries again for 15 s.\n"
    await eventually(lambda: has_printed(capsys, told, "err", says), lambda: told)
    server = listen(port)
    assert await listing == 0
    assert has_printed(capsys, told, "out", job.id)
    assert told["err"] == f"{says}The service answers again.\n"
    await stop(server)


async def test_a_proxy_that_answers_in_place_of_the_service_is_named_at_the_end(say, monkeypatch):
    monkeypatch.setattr("jupyter_gq.commands.connecting.patience.INTERVAL", 0.01)
    monkeypatch.setattr("jupyter_gq.commands.connecting.connection.MOMENT", 0.2)
    asked = []

    class HasNoService(RequestHandler):
        """The page of a proxy whose service is gone."""

        def get(self) -> None:
            asked.append(self.request.path)
            self.set_status(503)
            self.finish("<html>Service Unavailable</html>")

    server = HTTPServer(Application([(".*", HasNoService)]))
    sockets = bind_sockets(0, "127.0.0.1")
    server.add_sockets(sockets)
    code, _, err = await say("jobs", "--url", f"http://127.0.0.1:{sockets[0].getsockname()[1]}")
    first, last = err.splitlines()
    assert (code, first) == (4, "The service cannot answer now; this command tries again for 0 s.")
    assert "does not answer; a proxy did, with status 503. The service may be restarting" in last
    assert len(asked) > 1
    await stop(server)


async def test_a_command_does_not_wait_for_an_address_without_https(say, people):
    code, _, err = await say("jobs", "--url", people["ann"].url.replace("http:", "https:"))
    assert (code, "write its address with http://" in err, "tries again" in err) == (4, True, False)


@pytest.mark.usefixtures("say")
async def test_following_survives_a_restart_of_the_service_without_a_gap(
    world, people, bundle, listen, monkeypatch, capsys
):
    monkeypatch.setattr("jupyter_gq.commands.follow.INTERVAL", 0.05)
    job, _ = await people["ann"].submit(submission(bundle))
    await world.steps()
    delivery = Delivery(people["ann"].url, job.id, world.job_token(job.id))
    await delivery.send([piece(1, "before\n")])
    port = claim_port()
    server = listen(port)
    told = {"out": "", "err": ""}

    address = ["--url", f"http://127.0.0.1:{port}{PREFIX}"]
    following = asyncio.create_task(asyncio.to_thread(main, ["logs", "-f", job.id, *address]))
    await eventually(lambda: has_printed(capsys, told, "out", "before\n"), lambda: told)
    await stop(server)
    await eventually(
        lambda: has_printed(capsys, told, "err", "The service does not answer; this command waits.\n"), lambda: told
    )
    await delivery.send([piece(2, "meanwhile\n")])
    delivery.close()
    server = listen(port)
    world.machine.end(job.id)
    await world.steps()
    assert await following == 0
    assert has_printed(capsys, told, "err", "The service answers again.\n")
    assert told["out"] == "before\nmeanwhile\n"
    await stop(server)
