"""The memory in which a job's kernel keeps the end of what it has printed, for the runner to read after its death.

Each stream has a place of its own there: a header, and a ring of the last bytes. Writer and reader are two processes
without a lock, and the writer can end between any two instructions: the reader believes no number.
"""

import struct
from typing import Protocol

#: Variable with the number of the open file of the memory, which the kernel inherits.
VARIABLE = "GQ_LAST_WORDS"
#: Name of the memory, by which the kernel knows that the number is this file's still.
NAME = "jupyter-gq-last-words"
#: Key in the metadata of a message with printed text: how many bytes the stream has printed up to the end of the text.
PRINTED = "jupyter_gq_printed"
#: Names of the streams in the order of their places.
STREAMS = ("stdout", "stderr")
#: Bytes that are kept of each stream.
ROOM = 1 << 16
#: Process id of the kernel; file number, there, of the pipe that a thread of the kernel reads, or -1; how many bytes
#: the stream has printed; how many of them are sent.
_HEADER = struct.Struct("<qqqq")
_NUMBER = struct.Struct("<q")
#: Places of the last two numbers in the header.
_PRINTED, _SENT = 16, 24
_PLACE = _HEADER.size + ROOM
SIZE = len(STREAMS) * _PLACE


class Memory(Protocol):
    """Bytes that can be changed: an `mmap`."""

    def __getitem__(self, key: slice, /) -> bytes | bytearray: ...

    def __setitem__(self, key: slice, value: bytes, /) -> None: ...


class PrintedText:
    """The text that one stream has printed, and how much of it is sent."""

    def __init__(self, memory: Memory, stream: str) -> None:
        """Take the place of `stream`, one of `STREAMS`, in a memory of `SIZE` bytes."""
        self._memory = memory
        self._header = STREAMS.index(stream) * _PLACE
        self._ring = self._header + _HEADER.size
        #: How much this object has added.
        self._printed = 0

    @property
    def pipe(self) -> tuple[int, int]:
        """Process id of the kernel, and the file number of the pipe there; (0, 0) before there is a kernel."""
        return self._read_header()[:2]

    def begin(self, pid: int, pipe: int) -> None:
        """Begin without text, for the kernel with this process id, whose pipe has this file number; -1 for none."""
        self._printed = 0
        self._memory[self._header : self._ring] = _HEADER.pack(pid, pipe, 0, 0)

    def append(self, text: bytes) -> None:
        """Add a text that the stream has printed. Only the last `ROOM` bytes of all texts are kept.

        Only one thread may call this at a time.
        """
        kept = text if len(text) <= ROOM else text[-ROOM:]
        start = (self._printed + len(text) - len(kept)) % ROOM
        before_wrap = min(len(kept), ROOM - start)
        self._memory[self._ring + start : self._ring + start + before_wrap] = kept[:before_wrap]
        if before_wrap < len(kept):
            self._memory[self._ring : self._ring + len(kept) - before_wrap] = kept[before_wrap:]
        self._printed += len(text)
        self._write(_PRINTED, self._printed)

    def mark_sent(self) -> None:
        """Count all that is printed as sent."""
        self._write(_SENT, self._printed)

    def read(self, received: int | None = None) -> tuple[bytes, bool]:
        """Return the text after the first `received` bytes, and True if the beginning of that text is lost.

        `received` None = it is not known how much the reader has; then what is marked as sent counts as received.
        """
        _, _, printed, sent = self._read_header()
        missing = max(0, printed - (sent if received is None else received))
        end = printed % ROOM
        ring = bytes(self._memory[self._ring : self._ring + ROOM])
        return (ring[end:] + ring[:end])[ROOM - min(ROOM, missing) :], missing > ROOM

    def _read_header(self) -> tuple[int, int, int, int]:
        pid, pipe, printed, sent = _HEADER.unpack(self._memory[self._header : self._ring])
        return pid, pipe, max(0, printed), sent

    def _write(self, place: int, number: int) -> None:
        self._memory[self._header + place : self._header + place + _NUMBER.size] = _NUMBER.pack(number)
