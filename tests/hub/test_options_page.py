"""The page on which a user chooses a share."""

import re

import pytest

from tests.hub.real_hub import eventually
from tests.hub.scripted_service import Answer, me, problem, waiting

pytestmark = pytest.mark.asyncio


def cards(page):
    """value -> the attributes of each radio card."""
    found = re.findall(r'<input class="btn-check"[^>]*value="([^"]*)"([^>]*)>', page)
    return {value: set(re.findall(r"checked|disabled", rest)) for value, rest in found}


async def test_it_offers_what_is_possible_and_says_why_the_rest_is_not(person, service):
    async with person("nia") as nia:
        await nia.log_in()
        page = (await nia.browser.get("/hub/spawn/nia")).text
        assert cards(page) == {"0": {"checked"}, "0.25": set(), "0.5": {"disabled"}}
        assert "Your quota has 0.25 left." in page
        assert "10 GiB of GPU memory" in page
        assert page.lower().count("starts now") == 2, "each card that starts now says so once"
        assert "0.75 of 1 GPU free" in page
        assert "Simulated: NVML is not installed." in page
        assert "Server <strong>" not in page
        assert "Server <strong>two</strong>" in (await nia.browser.get("/hub/spawn/nia/two")).text
        tokens = {call.token for call in service.of("nia", "GET me")}
        left = (await nia.rest.get("/users/nia/tokens")).json()["api_tokens"]
        assert tokens
        assert not [token for token in left if "jupyter-gq" in token["note"]], "the short token is still there"


async def test_the_devices_are_those_of_the_pool_that_the_service_gives_to_notebooks(person, service):
    """The service's settings may be newer than those with which the Hub has started."""
    of_build, of_other = me("sue")["pools"][0], {"name": "other", "model": "H200", "memory_mib": 143_360}
    told = me("sue", pools=[of_build, {**of_build, **of_other}], build_pool="other")
    service.scripts["sue"].expect("GET me", told)
    async with person("sue") as sue:
        await sue.log_in()
        page = (await sue.browser.get("/hub/spawn/sue")).text
        assert "H200" in page
        assert "35 GiB of GPU memory" in page
        assert "A100-40GB" not in page


async def test_the_last_choice_is_selected_only_if_it_starts_at_once(person, service):
    async with person("ole") as ole:
        await ole.log_in()
        await ole.start({"gpus": "0.25"})
        await eventually(ole.ready)
        await ole.stop()
        await eventually(ole.gone)
        page = (await ole.browser.get("/hub/spawn/ole")).text
        assert "checked" in cards(page)["0.25"]
        choice = {"gpus": "0.25", "available": True, "starts_now": False, "sentence": "Waits about 5 min."}
        service.scripts["ole"].expect("GET me", me("ole", choices=[choice]))
        page = (await ole.browser.get("/hub/spawn/ole")).text
        assert cards(page) == {"0": {"checked"}, "0.25": set()}


async def test_after_a_reclaim_it_says_why_and_selects_cpu(person, service):
    eviction = {"reason": "IDLE", "sentence": "Idle for 30 min while bob waited.", "by": "bob", "at": 1_790_000_000}
    service.scripts["pia"].expect("GET me", me("pia", last_eviction=eviction))
    async with person("pia") as pia:
        await pia.log_in()
        await pia.start({"gpus": "0.25"})
        await eventually(pia.ready)
        await pia.stop()
        await eventually(pia.gone)
        page = (await pia.browser.get("/hub/spawn/pia")).text
        assert "Idle for 30 min while bob waited." in page
        assert "files were saved" not in page, "the sentence of an idle server says it"
        assert "2026-09-21" in page
        assert "<strong>bob</strong>" in page
        assert "checked" in cards(page)["0"]


async def test_after_a_server_that_failed_it_says_why_and_speaks_of_no_reclaim(person, service):
    failed = {"reason": "ENDED", "sentence": "It saw devices of others.", "by": None, "at": 1_790_000_000}
    service.scripts["una"].expect("GET me", me("una", last_eviction=failed))
    async with person("una") as una:
        await una.log_in()
        page = (await una.browser.get("/hub/spawn/una")).text
        assert "It saw devices of others." in page
        assert "taken back" not in page


async def test_nothing_that_others_wrote_is_html(person, service):
    nasty = '<img src=x onerror="alert(1)">'
    choice = {"gpus": "0.25", "available": True, "starts_now": True, "sentence": nasty}
    eviction = {"reason": "IDLE", "sentence": nasty, "by": nasty, "at": 1.0}
    told = me("rob", choices=[choice], last_eviction=eviction, devices_sentence=nasty, level_sentence=nasty)
    service.scripts["rob"].expect("GET me", told)
    service.scripts["rob"].expect("POST tickets", waiting(1, sentence=nasty))
    service.scripts["rob"].expect("GET tickets/*", waiting(1, sentence=nasty))
    async with person("rob") as rob:
        await rob.log_in()
        page = (await rob.browser.get("/hub/spawn/rob")).text
        assert page.count("&lt;img src=x") == 5
        assert "<img src=x" not in page
        page = (await rob.browser.post(f"/hub/spawn/rob?_xsrf={rob.xsrf()}", data={"gpus": "0.25"})).text
        assert '"step": "waiting"' in page
        assert "<img src=x" not in page
        await rob.stop()


async def test_without_the_service_there_is_cpu_and_the_reason(person, service):
    async with person("sam") as sam:
        await sam.log_in()
        service.stop()
        try:
            page = (await sam.browser.get("/hub/spawn/sam")).text
            assert cards(page) == {"0": {"checked"}}
            assert "The GPU service does not answer" in page

            answer = await sam.spawn({"gpus": "0.25"})
            assert answer.status_code == 503
            assert "Start without a GPU" in answer.json()["message"]

            await sam.start({"gpus": "0"})
            await eventually(sam.ready)
            environment = (await sam.told())["environment"]
            assert environment["CUDA_VISIBLE_DEVICES"] == ""
            assert environment["NVIDIA_VISIBLE_DEVICES"] == "void"
            await sam.stop()
            await eventually(sam.gone)
        finally:
            service.start()


async def test_an_outage_while_in_line_costs_neither_the_place_nor_the_start(person, service):
    service.scripts["tom"].expect("POST tickets", waiting(1, ticket="nb-tom"))
    service.scripts["tom"].expect("GET tickets/*", waiting(1, ticket="nb-tom"))
    async with person("tom") as tom:
        await tom.start({"gpus": "0.25"})
        await eventually(lambda: service.of("tom", "GET tickets"))
        service.stop()
        try:
            await tom.log_in()
            await eventually(lambda: says(tom, "your place in line is kept"))
        finally:
            service.start()
        service.scripts["tom"].answers.clear()
        await eventually(tom.ready)
        assert len(service.of("tom", "POST tickets")) == 1
        await tom.stop()


async def says(someone, sentence):
    return sentence in (await someone.browser.get(f"/hub/spawn-pending/{someone.name}")).text


async def test_a_process_is_reported_when_the_service_is_back(person, service):
    """The service falls silent between its yes and the start of the process."""
    async with person("uma") as uma:
        silent = problem("hub_unreachable", "The Hub does not answer.", 503)
        service.scripts["uma"].expect("PUT tickets/*/process", silent, silent, silent, Answer(status=204))
        await uma.start({"gpus": "0.25"})
        await eventually(uma.ready)
        await eventually(lambda: len(service.of("uma", "PUT")) >= 4)
        await uma.stop()
