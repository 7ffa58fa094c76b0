"""The replacement of KubeSpawner's reflectors after an outage of the cluster's API.

KubeSpawner watches pods and events with one reflector each for all servers. A reflector gives up after some 50 seconds
without the API, or at once if its first list fails, and nothing replaces it. From then on each new server times out and
leaves its pod behind, and ended servers look alive.

Rules
-----
- Replace dead ones: a reflector is replaced if its first list failed or its watch has ended.
- No gap: the old reflector is used until the new one has listed everything, so that no running server is forgotten.
- One attempt: concurrent callers wait for the same attempt and get its outcome, and so do callers right after a
  failure. Hundreds of servers are polled, and their requests should not hit a recovering API all at once.
"""

import asyncio
from collections.abc import Callable, Hashable, MutableMapping
from typing import Protocol

from jupyter_gq.hub.clock import monotonic


class HubReflector(Protocol):
    """The part of KubeSpawner's reflectors that this module uses."""

    first_load_future: "asyncio.Future[None]"
    watch_task: "asyncio.Task[None] | None"

    async def start(self) -> None:
        """List all objects, then watch them in the background; raise an error if the list fails."""

    async def stop(self) -> None:
        """Stop watching."""


class ReflectorReplacements:
    """The present attempts to replace reflectors, by the key of the reflector."""

    def __init__(self, pause: float = 1.0) -> None:
        """Begin without attempts; after a failed attempt, no new one is made for `pause` seconds."""
        self._pause = pause
        self._attempts: dict[Hashable, asyncio.Task[HubReflector]] = {}
        self._failures: dict[Hashable, tuple[float, BaseException]] = {}

    async def ensure_alive(
        self,
        reflectors: MutableMapping[Hashable, HubReflector],
        key: Hashable,
        make: Callable[[], HubReflector],
        *,
        replace: bool,
    ) -> HubReflector:
        """Return the live reflector of this key; start a new one if there is none alive or if `replace` is set.

        The new reflector is put into `reflectors`. If its first list fails, that error is raised and `reflectors` stays
        as it was; soon after such a failure the same error is raised without a new attempt.
        """
        current = reflectors.get(key)
        if current is not None and not replace and is_alive(current):
            return current
        failed_at, failure = self._failures.get(key, (0.0, None))
        if failure is not None and 0 <= monotonic() - failed_at < self._pause:
            raise failure.with_traceback(None)
        attempt = self._attempts.get(key)
        if attempt is None or attempt.get_loop() is not asyncio.get_running_loop():
            attempt = self._attempts[key] = asyncio.create_task(_replace(reflectors, key, make))
            attempt.add_done_callback(lambda done: self._forget(key, done))
        return await asyncio.shield(attempt)  # the cancellation of one spawn must not affect the others

    def _forget(self, key: Hashable, attempt: "asyncio.Task[HubReflector]") -> None:
        """Remove a finished attempt; remember its error and the time if it failed, else delete an earlier error."""
        if self._attempts.get(key) is attempt:
            del self._attempts[key]
        failure = None if attempt.cancelled() else attempt.exception()
        if failure is None:
            self._failures.pop(key, None)
        else:
            self._failures[key] = (monotonic(), failure)


def is_alive(reflector: HubReflector) -> bool:
    """Return whether the reflector has listed everything and still watches."""
    loaded = reflector.first_load_future
    if not loaded.done() or loaded.cancelled() or loaded.exception() is not None:
        return False
    return reflector.watch_task is not None and not reflector.watch_task.done()


async def _replace(
    reflectors: MutableMapping[Hashable, HubReflector], key: Hashable, make: Callable[[], HubReflector]
) -> HubReflector:
    """Start a new reflector, put it into `reflectors`, stop the old one, and return the new one.

    If the new one cannot list its objects, raise that error and keep the old one.
    """
    fresh = make()
    try:
        await fresh.start()
    except Exception:
        if fresh.first_load_future.done():
            fresh.first_load_future.exception()  # retrieved, so that asyncio does not log it; the error is raised below
        raise
    old, reflectors[key] = reflectors.get(key), fresh
    if old is not None:
        await old.stop()
    return fresh
