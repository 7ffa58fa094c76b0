"""Pieces are delivered in order, whatever failures the service has."""

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from jupyter_gq.client.problems import PlainProblem, ServiceError, ServiceUnavailable
from jupyter_gq.runner.delivery import uploader as uploader_module
from jupyter_gq.runner.delivery.spool import Spool
from jupyter_gq.runner.delivery.uploader import Uploader

PROBLEM = PlainProblem(code="not_found", message="There is no such job.")


class Takes:
    """A service that accepts the pieces which follow those it has."""

    def __init__(self) -> None:
        self.kept: list[dict[str, Any]] = []
        self.calls = 0

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        self.calls += 1
        for event in events:
            if event["seq"] == len(self.kept) + 1:
                self.kept.append(event)
        return len(self.kept)

    async def heartbeat(
        self, run: int, fraction: float | None = None, text: str | None = None, saved_at: float | None = None
    ) -> None:
        return None


class FailsAtFirst(Takes):
    """A service that is down for some calls; the last of them is carried out, but the answer is lost."""

    def __init__(self, failures: int) -> None:
        super().__init__()
        self.failures = failures

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        if self.calls < self.failures:
            if self.calls == self.failures - 1:
                return await super().send(events) and await self._fail()
            self.calls += 1
            await self._fail()
        return await super().send(events)

    async def _fail(self) -> int:
        raise ServiceUnavailable(503, PROBLEM)


class BehindAProxy(Takes):
    """A service behind a proxy that answers in its place at first."""

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        if self.calls < 3:
            self.calls += 1
            raise ValueError("<html> is no JSON")
        return await super().send(events)


class ForgetsOnce(Takes):
    """A service that is restored from a copy which lacks the last pieces."""

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        if self.calls == 2:
            del self.kept[1:]
        return await super().send(events)


class DoesNotKnow(Takes):
    """A service that has no such job."""

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        raise ServiceError(404, PROBLEM)


class RefusesContent(Takes):
    """A service that refuses each request with a piece that it cannot read."""

    def __init__(self, status: int, code: str = "bad_json") -> None:
        super().__init__()
        self.refusal = ServiceError(status, PlainProblem(code=code, message="This cannot be read."))
        self.unreadable = {7, 700, 701}

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        if any(event.get("n") in self.unreadable for event in events):
            self.calls += 1
            raise self.refusal
        return await super().send(events)


class RefusesEverything(RefusesContent):
    """A service that refuses notices too."""

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        self.calls += 1
        raise self.refusal


class HasAFullDisk(Takes):
    """A service that answers and can store nothing."""

    async def send(self, events: Sequence[dict[str, Any]]) -> int:
        raise ServiceError(507, PlainProblem(code="storage_full", message="The disk is full."))


@pytest.fixture
def empty_spool(tmp_path: Path) -> Iterator[Spool]:
    spool = Spool(tmp_path / "spool")
    yield spool
    spool.close()


@pytest.fixture
def spool(empty_spool: Spool) -> Spool:
    empty_spool.append([{"op": "append", "n": n} for n in range(1200)], run=1, at=0)
    return empty_spool


@pytest.fixture(autouse=True)
def short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploader_module, "FIRST_WAIT", 0.001)
    monkeypatch.setattr(uploader_module, "LONGEST_WAIT", 0.002)


def deliver(spool: Spool, channel: Takes, seconds: float = 5.0, refused: float = 60.0) -> bool:
    async def go() -> bool:
        uploader = Uploader(spool, channel)
        running = asyncio.create_task(uploader.run())
        done = await uploader.wait_until_delivered(seconds, refused)
        running.cancel()
        return done

    return asyncio.run(go())


@pytest.mark.parametrize("channel", [Takes(), FailsAtFirst(5), BehindAProxy(), ForgetsOnce()])
def test_service_gets_every_piece_exactly_once(spool: Spool, channel: Takes) -> None:
    assert deliver(spool, channel)
    assert [piece["n"] for piece in channel.kept] == list(range(1200))


def test_an_unwanted_job_is_not_waited_for(spool: Spool) -> None:
    assert not deliver(spool, DoesNotKnow(), seconds=60)


def test_service_that_answers_with_refusals_is_not_waited_for_long(spool: Spool) -> None:
    assert not deliver(spool, HasAFullDisk(), seconds=60, refused=0.05)


def test_service_that_does_not_answer_is_waited_for(spool: Spool) -> None:
    assert deliver(spool, FailsAtFirst(20), refused=0.0)


def test_wait_ends_at_the_timeout(spool: Spool) -> None:
    assert not deliver(spool, FailsAtFirst(10_000), seconds=0.05)


def test_answer_of_the_service_says_where_to_continue(empty_spool: Spool) -> None:
    channel = Takes()
    channel.kept = [{"seq": n} for n in range(1, 4)]
    stored = []

    async def go() -> None:
        uploader = Uploader(empty_spool, channel)
        await uploader.fetch_stored(1.0)
        stored.append(uploader.stored)

    asyncio.run(go())
    assert stored == [3]
    assert empty_spool.last == 3


@pytest.mark.parametrize(("status", "code"), [(400, "bad_json"), (413, "unexpected_answer"), (422, "invalid_request")])
def test_a_notice_replaces_each_piece_that_the_service_refuses(empty_spool: Spool, status: int, code: str) -> None:
    about = {"op": "replace", "cell": "c", "role": "target", "index": 3}
    empty_spool.append([{**about, "n": n, "output": {"n": n}} for n in range(1200)], run=2, at=5.0)
    channel = RefusesContent(status, code)
    assert deliver(empty_spool, channel)
    assert [piece["seq"] for piece in channel.kept] == list(range(1, 1201))
    replaced = [piece for piece in channel.kept if "n" not in piece]
    assert [piece["seq"] - 1 for piece in replaced] == [7, 700, 701]
    shown = replaced[0].pop("output")
    assert "the scheduler service refused it" in shown["data"]["text/plain"]
    assert replaced[0] == {**about, "seq": 8, "run": 2, "at": 5.0}
    assert channel.calls < 80


def test_a_refused_piece_without_outputs_keeps_what_it_says(empty_spool: Spool) -> None:
    """The outputs of a cell become one notice; the language of a kernel is dropped."""
    ready = {"op": "run", "state": "ready", "language": {"strange": 1}, "n": 7}
    whole = {"op": "set", "cell": "c", "role": "target", "outputs": [{}, {}], "n": 700}
    empty_spool.append([ready, whole], run=1, at=0)
    channel = RefusesContent(400)
    assert deliver(empty_spool, channel)
    assert channel.kept[0] == {"op": "run", "state": "ready", "seq": 1, "run": 1, "at": 0}
    assert len(channel.kept[1]["outputs"]) == 1


@pytest.mark.parametrize(("status", "code"), [(400, "unexpected_answer"), (400, "bad_json")])
def test_no_piece_is_given_up_if_everything_is_refused(spool: Spool, status: int, code: str) -> None:
    """A proxy in front of the service may refuse every request for a while."""
    channel = RefusesEverything(status, code)
    assert not deliver(spool, channel, seconds=0.05)
    assert len(spool.read(0)) == 500
