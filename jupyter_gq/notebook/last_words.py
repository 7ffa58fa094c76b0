"""The last words of a job's kernel, kept in memory that its death does not take.

ipykernel sends what is printed five times a second, and a thread of the kernel reads what programs and libraries print
past it. Without more, the message with which a library aborts, and the last line before a crash, would be lost with the
kernel. So the kernel keeps the end of what it prints in memory of the runner, says with each message how far that
message goes, and names the pipes that its threads read. The runner looks there once the kernel is dead.

Linux only; a kernel that did not get the memory keeps nothing. Standard library only. See
docs/decisions/0345-keep-the-last-words-of-a-kernel.md.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import sys
import threading
from contextlib import suppress
from functools import partial

from jupyter_gq.domain.last_words import NAME, PRINTED, SIZE, STREAMS, VARIABLE, PrintedText


class Echo:
    """An echo of a stream: ipykernel calls `write` with each text that is printed, and `flush` before it sends."""

    def __init__(self, printed: PrintedText) -> None:
        self._printed, self._pid, self._sent = printed, os.getpid(), 0
        # Threads print at the same time, and a signal handler in the middle of a `print` of its own thread.
        self._lock = threading.RLock()
        #: Whether ipykernel calls `stamp`; older versions do not.
        self._stamps = False

    def write(self, text: str) -> None:
        """Keep a text. A forked process keeps none: its text goes another way, and does not end with the kernel."""
        if os.getpid() == self._pid:
            with suppress(Exception), self._lock:  # an error here would be one of the user's `print`
                self._printed.append(text.encode(errors="replace"))

    def flush(self) -> None:
        """Count what is printed as sent, if no message can say how far it goes."""
        if os.getpid() == self._pid and not self._stamps:
            self._printed.mark_sent()

    def register(self, stream: object) -> None:
        """Let messages of the stream be stamped; call this in the thread that sends them, whose own the hooks are."""
        register_hook = getattr(stream, "register_hook", None)
        if callable(register_hook):
            register_hook(self.stamp)
            self._stamps = True

    def stamp(self, message: dict[str, dict[str, object]]) -> dict[str, dict[str, object]]:
        """Return a message with how far it goes; ipykernel calls this for each message of the stream, in order."""
        self._sent += len(str(message["content"]["text"]).encode(errors="replace"))
        message["metadata"][PRINTED] = self._sent
        return message


def keep_last_words() -> None:
    """Let ipykernel's streams keep what they print, and Python say where it crashes.

    Call this only in the kernel of a job. Nothing is kept if the runner has given no memory. A stream that has an echo
    already is left as it is.
    """
    if not faulthandler.is_enabled():
        with suppress(Exception):  # a kernel may have no standard error
            faulthandler.enable(all_threads=False)
    memory = _open_memory(os.environ.pop(VARIABLE, ""))
    if memory is None:
        return
    for name in STREAMS:
        stream = getattr(sys, name)
        pipe = getattr(stream, "_fid", None)
        if getattr(stream, "echo", memory) is None:
            stream.flush()  # what is printed before is not counted
            printed = PrintedText(memory, name)
            printed.begin(os.getpid(), pipe if isinstance(pipe, int) else -1)
            echo = stream.echo = Echo(printed)
            stream.pub_thread.schedule(partial(echo.register, stream))


def _open_memory(number: str) -> mmap.mmap | None:
    """Return the memory with this number of an open file, and close the file; None if another file has the number."""
    try:
        file = int(number)
        if NAME not in os.readlink(f"/proc/self/fd/{file}"):
            return None
        memory = mmap.mmap(file, SIZE)
        os.close(file)  # the programs that the cells start shall not have it
    except (OSError, ValueError):
        return None
    return memory
