"""Keeps the Hub's view of its pods alive when the cluster's API was away for a while.

KubeSpawner watches pods and events with one reflector each for all servers. A reflector gives up after some 50
seconds without the API, or at once when its first list fails, and nothing replaces it: from then on each new server
times out and its pod is left behind, and servers that ended look alive.

Rules
-----
1. A reflector is replaced when its first list failed, or when nothing watches any more.
2. The old one is asked until the new one has listed everything: in between, no running server is forgotten.
3. Whoever asks meanwhile waits for the same attempt and gets its outcome, and so does who asks right after a failure:
   hundreds of servers are polled, and an API that comes back should not be met by all of them.
"""

import asyncio
from collections.abc import Callable, Hashable, MutableMapping
from typing import Any, Protocol


class Reflector(Protocol):
    """What is needed of KubeSpawner's."""

    first_load_future: "asyncio.Future[None]"
    watch_task: "asyncio.Task[None] | None"

    async def start(self) -> None:
        """List everything, then watch."""

    async def stop(self) -> None:
        """Watch no more."""


class Replacements:
    """The attempts that are under way, by the key of the reflector."""

    def __init__(self, pause: float = 1.0) -> None:
        """`pause` is the time after a failure, in seconds, in which it is not tried again."""
        self._pause = pause
        self._attempts: dict[Hashable, asyncio.Task[Any]] = {}
        self._failures: dict[Hashable, tuple[float, BaseException]] = {}

    async def ensure(
        self, reflectors: MutableMapping[Hashable, Any], key: Hashable, make: Callable[[], Reflector], *, anew: bool
    ) -> Any:
        """The living reflector of this key, put into `reflectors` when there was none, or when `anew` asks for one.

        Raises what listing raised; then what was there before is still there.
        """
        current = reflectors.get(key)
        if current is not None and not anew and is_alive(current):
            return current
        failed_at, failure = self._failures.get(key, (0.0, None))
        if failure is not None and 0 <= asyncio.get_running_loop().time() - failed_at < self._pause:
            raise failure.with_traceback(None)
        attempt = self._attempts.get(key)
        if attempt is None or attempt.get_loop() is not asyncio.get_running_loop():
            attempt = self._attempts[key] = asyncio.create_task(_replace(reflectors, key, make))
            attempt.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(attempt)  # one spawn that is cancelled takes nothing from the others

    def _forget(self, key: Hashable, attempt: "asyncio.Task[Any]") -> None:
        if self._attempts.get(key) is attempt:
            del self._attempts[key]
        failure = None if attempt.cancelled() else attempt.exception()
        if failure is None:
            self._failures.pop(key, None)
        else:
            self._failures[key] = (attempt.get_loop().time(), failure)


def is_alive(reflector: Reflector) -> bool:
    """It has listed everything and goes on watching."""
    loaded = reflector.first_load_future
    if not loaded.done() or loaded.cancelled() or loaded.exception() is not None:
        return False
    return reflector.watch_task is not None and not reflector.watch_task.done()


async def _replace(
    reflectors: MutableMapping[Hashable, Any], key: Hashable, make: Callable[[], Reflector]
) -> Reflector:
    fresh = make()
    try:
        await fresh.start()
    except Exception:
        if fresh.first_load_future.done():
            fresh.first_load_future.exception()  # nobody else has seen this reflector: it is told by what is raised
        raise
    old, reflectors[key] = reflectors.get(key), fresh
    if old is not None:
        await old.stop()
    return fresh
