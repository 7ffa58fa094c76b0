"""Output that programs and libraries print past a job's kernel: all of it under the cell, and once in the log.

ipykernel replaces the standard output of its process by a pipe, which a thread of its own reads. A cell ends without
waiting for that thread, and what is passed on after its end belongs to no cell of a job any more. The thread also
copies everything into the log, where the runner writes what is shown, and takes from the pipe what it cannot pass on if
the kernel dies in that moment. So a job's kernel has a thread of ours in its place, and ends a cell only once the pipes
are read, or after `LONGEST_WAIT` seconds; what is printed later may be lost.

Some of the names that this module looks at are private to ipykernel. Without them, a kernel stays as it is. Standard
library only.
"""

from __future__ import annotations

import codecs
import ctypes
import os
import select
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TextIO

from . import clock

#: Longest time in seconds that the end of a cell waits. A program that goes on printing behind the cell takes it all.
LONGEST_WAIT = 2.0
#: Seconds between two looks; long enough for the thread to go on.
_LOOK_EVERY = 0.001
#: Seconds that ipykernel's thread may take to end.
_END_TIMEOUT = 10.0
#: Most bytes that are read at once, about as many as ipykernel reads: a program that prints without end is held back.
_PIECE = 1 << 10
#: `poll` of this module's own: the user's code may replace what it finds in the module `select`.
_poll = select.poll


def is_job_kernel() -> bool:
    """Return whether this kernel runs the cells of a job."""
    return "GQ_RUN_DIR" in os.environ


class ProgramReader(threading.Thread):
    """A thread that reads what is printed past a stream of ipykernel, and prints it to that stream.

    ipykernel changes `Thread.run` so that what a thread prints belongs to the cell that started it, which is none here;
    hence the `run` of its own.
    """

    def __init__(self, stream: TextIO, pipe: int) -> None:
        """Prepare to read this pipe."""
        super().__init__(name="jupyter-gq output of programs", daemon=True)
        self._stream, self._pipe = stream, pipe
        self._is_passing_on = False

    @property
    def has_read_all(self) -> bool:
        """Whether all that was printed past the stream so far is passed on; True once the pipe is closed."""
        return not _find_events(self._pipe, 0) & select.POLLIN and not self._is_passing_on

    def run(self) -> None:
        """Pass on what comes until the stream or the pipe is closed."""
        decoder, read = codecs.getincrementaldecoder("utf-8")("replace"), _make_read()
        try:
            while _find_events(self._pipe, None) & select.POLLIN:
                self._is_passing_on = True
                data = read(self._pipe)
                if not data or not getattr(self._stream, "_should_watch", False):
                    break
                with suppress(Exception):  # the user's code may have replaced the method
                    self._stream.write(decoder.decode(data))
                self._is_passing_on = False
        finally:
            self._is_passing_on = False


def take_over(name: str) -> ProgramReader | None:
    """Start a reader in the place of ipykernel's thread for this stream of `sys`; None if ipykernel has no such thread.

    The stream's `close` ends the reader, as it would have ended the thread.
    """
    stream, replaced = getattr(sys, name), getattr(sys, f"__{name}__")
    pipe, thread = getattr(stream, "_fid", None), getattr(stream, "watch_fd_thread", None)
    if not (isinstance(pipe, int) and isinstance(thread, threading.Thread)) or replaced is None:
        return None
    inside = vars(stream)
    inside["_should_watch"] = False
    os.write(replaced.fileno(), b"\0")  # the thread waits for more, and ends
    thread.join(_END_TIMEOUT)
    inside["_should_watch"] = True
    if thread.is_alive():
        return None
    reader = inside["watch_fd_thread"] = ProgramReader(stream, pipe)
    reader.start()
    return reader


class KernelStreams:
    """The standard output and error with which a job's kernel began.

    Code of a cell may put streams of its own in their places, which pass on what is printed. ipykernel then flushes
    the user's streams only, and tells them alone which cell runs: what its own streams show would belong to an earlier
    cell.
    """

    def __init__(self, shell: object) -> None:
        """Take over the output of programs, too."""
        self._shell = shell
        self._streams = (sys.stdout, sys.stderr)
        self._readers = [reader for reader in map(take_over, ("stdout", "stderr")) if reader is not None]

    def begin_cell(self, _cell: object) -> None:
        """Let what is printed from now on belong to the cell that begins."""
        get_parent = getattr(self._shell, "get_parent", None)
        for stream in self._streams:
            set_parent = getattr(stream, "set_parent", None)
            if callable(get_parent) and callable(set_parent):
                set_parent(get_parent())

    def wait_for_output(self, _executed: object) -> None:
        """Wait until all that was printed past the kernel is passed on, for at most `LONGEST_WAIT` seconds.

        Before that, put the kernel's stream back in the place of a user's stream that cannot be flushed. Afterwards,
        flush the kernel's streams that ipykernel does not flush.
        """
        self._replace_broken()
        deadline = clock.monotonic() + LONGEST_WAIT
        while clock.monotonic() < deadline and not all(reader.has_read_all for reader in self._readers):
            time.sleep(_LOOK_EVERY)
        for stream in [each for each in self._streams if each not in (sys.stdout, sys.stderr)]:
            with suppress(OSError, ValueError):  # the user's code closed it
                stream.flush()

    def _replace_broken(self) -> None:
        """Put the kernel's own stream back in the place of one that cannot be flushed, and say so under the cell.

        ipykernel would fail at the stream, and end neither this cell nor any later one.
        """
        for name, own in zip(("stdout", "stderr"), self._streams, strict=True):
            try:
                getattr(sys, name).flush()
            except Exception as error:  # noqa: BLE001 - the user's stream may raise anything
                setattr(sys, name, own)
                told = f"sys.{name} can't be flushed any more ({type(error).__name__}: {error})"
                print(f"{told}. What is printed is shown here again.", file=self._streams[1])


def _find_events(pipe: int, timeout: float | None) -> int:
    """Return what `poll` says of the pipe; 0 if nothing has come within `timeout` milliseconds, None = for ever."""
    poll = _poll()
    poll.register(pipe, select.POLLIN)
    found = poll.poll(timeout)
    return found[0][1] if found else 0


def _make_read() -> Callable[[int], bytes]:
    """Return a function that reads what is in a pipe.

    The function keeps Python's lock meanwhile: what left the pipe is in Python's hands before another thread can end
    the process.
    """
    try:
        buffer, read = ctypes.create_string_buffer(_PIECE), ctypes.PyDLL(None).read
    except (AttributeError, OSError):
        return lambda pipe: os.read(pipe, _PIECE)

    def read_locked(pipe: int) -> bytes:
        count = read(pipe, buffer, _PIECE)
        return ctypes.string_at(buffer, max(0, count))

    return read_locked
