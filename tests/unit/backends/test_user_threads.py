"""Threads for the files of users: each user has some turns, and gets each of them back."""

import asyncio
import threading

import pytest

from jupyter_gq.backends.user_threads import UserThreads
from tests.patience import eventually, scaled

pytestmark = pytest.mark.asyncio


async def test_a_machine_without_a_free_thread_takes_no_turn_from_the_user(monkeypatch):
    threads, begun, go_on = UserThreads("test", most=2, most_of_user=2), threading.Event(), threading.Event()

    def wait():
        begun.set()
        go_on.wait()

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    ran: list[str] = []
    slow = asyncio.create_task(threads.run("ann", wait))
    try:
        await eventually(begun.is_set)
        with monkeypatch.context() as machine:
            machine.setattr("threading.Thread.start", refuse)
            with pytest.raises(RuntimeError, match="new thread"):
                await threads.run("ann", ran.append, "refused")
        async with asyncio.timeout(scaled(10)):
            assert await threads.run("ann", int, "2") == 2
    finally:
        go_on.set()
        await slow
    assert await threads.run("ann", len, ran) == 0, "what was refused does not run later"


async def test_a_call_that_raises_stop_iteration_gives_its_turn_back():
    threads = UserThreads("test", most=1, most_of_user=1)
    async with asyncio.timeout(scaled(10)):
        with pytest.raises(RuntimeError, match="raised StopIteration"):
            await threads.run("ann", next, iter(()))
        assert await threads.run("ann", int, "2") == 2


async def test_a_refusal_leaves_all_threads_to_the_users(monkeypatch):
    threads, all_begun, go_on = UserThreads("test", most=2, most_of_user=2), threading.Barrier(3), threading.Event()

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    def wait():
        all_begun.wait(scaled(30))
        go_on.wait()

    first = threading.Event()
    running = asyncio.create_task(threads.run("ann", first.wait))
    await asyncio.sleep(0)
    with monkeypatch.context() as machine:
        machine.setattr("threading.Thread.start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await threads.run("bob", int)
    first.set()
    await running
    both = [asyncio.create_task(threads.run(user, wait)) for user in ("ann", "bob")]
    try:
        await asyncio.to_thread(all_begun.wait, scaled(30))
    finally:
        go_on.set()
        await asyncio.gather(*both, return_exceptions=True)


async def test_no_more_threads_than_agreed_run_at_a_time():
    threads, go_on, begun = UserThreads("test", most=2, most_of_user=2), threading.Event(), []

    def wait(user):
        begun.append(user)
        go_on.wait()

    calls = [asyncio.create_task(threads.run(user, wait, user)) for user in ("ann", "ann", "ann", "bob")]
    await eventually(lambda: len(begun) == 2)
    calls[2].cancel()
    await asyncio.gather(calls[2], return_exceptions=True)
    assert begun == ["ann", "ann"]
    go_on.set()
    await asyncio.gather(*calls, return_exceptions=True)
    assert begun == ["ann", "ann", "bob"], "what was cancelled before it had a thread is not called"
