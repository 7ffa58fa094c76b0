"""The last words of a kernel that died: what it and its programs had printed, and did not arrive here.

See docs/decisions/0345-keep-the-last-words-of-a-kernel.md.
"""

import contextlib
import fcntl
import mmap
import os

from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.domain.last_words import NAME, PRINTED, ROOM, SIZE, STREAMS, PrintedText


class LastWords:
    """Memory in which a kernel keeps what it has not sent, and the kernel's pipes, which this process holds open."""

    def __init__(self) -> None:
        """Make the memory; on a system without such memory there are no last words."""
        #: Number of the open file of the memory, which the kernel inherits; None without memory.
        self.file: int | None = None
        self._memory: mmap.mmap | None = None
        self._printed: dict[str, PrintedText] = {}
        #: How many bytes each stream had printed by the end of the last message that came from it.
        self._received: dict[str, int] = {}
        #: The held pipes, by the name of their stream.
        self._pipes: dict[str, int] = {}
        with contextlib.suppress(OSError, AttributeError):
            self.file = os.memfd_create(NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            os.ftruncate(self.file, SIZE)
            # To read a page that a kernel has cut off would end this process by a signal (SIGBUS).
            fcntl.fcntl(self.file, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL)
            self._memory = mmap.mmap(self.file, SIZE)
            self._printed = {name: PrintedText(self._memory, name) for name in STREAMS}

    def hold_pipes(self, session: int) -> None:
        """Open the pipes of the kernel, which has started in this session, so that they outlive it.

        The kernel itself names the pipes. A pipe of a process outside the session is not opened, whatever it names.
        """
        for name, printed in self._printed.items():
            pid, pipe = printed.pipe
            # A kernel that names no pipe, or that this process may not look into, has none here.
            with contextlib.suppress(OSError, ValueError, OverflowError):
                if name not in self._pipes and (held := _open_pipe(pid, pipe, session)) is not None:
                    self._pipes[name] = held

    def note_message(self, message: JsonMapping) -> None:
        """Record how many bytes a stream had printed by the end of this message; ignore other messages."""
        content, metadata = message.get("content"), message.get("metadata")
        if message.get("msg_type") == "stream" and isinstance(content, dict) and isinstance(metadata, dict):
            printed = metadata.get(PRINTED)
            if isinstance(printed, int):
                self._received[str(content.get("name"))] = printed

    def take(self, longest: int) -> list[tuple[str, str]]:
        """Return the name and the last words of each stream that has some; the kernel must have ended.

        If the beginning of a text is lost, "…" replaces its first `longest` characters: they may be the end of a
        secret, and no secret has more characters. The memory is closed, so a second call returns nothing.
        """
        words = [(name, self._read_words(name, printed, longest)) for name, printed in self._printed.items()]
        self.close()
        return [(name, text) for name, text in words if text]

    def _read_words(self, name: str, printed: PrintedText, longest: int) -> str:
        kept, is_cut = printed.read(self._received.get(name))
        text = (kept + self._read_pipe(name)).decode(errors="replace")
        return f"…{text[longest:]}" if is_cut else text

    def close(self) -> None:
        """Give the memory and the pipes back; a second call does nothing."""
        for pipe in self._pipes.values():
            os.close(pipe)
        self._pipes.clear()
        self._printed.clear()
        if self._memory is not None:
            self._memory.close()
            self._memory = None
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def _read_pipe(self, name: str) -> bytes:
        """Return what is left in the pipe of a stream, without waiting for programs that may still write to it."""
        with contextlib.suppress(KeyError, OSError):
            return os.read(self._pipes[name], ROOM)
        return b""


def _open_pipe(pid: int, number: int, session: int) -> int | None:
    """Open the pipe with this file number of a process; None if it is none, or in another session.

    Raises `OSError` if there is no such process or file, or if this process may not look into it.
    """
    process = os.open(f"/proc/{pid}", os.O_RDONLY | os.O_DIRECTORY)
    try:
        # This folder is that of one process for ever, also if its id is used again.
        with open("stat", opener=lambda path, flags: os.open(path, flags, dir_fd=process)) as stat:
            is_known = int(stat.read().rpartition(")")[2].split()[3]) == session
        if not is_known or not os.readlink(f"fd/{number}", dir_fd=process).startswith("pipe:"):
            return None
        return os.open(f"fd/{number}", os.O_RDONLY | os.O_NONBLOCK, dir_fd=process)
    finally:
        os.close(process)
