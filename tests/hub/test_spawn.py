"""From the request to the process and back, through a real hub."""

import asyncio
import os
import signal

import psutil
import pytest

from tests.hub.real_hub import eventually
from tests.hub.scripted_service import Answer, problem, ticket, waiting

pytestmark = pytest.mark.asyncio


async def test_a_share_within_the_quota_reaches_the_server_and_is_given_back(person, service):
    async with person("ann") as ann:
        assert (await ann.spawn({"gpus": 0.25})).status_code in (201, 202)
        await eventually(ann.ready)
        await ann.log_in()
        told = await ann.told()

        environment = told["environment"]
        assert environment["JUPYTER_GQ_URL"] == service.url
        assert environment["JUPYTER_GQ_SERVER"] == ""
        assert environment["JUPYTER_GQ_TICKET"] == "nb-ann-"
        assert environment["JUPYTER_GQ_GPUS"] == "0.25"
        assert environment["CUDA_VISIBLE_DEVICES"] == "GPU-aaaa"
        assert environment["JUPYTER_DEFAULT_PROVISIONER_NAME"] == "jupyter-gq"
        assert environment["HOME"].endswith("/homes/ann")
        assert ("--allow-root" in told["arguments"]) == (os.geteuid() == 0)

        asked = service.of("ann", "POST tickets")
        assert [call.body for call in asked] == [{"server": "", "gpus": "0.25"}]
        report = service.of("ann", "PUT tickets/*/process")[-1].body
        assert report["pid"] == told["pid"]
        assert report["started"] == pytest.approx(psutil.Process(told["pid"]).create_time(), abs=0.05)
        assert not service.of("ann", "DELETE")

        await ann.stop()
        await eventually(ann.gone)
        assert service.of("ann", "DELETE tickets/*")[0].path == "tickets/nb-ann-"
        assert not psutil.pid_exists(told["pid"])


async def test_the_wait_is_not_part_of_start_timeout_and_every_viewer_sees_it(person, hub, service):
    """The wait takes longer than start_timeout. Two pages are open, and neither takes the other's messages."""
    service.scripts["bea"].expect("POST tickets", waiting(2))
    asked_in_a_start = round(hub.start_timeout / 0.2)  # gpu_queue_poll_interval
    line = [waiting(2)] * asked_in_a_start + [waiting(1)] * 10 + [waiting(0, sentence="<b>next</b>")] * 10
    service.scripts["bea"].expect("GET tickets/*", *line, ticket())
    async with person("bea") as bea:
        assert (await bea.spawn({"gpus": "0.25"})).status_code == 202
        first, second = await asyncio.gather(bea.progress(), bea.progress())
        for events in (first, second):
            said = [event["message"] for event in events if "In line" in event["message"]]
            assert [next(word for word in ("place 3", "place 2", "place 1") if word in each) for each in said] == [
                "place 3",
                "place 2",
                "place 1",
            ]
            assert any("&lt;b&gt;next" in event.get("html_message", "") for event in events)
            assert not any("<b>" in event.get("html_message", "") for event in events)
            assert events[-1].get("ready")
            progress = [event["progress"] for event in events]
            assert progress == sorted(progress)
        await bea.log_in()
        assert (await bea.told())["environment"]["JUPYTER_GQ_TICKET"] == "nb-1"
        await bea.stop()


async def test_cancelling_gives_the_place_in_line_back(person, service):
    service.scripts["cem"].expect("POST tickets", waiting(4, ticket="nb-cem"))
    service.scripts["cem"].expect("GET tickets/*", waiting(4, ticket="nb-cem"))
    async with person("cem") as cem:
        await cem.start({"gpus": "0.25"})
        await eventually(lambda: service.of("cem", "GET tickets"))
        assert (await cem.stop()).status_code in (202, 204)
        await eventually(lambda: service.of("cem", "DELETE tickets/*"))
        assert service.of("cem", "DELETE tickets/*")[0].path == "tickets/nb-cem"
        await eventually(cem.gone)
        asked = len(service.of("cem", "GET"))
        await asyncio.sleep(0.6)
        assert len(service.of("cem", "GET")) == asked, "the hook is still following the ticket"


async def test_a_ticket_that_is_cancelled_while_it_is_being_opened_is_given_back(person, service):
    """The hub is told to stop before the service has answered; the ticket's id is not known yet."""
    service.scripts["dan"].expect("POST tickets", Answer(body=waiting(1, ticket="nb-dan"), after=2))
    async with person("dan") as dan:
        starts = asyncio.create_task(dan.spawn({"gpus": "0.25"}))
        await eventually(lambda: service.of("dan", "POST tickets"))
        await dan.stop()
        await eventually(lambda: service.of("dan", "DELETE tickets/*"))
        await starts


async def test_a_refusal_beyond_the_quota_reaches_every_kind_of_client(person, service):
    sentence = "You asked for 0.5 GPU, but your fixed quota is 0.5 GPU and 0.25 of it is in use (lab)."
    service.scripts["eve"].expect("POST tickets", problem("quota_exceeded", sentence, 403))
    async with person("eve") as eve:
        answer = await eve.spawn({"gpus": "0.5"}, "second")
        assert answer.status_code == 403
        assert answer.json()["message"] == sentence
        await eve.log_in()

        async def refused():
            """The Hub's form answers with what is known after a second; on a busy machine that may be nothing yet."""
            page = await eve.browser.post(f"/hub/spawn/eve?_xsrf={eve.xsrf()}", data={"gpus": "0.5"})
            return page if page.status_code == 403 else None

        page = await eventually(refused)
        assert sentence in page.text
        # The form, or on a busy machine the page of the server that did not start.
        assert "spawn-error-msg" in page.text or 'require(["not_running"])' in page.text
        assert not service.of("eve", "PUT")
        assert not service.of("eve", "GET tickets")


async def test_a_refusal_after_a_wait_is_shown_on_the_page_of_the_failed_start(person, service):
    service.scripts["fay"].expect("POST tickets", waiting(0))
    gone = ticket("stopped", sentence="Cancelled by <root>.")
    service.scripts["fay"].expect("GET tickets/*", waiting(0))
    async with person("fay") as fay:
        await fay.log_in()
        page = await fay.browser.post(f"/hub/spawn/fay?_xsrf={fay.xsrf()}", data={"gpus": "0.25"})
        assert page.url.path == "/hub/spawn-pending/fay"

        async def waits():  # on a busy machine the page may come before the service has answered
            page = await fay.browser.get("/hub/spawn-pending/fay")
            return page if '"step": "waiting"' in page.text else None

        page = await eventually(waits)
        assert '"position": 1' in page.text
        service.scripts["fay"].expect("GET tickets/*", gone)

        async def refused():
            page = await fay.browser.get("/hub/spawn-pending/fay")
            return page if "gq-refusal" in page.text else None

        page = await eventually(refused)
        assert "The request for 0.25 GPU ended: Cancelled by &lt;root&gt;." in page.text
        assert "<root>" not in page.text


BAD = [
    {"gpus": "1.5"},
    {"gpus": "abc"},
    {"gpus": "0.1234"},
    {"gpus": -1},
    {"gpus": True},
    {"gpus": None},
    {"gpus": ["0.25", "0.5"]},
    {"gpus": {"a": 1}},
    {"gpu": "0.25"},
    {"gpus": "0.25", "image": "mine"},
]


@pytest.mark.parametrize("wrapped", [True, False], ids=["form-of-hub-6", "form-of-hub-5"])
async def test_options_that_mean_nothing_are_refused_before_anything_is_asked_for(person, service, wrapped):
    async with person("gil") as gil:
        for options in BAD:
            answer = await gil.spawn(options, wrapped=wrapped)
            assert answer.status_code == 400, options
            said = answer.json()["message"]
            assert "gpus" in said or "GPU" in said, said
        assert not service.of("gil")


async def test_bodies_that_are_no_object_do_not_count_as_failed_starts(person, hub, service):
    """Six of them: one more than the consecutive failures after which a hub exits."""
    async with person("hal") as hal:
        for body in ([1], "0.25", 3, [[]], "x", [{}]):
            answer = await hal.rest.post(hal.path(), json=body)
            assert answer.status_code == 400, body
        await asyncio.sleep(2.5)
        assert hub.exit_code() is None
        assert not service.of("hal")


async def test_saved_options_that_have_become_wrong_are_checked_again(person, service):
    """A start without options takes the last ones from the database."""
    async with person("ina") as ina:
        assert (await ina.spawn({"gpus": "9.5"})).status_code == 400
        assert (await ina.rest.post(ina.path())).status_code == 400


async def test_a_gpu_and_then_none_leaves_nothing_of_the_gpu_behind(person, service):
    async with person("jim") as jim:
        await jim.log_in()
        for gpus, expected in (("0.25", "GPU-aaaa"), ("0", ""), ("0.25", "GPU-aaaa")):
            if gpus == "0":
                empty = ticket(gpus="0")
                service.scripts["jim"].expect("POST tickets", {**empty, "environment": {}})
            else:
                service.scripts["jim"].answers.clear()
            await jim.start({"gpus": gpus})
            await eventually(jim.ready)
            environment = (await jim.told())["environment"]
            assert environment["CUDA_VISIBLE_DEVICES"] == expected
            assert environment["JUPYTER_GQ_GPUS"] == gpus
            await jim.stop()
            await eventually(jim.gone)


async def test_a_server_that_dies_gives_its_share_back(person, service):
    async with person("kim") as kim:
        await kim.start({"gpus": "0.25"})
        await eventually(kim.ready)
        os.kill(service.of("kim", "PUT")[-1].body["pid"], signal.SIGKILL)
        await eventually(lambda: service.of("kim", "DELETE tickets/*"))
        await eventually(kim.gone)


async def test_a_process_that_the_service_does_not_accept_is_ended(person, service):
    conflict = problem("conflict", "Ticket nb-lea- was given back: its process may not use the GPU.", 409)
    service.scripts["lea"].expect("PUT tickets/*/process", conflict)
    async with person("lea") as lea:
        answer = await lea.spawn({"gpus": "0.25"})
        assert answer.status_code == 409
        assert "its process may not use the GPU" in answer.json()["message"]
        pid = service.of("lea", "PUT")[-1].body["pid"]
        await eventually(lambda: not psutil.pid_exists(pid))


async def test_named_servers_have_tickets_of_their_own(person, service):
    async with person("max") as max_:
        for server in ("", "two"):
            await max_.start({"gpus": "0.25"}, server)
            await eventually(lambda server=server: max_.ready(server))
        assert [call.body["server"] for call in service.of("max", "POST tickets")] == ["", "two"]
        await max_.log_in()
        told = await max_.told("two")
        assert told["environment"]["JUPYTER_GQ_SERVER"] == "two"
        assert told["environment"]["JUPYTER_GQ_TICKET"] == "nb-max-two"
        await max_.stop("two")
        await eventually(lambda: service.of("max", "DELETE tickets/*"))
        assert [call.path for call in service.of("max", "DELETE")] == ["tickets/nb-max-two"]
        await max_.stop()
