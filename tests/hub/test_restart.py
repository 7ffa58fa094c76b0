"""What is left of a start, and of a server, when the hub is gone."""

import asyncio
import contextlib
import sqlite3

import psutil
import pytest

from tests.hub.real_hub import Person, RealHub, eventually
from tests.hub.scripted_service import Answer, ScriptedService, ticket, waiting

pytestmark = pytest.mark.asyncio


@pytest.fixture(scope="module")
def service():
    with ScriptedService() as service:
        yield service


@pytest.fixture(scope="module")
def mortal_hub(tmp_path_factory, service):
    with RealHub(tmp_path_factory.mktemp("hub"), service) as hub:
        hub.start()
        yield hub


async def test_killed_while_one_waits_and_another_runs(mortal_hub, service):
    """The next start takes the ticket up; the running server is found again, and its end gives the ticket back."""
    service.scripts["wim"].expect("POST tickets", waiting(3, ticket="nb-wim"))
    service.scripts["wim"].expect("GET tickets/*", waiting(3, ticket="nb-wim"))
    async with Person(mortal_hub, "run") as run, Person(mortal_hub, "wim") as wim:
        await run.start({"gpus": "0.25"})
        await eventually(run.ready)
        await wim.start({"gpus": "0.25"})
        await eventually(lambda: service.of("wim", "GET tickets"))

        mortal_hub.kill()
        asked = len(service.of("wim"))
        await asyncio.sleep(0.6)
        assert len(service.of("wim")) == asked, "somebody still follows the ticket: it would never lapse"
        assert psutil.pid_exists(service.of("run", "PUT")[-1].body["pid"])

        await asyncio.to_thread(mortal_hub.start)
        assert await eventually(run.ready)
        assert await wim.gone()
        service.scripts["wim"].expect("GET tickets/*", ticket(ticket="nb-wim"))
        await wim.start({"gpus": "0.25"})
        await eventually(wim.ready)
        assert not service.of("wim", "DELETE"), "its seniority was thrown away"

        assert not service.of("run", "DELETE")
        await run.stop()
        await eventually(run.gone)
        assert service.of("run", "DELETE tickets/*")[0].path == "tickets/nb-run-"


async def test_a_ticket_left_behind_for_another_share_is_not_taken_up(mortal_hub, service):
    old, new = waiting(3, ticket="nb-old", gpus="0.5"), ticket(ticket="nb-new")
    service.scripts["oda"].expect("POST tickets", old, new)
    async with Person(mortal_hub, "oda") as oda:
        await oda.start({"gpus": "0.25"})
        await eventually(oda.ready)
        assert [call.path for call in service.of("oda", "DELETE")] == ["tickets/nb-old"]
        assert service.of("oda", "PUT")[-1].path == "tickets/nb-new/process"


async def test_killed_while_the_process_of_a_server_is_reported(mortal_hub, service):
    """The next Hub knows the server, so that its user can use it and stop it."""
    service.scripts["pia"].expect("PUT tickets/*/process", Answer(status=204, after=1000), Answer(status=204))
    async with Person(mortal_hub, "pia") as pia:
        await pia.start({"gpus": "0.25"})
        report = (await eventually(lambda: service.of("pia", "PUT")))[-1]
        mortal_hub.kill()
        await asyncio.to_thread(mortal_hub.start)
        await eventually(pia.ready)
        await pia.log_in()
        assert (await pia.told())["pid"] == report.body["pid"]
        await pia.stop()
        await eventually(pia.gone)
        assert not psutil.pid_exists(report.body["pid"])


async def test_killed_before_the_process_of_a_server_is_recorded(mortal_hub):
    """The next Hub ends the process: nobody could see it or stop it. A recorded one beside it runs on."""
    async with Person(mortal_hub, "una") as una, Person(mortal_hub, "kit") as kit:
        for person in (una, kit):
            await person.start({"gpus": "0"})
            await eventually(person.ready)
            await person.log_in()
        lost, kept = [(await person.told())["pid"] for person in (una, kit)]
        mortal_hub.kill()
        with contextlib.closing(sqlite3.connect(mortal_hub.folder / "hub.sqlite")) as database, database:
            database.execute(
                "UPDATE spawners SET state = '{}' WHERE user_id = (SELECT id FROM users WHERE name = 'una')"
            )
        await asyncio.to_thread(mortal_hub.start)
        await eventually(una.gone)
        assert not psutil.pid_exists(lost)
        assert await kit.ready()
        assert psutil.pid_exists(kept)
        await una.start({"gpus": "0"})
        await eventually(una.ready)
