"""A start that follows its ticket: the place is lost, or the way out of it is blocked too."""

import asyncio
from contextlib import contextmanager

import pytest

from jupyter_gq.client.connection.http import ServiceError, ServiceUnavailable
from jupyter_gq.client.models import Problem, TicketView
from jupyter_gq.client.pods.additions import PodAdditions
from jupyter_gq.hub.admission.admission import StartRefused, make_share
from jupyter_gq.hub.admission.status import StatusBoard
from jupyter_gq.hub.kubernetes.place import PlaceRetries
from jupyter_gq.hub.kubernetes.pods import ResilientPods
from tests.patience import scaled

pytestmark = pytest.mark.asyncio

#: Seconds after which a start that should have ended has failed its test.
_TEST_TIMEOUT = 30


def view(phase="starting", node="gpu-1", attempt=1, sentence="Here."):
    pod = PodAdditions(node=node, labels={"jupyter-gq.org/attempt": str(attempt)}) if phase == "starting" else None
    return TicketView(id="nb-1", server="", gpus="0.25", phase=phase, sentence=sentence, pod=pod)


class Service:
    """A service that gives these answers in turn, the last one again and again; an exception is raised."""

    def __init__(self, *answers):
        self.answers, self.closed = list(answers), []

    async def ticket(self, _):
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def close_ticket(self, ticket):
        self.closed.append(ticket)


class Server:
    """A server whose pod runs only on nodes with room; each start and each removal is recorded."""

    name, start_timeout, gpu_place_retries, gpu_queue_poll_interval = "", 60.0, 2, 0.01
    node_is_silent = False
    _share_token, namespace, pod_name, pod_reflector = "t", "hub", "jupyter-ann", None

    def __init__(self, *room):
        self.room, self.began, self.removed = room, [], 0
        self._board = StatusBoard()

    async def _start_server(self):
        node = self._share.pod.node
        self.began.append(node)
        if node not in self.room:
            await asyncio.Event().wait()
        return f"http://{node}"

    async def stop(self, now):
        assert not now, "its processes may still run when Kubernetes has forgotten it"
        self.removed += 1
        if self.node_is_silent:
            await asyncio.Event().wait()

    def _show_starting(self):
        pass

    def _make_refusal(self, error, gpus):
        return error

    @contextmanager
    def _open_service(self, _):
        yield self.service


class Tried(PlaceRetries, ResilientPods, Server):
    """The spawner under test."""

    def __init__(self, *room, **settings):
        Server.__init__(self, *room)
        for name, value in settings.items():
            setattr(self, name, value)


async def start(server, *answers):
    server.service, server._share = Service(*answers), make_share(view())
    server.start_until = asyncio.get_running_loop().time() + server.start_timeout
    async with asyncio.timeout(scaled(_TEST_TIMEOUT)):
        return await server._start_server()


async def refused(server, *answers):
    with pytest.raises(StartRefused) as refusal:
        await start(server, *answers)
    return refusal.value


async def test_a_place_with_room_is_used_and_nothing_else_happens():
    server = Tried("gpu-1")
    assert await start(server, view()) == "http://gpu-1"
    assert server.removed == 0


async def test_the_next_place_is_tried_whether_or_not_the_wait_for_it_was_seen():
    server = Tried("gpu-3")
    answers = [view(), view("waiting"), view(node="gpu-2", attempt=2), view(node="gpu-3", attempt=3)]
    assert await start(server, *answers) == "http://gpu-3"
    assert (server.began, server.removed) == (["gpu-1", "gpu-2", "gpu-3"], 2)
    assert not server.service.closed


async def test_the_same_node_once_more_is_another_place():
    server = Tried()
    told = await refused(server, view(attempt=2), view(attempt=2), view(attempt=3), view(attempt=3), view("waiting"))
    assert server.began == ["gpu-1"] * 3
    assert told.reason == "gpu_no_place"
    assert told.sentence.startswith("The cluster was asked 3 times for a place with 0.25 GPU and refused.")


async def test_without_retries_one_refusal_is_the_end():
    told = await refused(Tried(gpu_place_retries=0), view("waiting", sentence="No room."))
    assert "asked once" in told.sentence
    assert "No room." in told.sentence


async def test_a_service_that_is_away_or_in_trouble_keeps_nobody_from_starting():
    trouble = Problem(code="defect", message="Oh.")
    server = Tried("gpu-2")
    answers = [ServiceUnavailable(0, trouble), ServiceError(500, trouble), view(), view(node="gpu-2", attempt=2)]
    assert await start(server, *answers) == "http://gpu-2"


async def test_a_ticket_that_is_over_or_unknown_ends_the_start():
    told = await refused(Tried(), view("stopped", sentence="It was cancelled."))
    assert told.sentence.endswith("It was cancelled.")
    told = await refused(Tried(), ServiceError(404, Problem(code="not_found", message="No such ticket.")))
    assert told.reason == "gpu_no_service"


async def test_the_end_comes_before_the_hubs_own_which_would_count_as_a_failure():
    waits = Tried(start_timeout=0.2)
    told = await refused(waits, view("waiting", sentence="All is in use."))
    assert "All is in use." in told.sentence
    assert waits.service.closed == ["nb-1"]
    told = await refused(Tried(start_timeout=0.2), view("waiting"), view(node="gpu-2", attempt=2))
    assert "the next one took too long" in told.sentence
    told = await refused(Tried(start_timeout=0.2, node_is_silent=True), view("waiting", sentence="Its node is silent."))
    assert told.sentence.startswith("Its node is silent. The server's earlier pod on its node cannot be removed yet.")


async def test_a_start_that_is_cancelled_leaves_nobody_following():
    server = Tried()
    starting = asyncio.create_task(start(server, view()))
    while not server.began:
        await asyncio.sleep(0)
    others = asyncio.all_tasks()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert asyncio.all_tasks() == {asyncio.current_task()}, others
