"""The admission without a hub around it: the endings that take long, or that a hub hides."""

import asyncio

import pytest
from traitlets.log import get_logger

from jupyter_gq.client.connection.http import ServiceClient
from jupyter_gq.hub.admission import admission as admission_module
from jupyter_gq.hub.admission.admission import Admission, ServerRequest, StartRefused, WaitLimits
from jupyter_gq.hub.admission.request import read_request
from jupyter_gq.hub.admission.status import StatusBoard
from jupyter_gq.hub.admission.waiting_servers import WaitingServers
from tests.hub.scripted_service import Answer, ScriptedService, problem, ticket, waiting
from tests.patience import scaled

pytestmark = pytest.mark.asyncio


@pytest.fixture
def service():
    with ScriptedService() as service:
        yield service


@pytest.fixture
def ann(service):
    return service.scripts["ann"]


async def obtain(service, *, gpus="0.25", board=None, as_pod=False, waiting_servers=None, **limits):
    client = ServiceClient(service.url, "t", timeout=scaled(30))
    admission = Admission(
        service=client,
        server_request=ServerRequest(server="", request=read_request({"gpus": gpus}), as_pod=as_pod),
        board=board or StatusBoard(),
        limits=WaitLimits(**{"poll_interval": 0.02, "longest_wait": 30.0, "outage_timeout": 30.0, **limits}),
        waiting_servers=waiting_servers,
    )
    try:
        return await admission.obtain()
    finally:
        client.close()


async def test_the_longest_wait_ends_with_a_sentence_and_without_a_ticket(service, ann):
    ann.expect("POST tickets", waiting(2))
    ann.expect("GET tickets/*", waiting(2))
    with pytest.raises(StartRefused) as refusal:
        await obtain(service, longest_wait=0.2)
    assert refusal.value.reason == "gpu_queue_timeout"
    assert refusal.value.sentence.startswith("No 0.25 GPU became free within 1 minute. All of build is in use;")
    assert [call.path for call in service.of("ann", "DELETE")] == ["tickets/nb-1"]


async def test_a_ticket_that_lapsed_is_asked_for_again(service, ann):
    ann.expect("POST tickets", waiting(1), waiting(0, ticket="nb-2"))
    ann.expect("GET tickets/*", problem("not_found", "No such ticket.", 404), ticket(ticket="nb-2"))
    assert (await obtain(service)).ticket == "nb-2"


async def test_the_process_of_an_earlier_server_is_waited_for(service, ann):
    """The earlier ticket is given back, and no share is used before the service has freed it."""
    board = StatusBoard()
    ann.expect(
        "POST tickets", ticket("running", ticket="nb-1"), ticket("stopping", ticket="nb-1"), ticket(ticket="nb-2")
    )
    share = await obtain(service, board=board)
    assert share.ticket == "nb-2"
    assert {call.path for call in service.of("ann", "DELETE")} == {"tickets/nb-1"}


async def test_a_service_that_stays_silent_is_given_up(service, ann):
    ann.expect("POST tickets", waiting(1))
    ann.expect("GET tickets/*", problem("hub_unreachable", "The Hub does not answer.", 503))
    with pytest.raises(StartRefused) as refusal:
        await obtain(service, outage_timeout=0.2)
    assert refusal.value.reason == "gpu_no_service"
    assert refusal.value.status == 503


async def test_a_fault_of_the_service_while_in_line_may_pass(service, ann):
    ann.expect("POST tickets", waiting(1))
    ann.expect("GET tickets/*", Answer(status=500, body={"code": "defect", "message": "Oh."}), ticket())
    assert (await obtain(service)).gpus == "0.25"


@pytest.mark.parametrize(
    ("answer", "reason", "status"),
    [
        (problem("quota_exceeded", "Too much.", 403), "gpu_quota", 403),
        (problem("invalid_amount", "Not an amount.", 422), "gpu_bad_request", 400),
        (problem("never_fits", "Never.", 422), "gpu_bad_request", 400),
        (problem("missing_scope", "No scope.", 403), "gpu_no_service", 403),
        (problem("unauthorised", "Who?", 401), "gpu_no_service", 403),
        (problem("defect", "Oh.", 500), "gpu_no_service", 503),
        (problem("hub_unreachable", "No hub.", 503), "gpu_no_service", 503),
    ],
)
async def test_each_no_of_the_service_has_its_reason(service, ann, answer, reason, status):
    ann.expect("POST tickets", answer)
    with pytest.raises(StartRefused) as refusal:
        await obtain(service)
    assert (refusal.value.reason, refusal.value.status) == (reason, status)
    assert not service.of("ann", "DELETE")


async def test_without_a_gpu_nothing_the_service_says_matters(service, ann):
    for answer in (problem("defect", "Oh.", 500), problem("missing_scope", "No.", 403)):
        ann.expect("POST tickets", answer)
        share = await obtain(service, gpus="0")
        assert (share.ticket, share.environment["CUDA_VISIBLE_DEVICES"]) == ("", "")
        assert "nothing can be sent to training" in share.note
    service.stop()
    assert (await obtain(service, gpus="0")).environment["NVIDIA_VISIBLE_DEVICES"] == "void"


POD = {
    "node": "gpu-1",
    "environment": {"NVIDIA_VISIBLE_DEVICES": "GPU-held", "JUPYTER_GQ_MEMORY_MIB": "10240"},
    "labels": {"jupyter-gq.org/attempt": "1"},
}


async def test_where_servers_are_pods_a_share_is_complete_with_what_its_pod_must_carry(service, ann):
    """The device may not be reserved yet: the ticket is followed, not given back and opened again."""
    board, seen = StatusBoard(), []
    preparing = ticket(sentence="The device is being reserved.")
    ann.expect("POST tickets", preparing)
    ann.expect("GET tickets/*", preparing, preparing, ticket(pod=POD))
    board.show = lambda status: seen.append(status.text)
    share = await obtain(service, as_pod=True, board=board)
    assert share.pod.node == "gpu-1"
    assert share.environment == {"JUPYTER_GQ_GPUS": "0.25", **POD["environment"]}, "devices are named by the pod alone"
    assert "The device is being reserved." in seen
    assert not service.of("ann", "DELETE")


@pytest.mark.parametrize("phase", ["waiting", "starting"])
async def test_without_a_gpu_a_server_starts_as_soon_as_it_has_a_ticket_and_its_pod_needs_nothing_else(
    service, ann, phase
):
    """A ticket of an earlier start that was admitted meanwhile is usable too, but its node is not this server's."""
    pod = POD if phase == "starting" else None
    ann.expect("POST tickets", ticket(phase, gpus="0", pod=pod))
    share = await obtain(service, gpus="0", as_pod=True)
    assert (share.ticket, share.gpus, share.pod) == ("nb-1", "0", None)
    assert [call.what for call in service.of("ann")] == ["POST tickets"]


async def test_without_a_gpu_too_the_ticket_of_a_server_that_still_runs_is_not_this_ones(service, ann):
    ann.expect("POST tickets", ticket("running", gpus="0"), ticket("waiting", gpus="0", ticket="nb-2"))
    assert (await obtain(service, gpus="0", as_pod=True)).ticket == "nb-2"
    assert [call.path for call in service.of("ann", "DELETE")] == ["tickets/nb-1"]


async def test_a_cancelled_wait_gives_the_ticket_back(service, ann):
    ann.expect("POST tickets", waiting(1))
    ann.expect("GET tickets/*", waiting(1))
    waits = asyncio.create_task(obtain(service))
    while not service.of("ann", "GET"):
        await asyncio.sleep(0.01)
    waits.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waits
    assert [call.path for call in service.of("ann", "DELETE")] == ["tickets/nb-1"]


async def test_the_number_of_waiting_servers_is_limited_and_servers_that_need_not_wait_are_never_refused(service, ann):
    """Each waiting server occupies one of the Hub's concurrent starts, and other servers must be able to start."""
    waiting_servers, few = WaitingServers(settling_seconds=0.1), {"most_waiting": 2}
    ann.expect("POST tickets", waiting(1))
    ann.expect("GET tickets/*", waiting(1))
    waits = [asyncio.create_task(obtain(service, waiting_servers=waiting_servers, **few)) for _ in range(2)]
    async with asyncio.timeout(scaled(30)):
        while len(waiting_servers) < 2:
            await asyncio.sleep(0.01)

    with pytest.raises(StartRefused) as refusal:
        await obtain(service, waiting_servers=waiting_servers, **few)
    assert (refusal.value.reason, refusal.value.status) == ("gpu_line_full", 503)
    assert refusal.value.sentence.startswith("2 servers wait for a GPU already, and no more may wait at one time. Try")
    assert len(service.of("ann", "DELETE")) == 1, "its ticket is given back"
    ann.expect("POST tickets", ticket(gpus="0"))
    assert (await obtain(service, waiting_servers=waiting_servers, gpus="0", **few)).gpus == "0"
    waiting_servers.settling_seconds = 60
    ann.expect("POST tickets", waiting(0))
    ann.expect("GET tickets/*", *[waiting(0)] * 3, ticket())
    assert (await obtain(service, waiting_servers=waiting_servers, **few)).gpus == "0.25", (
        "what is free is given out while it asks"
    )
    assert [(await each).gpus for each in waits] == ["0.25"] * 2
    assert len(waiting_servers) == 0


@pytest.mark.parametrize(("most", "reason"), [(1, "gpu_line_full"), (0, "gpu_queue_timeout")])
async def test_a_server_that_leaves_makes_room_and_without_a_limit_there_is_always_room(service, ann, most, reason):
    waiting_servers, limits = WaitingServers(settling_seconds=0), {"most_waiting": most, "longest_wait": 0.1}
    ann.expect("POST tickets", waiting(1))
    ann.expect("GET tickets/*", waiting(1))
    waiting_servers.join("another", most)
    for expected in (reason, "gpu_queue_timeout", "gpu_queue_timeout"):
        with pytest.raises(StartRefused) as refusal:
            await obtain(service, waiting_servers=waiting_servers, **limits)
        assert refusal.value.reason == expected
        waiting_servers.leave("another")


async def test_every_viewer_sees_the_last_sentence(service, ann):
    """Viewers come at different times; a slow one misses sentences, never the last."""
    board = StatusBoard()
    ann.expect("POST tickets", waiting(3))
    ann.expect("GET tickets/*", waiting(2), waiting(1), waiting(0), ticket())

    async def watch():
        async for status in board.watch():
            if status.position == 1:
                break
        return True

    viewers = [asyncio.create_task(watch()) for _ in range(5)]
    await obtain(service, board=board)
    assert await asyncio.wait_for(asyncio.gather(*viewers), scaled(60)) == [True] * 5


async def test_a_ticket_that_a_silent_service_does_not_take_back_is_logged_with_the_reason_in_the_log_of_the_hub(
    service, ann, monkeypatch, caplog
):
    monkeypatch.setattr(admission_module, "_GIVE_BACK_SECONDS", 0.01)
    ann.expect("DELETE tickets/*", Answer(status=204, after=scaled(1.0)))
    client = ServiceClient(service.url, "t", timeout=scaled(30))
    await admission_module.give_back(client, "nb-1")
    await client.close_ticket("nb-1")  # answered after the first request, so that no connection is left
    client.close()
    (record,) = [each for each in caplog.records if "nb-1" in each.getMessage()]
    assert record.getMessage().endswith("will lapse: the service did not answer within 0.01 s")
    assert record.name == get_logger().name
