"""The spool: output pieces on disk, numbered over all runs of a job, kept until the service has them.

Rules
-----
- Write before send: a piece is sent only after it is written to the spool with its number. While the disk is full,
  pieces wait in memory. They are read from there only where the next run need not know their numbers from this machine.
- No number twice: the service takes a second piece with a number as a double. So a run gets the last number that the
  service has with its start, and does not depend on an answer; see
  docs/decisions/0259-give-each-run-its-first-number-at-its-start.md.
- No gaps: a line that the end of a process cut short was never sent, and its number is used again.
- Earlier runs first: pieces of earlier runs that the service lacks are delivered before new ones.
- Safe trimming: a piece leaves the spool only if the service has it and the saved notebook, read back, contains it.
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.runner.problems import is_disk_full

Piece = JsonObject

#: Size in bytes from which a fully delivered spool is trimmed.
LARGE_SPOOL = 8 * 1024 * 1024


class Spool:
    """The pieces of a job that are stored on this machine."""

    def __init__(self, file: Path, earlier: Iterable[Path] = ()) -> None:
        self._path = file
        self._earlier = list(earlier)
        self._remove_cut_lines()
        #: Number of the last piece written.
        self.last = max((_number_of(piece) for piece, _, _ in self._read_from((0, 0))), default=0)
        self._file = file.open("ab", buffering=0)
        #: Position after the last `read`, as (file, byte): a long spool is read only once.
        self._place: tuple[int, int] = (0, 0)
        self._last_read = 0
        #: The last pieces, as lines, which wait in memory for room on the disk.
        self._waiting: list[bytes] = []

    def continue_after(self, stored: int) -> None:
        """Continue the numbering after `stored` if that is higher.

        The service may have pieces that this machine has lost.
        """
        self.last = max(self.last, stored)

    def append(self, events: Iterable[Piece], *, run: int, at: float) -> None:
        """Write these pieces with number, run and time, or keep them in memory while the disk is full.

        Raises `OSError` if the disk does not take them for another reason, or if the file was deleted; the pieces have
        no number then.
        """
        self._require_file()
        waiting, last = list(self._waiting), self.last
        for event in events:
            self.last += 1
            piece = {"seq": self.last, "run": run, "at": at, **event}
            # In UTF-8, a piece is no longer than the bounds of outputs say.
            self._waiting.append(json.dumps(piece, ensure_ascii=False).encode("utf-8", "replace") + b"\n")
        try:
            self.write_waiting()
        except OSError:
            self._waiting, self.last = waiting, last
            raise

    @property
    def last_written(self) -> int:
        """Number of the last piece that does not wait in memory for room on the disk."""
        return self.last - len(self._waiting)

    @property
    def waiting_size(self) -> int:
        """The size in bytes of the pieces that wait in memory for room on the disk."""
        return sum(len(line) for line in self._waiting)

    def write_waiting(self) -> None:
        """Write the pieces that wait in memory, if the disk has room again; raise `OSError` for any other error."""
        if not self._waiting:
            return
        try:
            self._write(b"".join(self._waiting))
        except OSError as error:
            if not is_disk_full(error):
                raise
        else:
            self._waiting = []

    def read(
        self, after: int, pieces: int = 500, size: int = 4 * 1024 * 1024, *, with_waiting: bool = False
    ) -> list[Piece]:
        """Return written pieces with numbers above `after`, oldest first: at most `pieces` of them.

        The piece that reaches `size` bytes is the last one. With `with_waiting`, once all written pieces are returned,
        the pieces that wait in memory follow, however many they are. Returns an empty list if there are none.
        """
        if after != self._last_read:
            self._place = (0, 0)
        found: list[Piece] = []
        taken = 0
        for piece, length, place in self._read_from(self._place):
            self._place = place
            if piece.get("seq", 0) <= after:
                continue
            found.append(piece)
            taken += length
            if len(found) == pieces or taken >= size:
                break
        else:
            # Waiting pieces have no place yet; once they are written, they are skipped there by their numbers.
            seen = found[-1]["seq"] if found else after
            found += [piece for piece in self._waiting_pieces() if with_waiting and piece["seq"] > seen]
        self._last_read = found[-1]["seq"] if found else after
        return found

    def _waiting_pieces(self) -> Iterator[Piece]:
        return (json.loads(line) for line in self._waiting)

    def pieces_after(self, seq: int) -> Iterator[Piece]:
        """Return an iterator over all stored pieces after the number `seq`, oldest first."""
        written = (piece for piece, _, _ in self._read_from((0, 0)))
        return (piece for piece in chain(written, self._waiting_pieces()) if piece.get("seq", 0) > seq)

    @property
    def is_large(self) -> bool:
        """Whether the spool is so large that it should be trimmed when it may be; not while pieces wait for room."""
        return not self._waiting and self._file.tell() >= LARGE_SPOOL

    def trim(self) -> None:
        """Empty the spool; the numbering goes on. Only call this if "safe trimming" holds for all of its pieces."""
        self._file.truncate(0)
        self._write(json.dumps({"last": self.last}).encode() + b"\n")
        self._place, self._last_read = (len(self._earlier), self._file.tell()), self.last

    def close(self) -> None:
        """Close the file of the spool."""
        self._file.close()

    def _files(self) -> list[Path]:
        return [*self._earlier, self._path]

    def _read_from(self, place: tuple[int, int]) -> Iterator[tuple[Piece, int, tuple[int, int]]]:
        """Yield the stored pieces from a position on, each with its length in bytes and the position after it.

        A position is the index of a file, earlier runs first, and a byte in it.
        """
        first, offset = place
        for index, path in enumerate(self._files()):
            if index < first:
                continue
            for line, end in _lines(path, offset):
                yield json.loads(line), len(line), (index, end)
            offset = 0

    def _require_file(self) -> None:
        """Raise `FileNotFoundError` if the file was deleted: what is written to it would be lost."""
        if os.fstat(self._file.fileno()).st_nlink == 0:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(self._path))

    def _write(self, content: bytes) -> None:
        """Write all of `content`; if the disk does not take it, remove the written part and raise `OSError`."""
        start = self._file.seek(0, os.SEEK_END)
        written = 0
        try:
            while written < len(content):
                written += self._file.write(content[written:]) or 0
        except OSError:
            if written:
                self._file.truncate(start)
            raise

    def _remove_cut_lines(self) -> None:
        """Remove from each file a last line that the end of a process cut short (see "no gaps")."""
        for path in self._files():
            if not path.is_file():
                continue
            content = path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                with path.open("r+b") as file:
                    file.truncate(whole)


def _lines(path: Path, offset: int) -> Iterator[tuple[bytes, int]]:
    """Yield the whole lines of a file from this byte on, each with the position after it.

    A missing file has none; a last line without its end is left out.
    """
    if not path.is_file():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield line, offset


def _number_of(piece: Piece) -> int:
    """Return the number of a piece, or the last number that a trimmed spool remembers."""
    return int(piece["seq"] if "seq" in piece else piece["last"])
