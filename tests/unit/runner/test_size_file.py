"""What the code of a pod reads of the number of tasks, while the service answers or does not."""

import pytest

from jupyter_gq.runner.pod import size_file
from jupyter_gq.runner.pod.service import ServiceUnreachable
from jupyter_gq.runner.pod.size_file import SizeFile


class Answers:
    """Answers in turn; None: the service cannot be reached."""

    def __init__(self, *answers):
        self.left = list(answers)

    def fetch_size(self, token, timeout):
        answer = self.left.pop(0)
        if answer is None:
            raise ServiceUnreachable("nobody answers")
        return answer


@pytest.fixture
def times(monkeypatch):
    """The time on the clock, to be moved."""
    times = [100.0]
    monkeypatch.setattr(size_file, "monotonic", lambda: times[0])
    return times


@pytest.fixture
def asked(tmp_path, times):
    def make(*answers):
        service = Answers(*answers)
        return SizeFile(service=service, token="t", path=tmp_path / "size.json"), service

    return make


def test_the_size_is_asked_for_every_three_seconds_and_a_failure_keeps_the_old_one(asked, times, tmp_path):
    size, service = asked(b"3", None, b"2")
    for moved, expected, left in ((0, b"3", 2), (2.9, b"3", 2), (0.2, b"3", 1), (2.9, b"3", 1), (0.2, b"2", 0)):
        times[0] += moved
        size.poll(is_stopped=False)
        assert (tmp_path / "size.json").read_bytes() == expected
        assert len(service.left) == left


def test_a_task_that_is_told_to_stop_reads_the_size_at_once_and_until_it_is_told(asked, times, tmp_path):
    size, service = asked(b"3", None, b"2", b"9")
    size.poll(is_stopped=False)
    size.poll(is_stopped=True)
    assert len(service.left) == 2, "asked at once, in vain"
    size.poll(is_stopped=True)
    assert len(service.left) == 2, "not without a pause"
    times[0] += 3
    size.poll(is_stopped=True)
    times[0] += 3
    size.poll(is_stopped=True)
    assert (tmp_path / "size.json").read_bytes() == b"2"
    assert service.left == [b"9"], "never again"
