"""What becomes of calls, lists and watches when the server stops in the middle of them."""

import asyncio
import json
from urllib.parse import parse_qs, urlsplit

import pytest
import pytest_asyncio
from kubernetes import client

from jupyter_gq.backends.kubernetes.api.cluster import Cluster
from jupyter_gq.backends.kubernetes.api.errors import ClusterError, Expired, Unreachable
from jupyter_gq.backends.kubernetes.api.reflector import Copy, Reflector
from jupyter_gq.backends.kubernetes.api.resources import PODS
from jupyter_gq.backends.kubernetes.api.views import pod_view
from tests.patience import scaled

pytestmark = pytest.mark.asyncio

#: For an answer and for a word of a watch, in seconds; all else waits longer than that and shorter than for ever. On a
#: slow machine a good answer takes longer.
PATIENCE, SILENCE = scaled(0.4), scaled(0.8)
CHUNKED = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


def answer(body, status="200 OK"):
    text = json.dumps(body)
    return f"HTTP/1.1 {status}\r\nContent-Length: {len(text)}\r\n\r\n{text}"


def a_page(*names, following="", version=7):
    items = [{"metadata": {"namespace": "t", "name": name, "uid": name, "resourceVersion": "1"}} for name in names]
    return answer({"metadata": {"resourceVersion": str(version), "continue": following}, "items": items})


def tells(*events):
    """The beginning of a watch that tells this."""
    text = "".join(json.dumps(event) + "\n" for event in events)
    return f"{CHUNKED}{len(text):x}\r\n{text}\r\n"


def added(name, version):
    meta = {"namespace": "t", "name": name, "uid": name, "resourceVersion": str(version)}
    return {"type": "ADDED", "object": {"metadata": meta}}


class Server:
    """Gives the next of these answers to each request, and after the last one says nothing more."""

    def __init__(self, *answers):
        self.answers, self.asked, self.asked_at, self._open = list(answers), [], [], []

    async def start(self):
        self._server = await asyncio.start_server(self._meet, "127.0.0.1", 0)
        (port,) = {each.getsockname()[1] for each in self._server.sockets}
        settings = client.Configuration(host=f"http://127.0.0.1:{port}")
        self.cluster = Cluster.of(settings, timeout=PATIENCE, silence=SILENCE, page=2)

    async def _meet(self, reader, writer):
        self._open.append(writer)
        while not reader.at_eof():
            try:
                request = await reader.readuntil(b"\r\n\r\n")
            except (asyncio.IncompleteReadError, ConnectionError):
                return
            self.asked_at.append(asyncio.get_running_loop().time())
            _, path, _ = request.split(b" ", 2)
            self.asked.append({key: value for key, (value,) in parse_qs(urlsplit(path.decode()).query).items()})
            if self.answers:
                writer.write(self.answers.pop(0).encode())

    async def end(self):
        self._server.close()
        for writer in self._open:
            writer.close()
        self.cluster.close()


@pytest_asyncio.fixture
async def listening():
    started = []

    async def start(*answers):
        started.append(Server(*answers))
        await started[-1].start()
        return started[-1]

    yield start
    for server in started:
        await server.end()


@pytest_asyncio.fixture
async def reflect():
    begun = []

    def begin(cluster):
        begun.append(Reflector(cluster, PODS, namespace="t", trim=pod_view, copy=Copy(lambda before, after: None)))
        begun[-1].start()
        return begun[-1]

    yield begin
    for reflector in begun:
        reflector.end()
        await asyncio.to_thread(reflector._thread.join, scaled(10))
        assert not reflector._thread.is_alive()


async def until(condition):
    async with asyncio.timeout(scaled(10)):
        while not condition():
            await asyncio.sleep(0.005)


def names(reflector):
    return sorted(view.name for view in reflector.copy)


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ((), "cannot be reached: .*timed out"),
        (("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{",), "broke off its answer"),
    ],
    ids=["nothing", "half an answer"],
)
async def test_a_call_to_a_server_that_falls_silent_fails_in_time(listening, said, told):
    server = await listening(*said)
    async with asyncio.timeout(scaled(10)):
        with pytest.raises(Unreachable, match=told):
            await server.cluster.get(PODS, "t", "p")


async def test_a_watch_that_falls_silent_is_opened_anew_where_it_was(listening, reflect, caplog):
    server = await listening(a_page("old"), tells(added("new", 9)), tells(added("newer", 12)))
    reflector = reflect(server.cluster)
    await until(lambda: len(server.asked) == 4)
    assert names(reflector) == ["new", "newer", "old"]
    lists, watches = server.asked[:1], server.asked[1:]
    assert lists == [{"limit": "2"}]
    assert [asked["resourceVersion"] for asked in watches] == ["7", "9", "12"]
    assert all(240 <= int(asked["timeoutSeconds"]) <= 300 for asked in watches), "nor does the server keep it for ever"
    assert server.asked_at[2] - server.asked_at[1] > SILENCE, "it may be silent for longer than a call"
    assert not caplog.records, "that is no failure"


@pytest.mark.parametrize(
    ("broken", "error"),
    [
        (answer({"message": "The provided continue parameter is too old"}, "410 Gone"), Expired),
        (answer({"message": "etcd is away"}, "500 Internal Server Error"), ClusterError),
        ("HTTP/1.1 200 OK\r\nContent-Length: 900\r\n\r\n{", Unreachable),
    ],
    ids=["gone", "error", "silence"],
)
async def test_a_list_of_which_a_page_is_missing_is_none(listening, reflect, broken, error):
    """Pods that no page has shown are not taken for gone, and the list is made anew from its beginning."""
    forgets = tells({"type": "ERROR", "object": {"code": 410, "message": "too old resource version"}})
    first = a_page("a", "b", following="further")
    server = await listening(first, a_page("c", version=8), forgets, first, broken)
    reflector = reflect(server.cluster)
    await until(lambda: len(server.asked) == 6)
    assert names(reflector) == ["a", "b", "c"]
    assert [asked.get("continue") for asked in server.asked] == [None, "further", None, None, "further", None]
    assert reflector.lists == 1
    with pytest.raises(error):
        await _all_pages(await listening(first, broken))


async def _all_pages(server):
    await asyncio.to_thread(lambda: list(server.cluster.pages(PODS, "t", {})))
