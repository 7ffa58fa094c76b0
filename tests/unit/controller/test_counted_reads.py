"""The reads of the store and of measurements that a request costs: as many for a hundred jobs as for one."""

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import sqlalchemy as sa

from jupyter_gq.backends.notifications.notifier import NoticeRule
from jupyter_gq.controller.disk_uses import DiskUse, DiskUses
from jupyter_gq.controller.loop.notices.job_notices import JobNotices
from jupyter_gq.controller.user_totals import describe_users
from jupyter_gq.domain.amount import Instant, MiB, Seconds
from jupyter_gq.domain.errors import LimitReached

from .test_job_notices import Mailbox, run_to_its_end
from .world import ADMIN, ANN, World, story_settings

pytestmark = pytest.mark.asyncio


@contextmanager
def counted(world: World) -> Iterator[list[str]]:
    """The statements that the database gets in the block."""
    statements: list[str] = []

    def note(_connection: object, _cursor: object, statement: str, *_: object) -> None:
        statements.append(statement)

    engine = world.sql._database._engine
    sa.event.listen(engine, "before_cursor_execute", note)
    try:
        yield statements
    finally:
        sa.event.remove(engine, "before_cursor_execute", note)


async def test_a_list_of_jobs_reads_as_often_for_many_jobs_as_for_one(world: World) -> None:
    def read(limit: int) -> int:
        world.restart()
        with counted(world) as statements:
            assert len(world.controller.job_lists.list_jobs(ANN, limit=limit, before=None).jobs) == limit
        return len(statements)

    for _ in range(12):
        world.send(ANN, "vision")
    assert read(12) == read(2)


async def test_a_queue_reads_as_often_for_many_jobs_as_for_one(world: World) -> None:
    def read(limit: int) -> int:
        world.restart()
        with counted(world) as statements:
            world.controller.job_lists.list_queue(ADMIN, "vision", limit=limit, before=None)
        return len(statements)

    for _ in range(12):
        world.send(ANN, "vision")
    assert read(12) == read(2)


class CountsPasses(dict[str, DiskUse]):
    """Measurements that count how often somebody goes through all of them."""

    passes = 0

    def values(self) -> Any:
        self.passes += 1
        return super().values()


async def test_a_description_of_all_users_goes_once_through_the_measurements() -> None:
    uses = DiskUses()
    for number in range(30):
        uses.record(f"job-{number}", DiskUse(owner=f"user-{number % 15}", used=MiB(number), measured_at=Instant(1.0)))
    uses._jobs = jobs = CountsPasses(uses._jobs)
    assert describe_users(uses.of_users(), 0).startswith("user-14 43 MiB, user-13 41 MiB, ")
    assert describe_users(uses.of_users(), 0).endswith(", 5 others with less")
    assert jobs.passes == 2


async def test_what_is_stored_already_can_be_sent_again_by_a_user_at_the_limit(world: World) -> None:
    world.settings.current = story_settings(TrainingQueues={"max_user_files_mib": 1})
    content, more = (base64.b64encode(letter * 700_000).decode() for letter in (b"a", b"b"))
    await world.controller.files.add("ann", [content])
    with counted(world) as statements:
        await world.controller.files.add("ann", [content, content])
    assert not any("sum(" in each.lower() for each in statements), "nothing is added, so nothing is summed up"
    with pytest.raises(LimitReached, match="at most 1 MiB"):
        await world.controller.files.add("ann", [content, more])
    assert world.store.parts_size("ann") == 700_000


class StoreKnowsItsThreads:
    """A store that keeps the names of what was called in the thread of the event loop."""

    def __init__(self, store: Any) -> None:
        self._store, self._loop = store, threading.current_thread()
        self.on_the_loop: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        if threading.current_thread() is self._loop:
            self.on_the_loop.add(name)
        found = getattr(self._store, name)

        def call(*arguments: Any, **named: Any) -> Any:
            if threading.current_thread() is not self._loop:
                self.on_the_loop.discard(name)
            return found(*arguments, **named)

        return call


async def test_notices_read_and_write_the_store_in_a_thread(world: World) -> None:
    mail = Mailbox()
    rule = NoticeRule(notifiers=(mail,), phases=frozenset({"done"}), min_seconds=Seconds(0))
    store = StoreKnowsItsThreads(world.store)
    context = world.controller._context
    sending = JobNotices(context, rule, world.controller.mentions.render)
    context.store = store
    await sending.deliver()
    job = await run_to_its_end(world)
    store.on_the_loop.clear()
    await sending.deliver()
    assert mail.jobs == [job]
    assert store.on_the_loop == set()


async def test_the_executed_notebook_is_made_in_a_thread(world: World) -> None:
    job = world.send(ANN, "vision")
    threads: list[threading.Thread] = []

    def make(*_: str) -> dict[str, Any]:
        threads.append(threading.current_thread())
        return {"cells": []}

    world.bundles.executed_notebook = make
    assert await world.controller.jobs.read_notebook(ANN, job) == {"cells": []}
    assert threading.current_thread() not in threads
