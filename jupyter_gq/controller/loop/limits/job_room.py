"""The look at the disk of the jobs: whether it has room for a new one.

Apart: a disk that does not answer keeps one thread of its own, and neither the loop nor requests.

See docs/decisions/0399-look-at-the-disk-of-the-jobs-beside-the-loop.md.
"""

import asyncio

from jupyter_gq.backends.user_threads import UserThreads
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.beside import run_every

#: Seconds between two looks, and seconds that the disk has for an answer.
EVERY, ANSWER_WITHIN = 5.0, 5.0


class JobRoom:
    """The repeated look at the disk of the jobs, whose result is `Context.disk_shortage`."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._threads = UserThreads("room for jobs", most=1, most_of_user=1)

    async def run(self) -> None:
        """Look every `EVERY` seconds until cancelled. A disk that does not answer is a failure that health tells."""
        await run_every(EVERY, "looking for room for new jobs", self.look, self._context.failures)

    async def look(self) -> None:
        """Store whether the disk of the jobs is full; raise `TimeoutError` if it does not answer in time."""
        try:
            async with asyncio.timeout(ANSWER_WITHIN):
                self._context.disk_shortage = await self._threads.run("", self._context.bundles.shortage)
        except TimeoutError as error:
            raise TimeoutError(f"The disk of the jobs has not answered within {ANSWER_WITHIN:g} s.") from error
