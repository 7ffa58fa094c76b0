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
