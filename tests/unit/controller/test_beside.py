"""The work beside the loop goes on after any failure, and the health says what fails."""

import asyncio

import pytest

from jupyter_gq.controller.loop.beside import run_every
from jupyter_gq.controller.loop.name_check import NameCheck
from jupyter_gq.domain.errors import StoreUnavailable
from tests.patience import eventually

from .world import World

pytestmark = pytest.mark.asyncio


class FailsAtFirst:
    """Work that raises these errors, one at each attempt, and then succeeds."""

    def __init__(self, *errors: Exception) -> None:
        self.errors, self.done = list(errors), asyncio.Event()
        self.failures: dict[str, str] = {}
        self.seen: list[dict[str, str]] = []

    async def work(self) -> None:
        self.seen.append(dict(self.failures))
        if self.errors:
            raise self.errors.pop(0)
        self.done.set()

    async def run(self) -> None:
        running = asyncio.create_task(run_every(0, "the work", self.work, self.failures))
        await self.done.wait()
        await asyncio.sleep(0)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def test_a_failure_is_logged_once_in_a_row_and_known_until_the_work_succeeds(caplog):
    fails = FailsAtFirst(ValueError("x"), ValueError("x"), KeyError("y"))
    await fails.run()
    assert fails.seen[:4] == [
        {},
        *({"the work": text} for text in ("ValueError('x')", "ValueError('x')", "KeyError('y')")),
    ]
    assert fails.failures == {}
    assert [record.getMessage() for record in caplog.records] == ["the work failed and is tried again"] * 2


async def test_a_store_that_is_away_is_no_failure_of_the_work():
    fails = FailsAtFirst(StoreUnavailable("sqlite", "it does not answer"))
    await fails.run()
    assert fails.seen[:2] == [{}, {}]


class AnswersNonsense:
    async def groups_by_user(self):
        raise KeyError("users")


async def test_a_check_of_names_that_fails_is_told_by_the_health(world: World):
    context = world.controller._context
    checking = asyncio.create_task(NameCheck(context, AnswersNonsense()).run())

    async def is_told():
        return world.controller.status.check_health().failures == ["the check of names: KeyError('users')"]

    await eventually(is_told, lambda: str(context.failures))
    assert not checking.done()
    checking.cancel()
    await asyncio.gather(checking, return_exceptions=True)


class EndsSlowly:
    """A Hub that never answers, and that takes a while to notice that nobody waits any more."""

    def __init__(self) -> None:
        self.asked, self.ended = asyncio.Event(), False

    async def groups_by_user(self):
        self.asked.set()
        try:
            await asyncio.Event().wait()
        finally:
            for _ in range(9):
                await asyncio.sleep(0)
            self.ended = True


async def test_nothing_is_left_of_the_work_beside_the_loop_once_the_loop_has_ended(world: World):
    hub = EndsSlowly()
    world.controller.names = NameCheck(world.controller._context, hub)
    running = asyncio.create_task(world.controller.run())
    await hub.asked.wait()
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert hub.ended
