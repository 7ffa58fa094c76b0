"""Threads for the files of users, in which no user can take all threads.

See docs/decisions/0338-read-users-files-in-threads-of-their-own.md.
"""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")


class UserThreads:
    """Some threads, of which each user has a few at a time.

    If the files of several users do not answer, all threads may be taken. Then the calls of every user wait. A thread
    is taken until its call ends, also if the caller was cancelled. Each call has a new thread: a pool of Python counts
    a thread that could not be started as one that is free. The process does not end before the calls have ended.
    """

    def __init__(self, name: str, *, most: int, most_of_user: int) -> None:
        """Have at most `most` threads with this name, and at most `most_of_user` of them for one user."""
        self._name, self._most, self._most_of_user = name, most, most_of_user
        #: The turns of each user with a call that waits or runs; those of all users together have the key None.
        self._turns: WeakValueDictionary[str | None, asyncio.Semaphore] = WeakValueDictionary()

    async def run(self, user: str, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a function in one of the threads, and return its result.

        Waits without a time limit until `user` has a turn and a thread is free. Raises what the function raises, but
        `RuntimeError` in place of `StopIteration`, and `RuntimeError` also if the machine has no thread left. If the
        caller is cancelled once it has a thread, the function runs all the same and keeps the turn until its end;
        before that, it is not called.
        """
        turns = (self._find_turns(user, self._most_of_user), self._find_turns(None, self._most))
        with ExitStack() as taken:
            for each in turns:
                await each.acquire()
                taken.callback(each.release)
            outcome: Future[T] = Future()
            work = partial(_set_outcome, outcome, partial(function, *args, **kwargs))
            threading.Thread(target=work, name=self._name).start()
            call, kept = asyncio.wrap_future(outcome), taken.pop_all()
        call.add_done_callback(lambda _: kept.close())
        return await asyncio.shield(call)

    def _find_turns(self, user: str | None, most: int) -> asyncio.Semaphore:
        """Return the turns of a user, which are `most` if no call of the user waits or runs."""
        found = self._turns.get(user)
        if found is None:
            found = self._turns[user] = asyncio.Semaphore(most)
        return found


def _set_outcome(outcome: Future[T], work: Callable[[], T]) -> None:
    """Do the work, and set its result or its error as the outcome."""
    try:
        outcome.set_result(work())
    except StopIteration as error:  # asyncio has no way to give it to who waits
        told = RuntimeError("a call in a thread raised StopIteration")
        told.__cause__ = error
        outcome.set_exception(told)
    except BaseException as error:  # noqa: BLE001 - the caller raises the error
        outcome.set_exception(error)
