"""A watch goes on whatever meets it, and says when the copy that it keeps may be old."""

import asyncio
import itertools

import pytest
import pytest_asyncio
from kubernetes import client
from kubernetes.config import ConfigException

from jupyter_gq.backends.kubernetes.api.cluster import Cluster, Stream
from jupyter_gq.backends.kubernetes.api.errors import Expired, Refused, Unreachable
from jupyter_gq.backends.kubernetes.api.reflector import Copy, Reflector
from jupyter_gq.backends.kubernetes.api.resources import PODS
from jupyter_gq.backends.kubernetes.api.views import PodView, pod_view
from tests.patience import scaled

pytestmark = pytest.mark.asyncio


def added(name, version):
    meta = {"namespace": "t", "name": name, "uid": f"uid-{name}", "resourceVersion": str(version)}
    return {"type": "ADDED", "object": {"metadata": meta}}


GONE = {"type": "ERROR", "object": {"code": 410, "message": "too old resource version: 1 (9)"}}
#: A watch that the server ends before it has told anything.
ENDS_AT_ONCE = None


class OneWatch:
    """Yields these batches, and then stays open until it is ended; without any it ends at once."""

    def __init__(self, batches, until):
        self._batches, self._until = batches, until

    def batches(self):
        yield from self._batches
        if self._batches:
            self._until.wait()

    def end(self):
        self._until.set()


class OneBatch(list):
    """Events that come together."""

    def __init__(self, *events):
        super().__init__(events)


class ClusterThatGoesWrong:
    """Lists nothing; each watch raises what is next in `faults`, and then they are well and show a pod."""

    def __init__(self, *faults, in_lists=()):
        self.faults, self.list_faults, self.lists, self.versions = list(faults), list(in_lists), 0, itertools.count(5)
        self.hold = None

    def pages(self, resource, namespace, query):
        self.lists += 1
        if self.list_faults:
            raise self.list_faults.pop(0)
        yield [], str(next(self.versions))

    def watch(self, resource, namespace, query, version, seconds):
        if not self.faults:
            return OneWatch([[added("well", 1000)]], self.hold)
        fault = self.faults.pop(0)
        if isinstance(fault, Exception):
            raise fault
        if isinstance(fault, OneBatch):
            return OneWatch([fault], self.hold)
        return OneWatch([] if fault is ENDS_AT_ONCE else [[fault]], self.hold)


class Hurried(Reflector):
    """Does not wait between its tries; notes for how long it would have, and what it said of itself by then."""

    def begin(self):
        self.pauses, self.said = [], []
        self._cluster.hold = self._ended
        self.start()

    def _pause(self, seconds):
        self.pauses.append(seconds)
        told = asyncio.run_coroutine_threadsafe(self._say(), self._loop)
        told.result(scaled(5))

    async def _say(self):
        self.said.append(self.failure)


@pytest_asyncio.fixture
async def watch():
    begun = []

    def begin(cluster, trim=pod_view):
        reflector = Hurried(cluster, PODS, namespace="t", trim=trim, copy=Copy(lambda before, after: None))
        begun.append(reflector)
        reflector.begin()
        return reflector

    yield begin
    for reflector in begun:
        reflector.end()
        await asyncio.to_thread(reflector._thread.join, 5)
        assert not reflector._thread.is_alive()


async def well(reflector):
    """It shows what the cluster has at last, and says that it does."""
    async with asyncio.timeout(scaled(5)):
        while reflector.copy.get("t", "well") is None or reflector.failure:
            await asyncio.sleep(0.001)


@pytest.mark.parametrize("fault", [RuntimeError("odd"), ConfigException("Token file exists but empty."), OSError(5)])
@pytest.mark.parametrize("where", ["list", "watch"])
async def test_what_nobody_has_foreseen_is_a_failure_that_passes(watch, fault, where):
    cluster = ClusterThatGoesWrong(fault) if where == "watch" else ClusterThatGoesWrong(in_lists=[fault])
    reflector = watch(cluster)
    await well(reflector)
    assert any("by a defect of jupyter-gq" in sentence and repr(fault) in sentence for sentence in reflector.said)


async def test_what_cannot_be_understood_is_unknown_and_not_nothing(watch):
    odd = [True]

    def trim(item):
        if odd and item["metadata"]["name"] == "odd":
            odd.clear()
            raise ValueError("no such number")
        return pod_view(item)

    reflector = watch(ClusterThatGoesWrong(added("odd", 20)), trim)
    await well(reflector)
    assert any("no such number" in sentence for sentence in reflector.said)
    assert isinstance(reflector.copy.get("t", "well"), PodView)


@pytest.mark.parametrize("fault", [Expired("too old"), GONE, ENDS_AT_ONCE], ids=["answer", "stream", "end"])
async def test_what_may_happen_once_is_a_failure_the_second_time_and_is_tried_less_and_less_often(watch, fault):
    reflector = watch(ClusterThatGoesWrong(*[fault] * 6))
    await well(reflector)
    assert reflector.said[0] == ""
    assert all(sentence.startswith("The cluster ") for sentence in reflector.said[1:6])
    assert all(0.25 * 2**n <= pause <= 0.5 * 2**n for n, pause in enumerate(reflector.pauses[1:6]))


async def test_a_list_that_no_watch_can_follow_is_no_contact(watch):
    """Such as with a role that may list and not watch."""
    cluster = ClusterThatGoesWrong(*[Refused("The service may not watch the pods.", status=403)] * 5)
    reflector = watch(cluster)
    await well(reflector)
    assert reflector.said == ["The service may not watch the pods."] * 5
    assert (cluster.lists, reflector.lists) == (6, 6)
    assert reflector.pauses[-1] >= 4, "and not several times a second"


async def test_news_makes_failures_forgotten(watch):
    told = added("early", 10)
    reflector = watch(ClusterThatGoesWrong(Unreachable("Away."), Unreachable("Away."), OneBatch(told, GONE), GONE))
    await well(reflector)
    assert reflector.said[:2] == ["Away.", "Away."]
    assert reflector.said[2] == "", "the first of its kind after news"
    assert reflector.pauses[3] <= 0.5, "one failure"


async def test_credentials_that_cannot_be_read_are_a_cluster_that_cannot_be_reached():
    def renew(configuration):
        raise ConfigException("Token file exists but empty.")

    settings = client.Configuration(host="https://127.0.0.1:1")
    settings.api_key["authorization"] = "Bearer x"
    settings.refresh_api_key_hook = renew
    cluster = Cluster.of(settings, timeout=1.0)
    with pytest.raises(Unreachable, match="cannot be read: Token file exists but empty"):
        await cluster.get(PODS, "t", "p")
    cluster.close()


class Answer:
    def __init__(self, *chunks):
        self._chunks = chunks

    def stream(self, amt, decode_content):
        yield from self._chunks

    def close(self):
        pass


async def test_a_line_that_is_no_event_breaks_the_watch_off():
    stream = Stream(Answer(b'{"type": "BOOKMARK"}\n', b"null\n"))
    batches = stream.batches()
    assert next(batches) == [{"type": "BOOKMARK"}]
    with pytest.raises(Unreachable, match="broke off"):
        next(batches)


class ClusterThatWasRestored:
    """Has a pod at version 1000; later it knows nothing of that version, and has another pod, of a lower one.

    To a watch of the lost version it answers `fault`.
    """

    def __init__(self, fault):
        self.fault, self.versions, self.hold = fault, [], None

    def pages(self, resource, namespace, query):
        if not self.versions:
            yield [added("lost", 990)["object"], added("well", 980)["object"]], "1000"
        else:
            yield [added("well", 40)["object"]], "50"

    def watch(self, resource, namespace, query, version, seconds):
        self.versions.append(version)
        if version == "1000":
            raise self.fault
        return OneWatch([[added("next", 60)]], self.hold)


@pytest.mark.parametrize("status", [0, 500, 504])
async def test_after_a_restore_what_was_known_of_later_versions_is_not_believed(watch, status):
    cluster = ClusterThatWasRestored(Unreachable("Too large resource version: 1000, current: 50", status=status))
    reflector = watch(cluster)
    async with asyncio.timeout(scaled(5)):
        while reflector.copy.get("t", "next") is None:
            await asyncio.sleep(0.001)
    assert {view.name: view.version for view in reflector.copy} == {"well": 40, "next": 60}
    assert cluster.versions == ["1000", "1000", "50"]


async def test_a_list_is_believed_also_of_an_object_whose_version_was_set_back_long_ago():
    told = []
    copy = Copy(lambda before, after: told.append((before, after)))
    copy.put(pod_view(added("p", 1000)["object"]))
    copy.put(pod_view(added("newer", 1300)["object"]))
    copy.replace({("t", "p"): pod_view(added("p", 950)["object"])}, 1200)
    assert {view.name: view.version for view in copy} == {"p": 950, "newer": 1300}


async def test_an_answer_that_comes_late_does_not_revive_what_a_list_no_longer_has():
    copy = Copy(lambda before, after: None)
    copy.put(pod_view(added("p", 10)["object"]))
    copy.replace({}, 20)
    copy.put(pod_view(added("p", 10)["object"]))
    assert len(copy) == 0
