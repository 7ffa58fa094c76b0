"""A signal that wakes all coroutines that wait for it, and a callback whose target is set later."""

import asyncio
from collections.abc import Callable


class Signal:
    """A signal that can be fired any number of times; it wakes only the coroutines that wait at that moment."""

    def __init__(self) -> None:
        self._waiting: set[asyncio.Future[None]] = set()

    def fire(self) -> None:
        """Wake all coroutines that wait now."""
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_result(None)

    async def wait(self, seconds: float) -> None:
        """Wait until the signal is fired, or until `seconds` have passed; both look the same to the caller."""
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(waiter)
        try:
            await asyncio.wait({waiter}, timeout=seconds)
        finally:
            self._waiting.discard(waiter)


class LateCallback:
    """A callback whose target is set later; calls before that do nothing."""

    target: Callable[[], None] | None = None

    def __call__(self) -> None:
        if self.target is not None:
            self.target()
