"""The limits on connections, and the limit of this process on open files."""

import contextlib
import resource
import sys
from dataclasses import dataclass

#: The limits of open files, soft and hard, with which this process was started.
_AT_START = resource.getrlimit(resource.RLIMIT_NOFILE)


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionLimits:
    """The limits on the connections of one server. Times are in seconds."""

    #: The maximum number of open connections.
    connections: int = 4096
    #: The maximum number of connections of one peer that carry no authorised request.
    anonymous_per_peer: int = 512
    #: The maximum number of requests of one user at one time; streams are not counted.
    requests_per_user: int = 64
    #: Time in which the whole head of a request has to come, from the opening or from the last answer on.
    idle_timeout: float = 75.0
    #: Time in which the body of a request has to come.
    body_timeout: float = 120.0
    #: Time in which a client that has something to read has to read some of it.
    write_timeout: float = 30.0


@dataclass(frozen=True, kw_only=True, slots=True)
class ConnectionCounts:
    """The number of connections of one server, and what became of others since its start."""

    #: Open connections.
    connections: int = 0
    #: Open connections that carry an authorised request, streams not counted.
    requests: int = 0
    #: Open connections that carry a stream.
    streams: int = 0
    #: Connections that were closed to make room for others.
    evicted: int = 0
    #: Connections that were closed because the client did not read.
    stalled: int = 0
    #: Requests that were refused with 429, because their user or queue has reached a limit.
    refused: int = 0
    #: How often the server has stopped accepting connections for a while.
    pauses: int = 0


def raise_file_limit() -> int:
    """Raise the soft limit of open files of this process as far as possible; return how many files may be open."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # some kernels refuse an unlimited number
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return sys.maxsize if soft == resource.RLIM_INFINITY else soft


def restore_file_limit(pid: int) -> None:
    """Give a child process the limits of open files with which this process was started.

    Programs that use `select`, or that close every possible file, cannot work with the raised limit. Does nothing if
    the child has ended.
    """
    with contextlib.suppress(OSError):
        resource.prlimit(pid, resource.RLIMIT_NOFILE, _AT_START)


def most_connections(wanted: int, files: int, reserve: int) -> int:
    """Return how many of `wanted` connections fit into `files` open files, with `reserve` of these for other purposes.

    At most half of the files are kept for other purposes.
    """
    return min(wanted, max(files - reserve, files // 2))
