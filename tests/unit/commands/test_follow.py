"""Following shows each piece of output once, whenever the service is lost."""

import pytest

from jupyter_gq.client.http import ServiceUnavailable
from jupyter_gq.client.models import JobView, OutputPage, Problem
from jupyter_gq.commands import follow as module
from jupyter_gq.commands.follow import follow

pytestmark = pytest.mark.asyncio


class IsLostBetweenPages:
    """A client of a service that has one piece on each page, and is away once, at the question for the second one."""

    def __init__(self, pieces):
        self.pieces, self.asked = pieces, 0

    async def outputs(self, job, after):
        self.asked += 1
        if self.asked == 2:
            raise ServiceUnavailable(503, Problem(code="standby", message="It starts again."))
        events = [{"seq": number} for number in self.pieces if number > after][:1]
        return OutputPage.model_construct(events=events, finished=not events)

    async def job(self, job):
        return JobView.model_construct(id=job, phase="done")


class Shown:
    """What a person saw."""

    def __init__(self):
        self.pieces = []

    def show_job(self, job):
        pass

    def show_connection(self, available):
        pass

    def show_pieces(self, pieces):
        self.pieces += [piece["seq"] for piece in pieces]


async def test_a_page_that_was_shown_is_not_shown_again(monkeypatch):
    monkeypatch.setattr(module, "INTERVAL", 0.0)
    shown = Shown()
    job = JobView.model_construct(id="job-1", phase="running")
    await follow(IsLostBetweenPages([1, 2, 3]), job, shown)
    assert shown.pieces == [1, 2, 3]
