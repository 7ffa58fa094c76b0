"""Processes known by an entry of their environment, whatever process group, session or parent they have.

It needs the standard library only: it also runs after the test session is gone.
"""

import contextlib
import os
import signal


def marked(entry: str) -> list[int]:
    """Processes that were started with this entry, `NAME=value`."""
    wanted, found = entry.encode(), []
    for name in os.listdir("/proc"):
        if name.isdigit():
            with contextlib.suppress(OSError), open(f"/proc/{name}/environ", "rb") as environment:
                if wanted in environment.read().split(b"\0"):
                    found.append(int(name))
    return found


def end_marked(entry: str) -> None:
    """Kill them, and those that they start meanwhile; those of other users stay."""
    refused: set[int] = set()
    while left := [pid for pid in marked(entry) if pid not in refused]:
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            except PermissionError:
                refused.add(pid)
