"""Waiting for what a cluster does by itself."""

import asyncio
import time

#: Seconds. Each wait ends when its condition holds, so on a busy machine a long one costs nothing.
PATIENCE = 120.0


def until(condition, what, seconds=PATIENCE, every=0.05):
    """The first true answer of `condition()`; fails with `what` (a text, or a function that gives one)."""
    deadline = time.monotonic() + seconds  # noqa: TID251 - real processes are waited for
    while True:
        if found := condition():
            return found
        if time.monotonic() > deadline:  # noqa: TID251 - as above
            raise AssertionError(f"not seen within {seconds:g} s: {what() if callable(what) else what}")
        time.sleep(every)


async def eventually(condition, what, seconds=PATIENCE, every=0.05):
    """`until` for a test with a loop: the condition may be a coroutine function."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + seconds
    while True:
        found = condition()
        if asyncio.iscoroutine(found):
            found = await found
        if found:
            return found
        assert loop.time() < deadline, f"not seen within {seconds:g} s: {what() if callable(what) else what}"
        await asyncio.sleep(every)
