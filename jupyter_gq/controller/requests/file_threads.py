"""Threads in which requests read files, apart from those of the service's own work.

Rules
-----
Apart: `asyncio.to_thread` shares a few threads with the loop of the service, which asks the database in one before each
step. Files that do not answer never take one of these.

In turns: one user has at most `MOST_OF_USER` of the `MOST` threads at a time; see `backends.user_threads`.

Large contents apart: a place outside the database that answers slowly holds up no files. What people read from there
    has threads of its own, so that it holds up no job that is sent or starts.

Fewer than connections: the calls may ask the database, and its connections suffice for all of these threads together.

See docs/decisions/0338-read-users-files-in-threads-of-their-own.md
and docs/decisions/0425-read-what-is-outside-the-database-in-threads-of-its-own.md.
"""

from collections.abc import Callable
from typing import ParamSpec, TypeVar

from jupyter_gq.backends.user_threads import UserThreads

P = ParamSpec("P")
T = TypeVar("T")

#: Number of threads for the requests of all users, and the most of them that one user has at a time.
MOST, MOST_OF_USER = 8, 2
#: Number of threads for large contents outside the database: for jobs, and for people who read them.
_MOST_CONTENTS = _MOST_READ = 4

_threads = UserThreads("files for requests", most=MOST, most_of_user=MOST_OF_USER)
_content_threads = UserThreads("large contents for requests", most=_MOST_CONTENTS, most_of_user=MOST_OF_USER)
_read_threads = UserThreads("large results for requests", most=_MOST_READ, most_of_user=MOST_OF_USER)
#: Runs a function that reads files of a user in one of these threads, and returns its result.
run_in_file_thread = _threads.run
#: Runs a function that stores or fetches large contents of a user or a job in another of these threads.
run_in_content_thread = _content_threads.run


async def run_where_it_is_kept(
    user: str, is_outside: Callable[[], bool], read: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    """Call a function that reads a content for a user, apart from other files if `is_outside` returns True.

    `is_outside` tells whether the content is outside the database, and is called with the other files.
    """
    run = _read_threads.run if await run_in_file_thread(user, is_outside) else run_in_file_thread
    return await run(user, read, *args, **kwargs)
