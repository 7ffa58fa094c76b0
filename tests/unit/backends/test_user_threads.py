"""Threads for the files of users: each user has some turns, and gets each of them back."""

import asyncio

import pytest

from jupyter_gq.backends.user_threads import UserThreads
from tests.patience import scaled

pytestmark = pytest.mark.asyncio


async def test_a_machine_without_a_free_thread_takes_no_turn_from_the_user(monkeypatch):
    threads = UserThreads("test", most=2, most_of_user=1)

    def refuse(_thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as machine:
        machine.setattr("threading.Thread.start", refuse)
        with pytest.raises(RuntimeError, match="new thread"):
            await threads.run("ann", int, "1")
    async with asyncio.timeout(scaled(10)):
        assert await threads.run("ann", int, "2") == 2
