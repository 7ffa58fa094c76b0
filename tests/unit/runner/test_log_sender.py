"""The log of a pod reaches every service: in parts, or as its end where parts are not known."""

from dataclasses import dataclass, field

import pytest

from jupyter_gq.runner.pod import log_sender
from jupyter_gq.runner.pod.log_sender import LogSender
from jupyter_gq.runner.pod.service import RequestRefused, ServiceUnreachable
from jupyter_gq.runner.pod.unsent_log import UnsentLog


@dataclass
class PrintedLog:
    """What a pod has printed."""

    unsent: UnsentLog = field(default_factory=UnsentLog)
    size: int = 0
    kept: bytes = b""

    def say(self, text: bytes) -> None:
        self.unsent.add(text)
        self.size += len(text)
        self.kept += text

    def text(self) -> bytes:
        return self.kept


@dataclass
class LogService:
    """A service that keeps logs."""

    content: bytes = b""
    ends: list[bytes] = field(default_factory=list)
    requests: int = 0

    def append_log(self, token: str, start: int, text: bytes, timeout: float) -> None:
        self.requests += 1
        self.content = self.content[:start] + text

    def put_log(self, token: str, text: bytes, timeout: float) -> None:
        self.ends.append(text)


class KnowsNoParts(LogService):
    """A service of an earlier release."""

    def append_log(self, token: str, start: int, text: bytes, timeout: float) -> None:
        self.requests += 1
        raise RequestRefused(422, "There is no query parameter 'start' at jobs/{job}/log; leave it out.")


class IsAway(LogService):
    """A service that does not answer while `away`."""

    away = True

    def append_log(self, token: str, start: int, text: bytes, timeout: float) -> None:
        super().append_log(token, start, b"" if self.away else text, timeout)
        if self.away:
            raise ServiceUnreachable("no answer")


@pytest.fixture
def now(monkeypatch):
    times = [1000.0]
    monkeypatch.setattr(log_sender, "monotonic", lambda: times[0])
    return times


def a_sender(service):
    printed = PrintedLog()
    return LogSender(service=service, token="t", tail=printed), printed


def test_a_slow_log_is_sent_every_half_minute_and_a_fast_one_at_once(now):
    service = LogService()
    sender, printed = a_sender(service)
    printed.say(b"one\n")
    sender.send_if_due()
    printed.say(b"two\n")
    sender.send_if_due()
    assert service.content == b"one\n"
    now[0] += 30
    sender.send_if_due()
    assert service.content == b"one\ntwo\n"
    printed.say(b"x" * 200_000)
    sender.send_if_due()
    assert (len(service.content), service.requests) == (200_008, 6)
    now[0] += 30
    sender.send_if_due()
    assert service.requests == 6, "nothing was printed"


def test_an_earlier_service_gets_the_end(now):
    service = KnowsNoParts()
    sender, printed = a_sender(service)
    printed.say(b"one\n")
    sender.send_if_due()
    now[0] += 30
    sender.send_if_due()
    printed.say(b"two\n")
    assert sender.send_last(now[0] + 5)
    assert (service.ends, service.requests) == ([b"one\n", b"one\ntwo\n"], 1)


def test_what_could_not_be_sent_is_sent_later(now):
    service = IsAway()
    sender, printed = a_sender(service)
    printed.say(b"x" * 100_000)
    sender.send_if_due()
    sender.send_if_due()
    assert service.requests == 1, "a failure is not repeated at once"
    assert not sender.send_last(now[0] + 5)
    service.away = False
    now[0] += 30
    sender.send_if_due()
    assert service.content == b"x" * 100_000
    assert sender.send_last(now[0] + 5)
