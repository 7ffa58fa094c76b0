"""Threads for the files of users, in which no user can take all threads.

See docs/decisions/0338-read-users-files-in-threads-of-their-own.md.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")


class UserThreads:
    """Some threads, of which each user has a few at a time.

    If the files of several users do not answer, all threads may be taken. Then the calls of every user wait. A thread
    is taken until its call ends, also if the caller was cancelled.
    """

    def __init__(self, name: str, *, most: int, most_of_user: int) -> None:
        """Have at most `most` threads with this name, and at most `most_of_user` of them for one user."""
        self._most_of_user = most_of_user
        self._threads = ThreadPoolExecutor(most, thread_name_prefix=name)
        #: The turns of each user with a call that waits or runs.
        self._turns: WeakValueDictionary[str, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, user: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in one of the threads, and return its result.

        Waits without a time limit until `user` has a turn and a thread is free. Raises what the function raises, and
        `RuntimeError` if the machine has no thread left. If the caller is cancelled once it has a turn, the function
        runs all the same and keeps the turn until its end; before that, it is not called.
        """
        turn = self._turns.get(user)
        if turn is None:
            turn = self._turns[user] = asyncio.Semaphore(self._most_of_user)
        await turn.acquire()
        is_refused = False

        def work() -> T:
            if is_refused:
                raise asyncio.CancelledError
            return function(*args, **kwargs)

        try:
            call = asyncio.get_running_loop().run_in_executor(self._threads, work)
        except BaseException:  # the machine has no thread left; the work stays in the queue of those that there are
            is_refused = True
            turn.release()
            raise
        call.add_done_callback(lambda _: turn.release())
        return await asyncio.shield(call)
