"""Pieces of output on disk, numbered over all runs of a job, until the service is known to have them.

Rules
-----
1. A piece gets its number when it is written, and is written before it is sent: what the service has, the spool had.
2. Numbers have no gap. A line cut by the end of a process was never sent, and its number is used again.
3. Pieces of earlier runs that the service lacks are delivered first.
4. A spool is emptied only of pieces that the service has and the saved notebook contains.
"""

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

Piece = dict[str, Any]

#: Bytes after which a spool that is fully delivered is emptied.
LARGE = 8 * 1024 * 1024


class Spool:
    """The pieces of a job that are kept on this machine."""

    def __init__(self, file: Path, earlier: Iterable[Path] = ()) -> None:
        self._path = file
        self._earlier = list(earlier)
        self._keep_whole_lines()
        #: Number of the last piece written.
        self.last = max((_number(piece) for piece, _, _ in self._from((0, 0))), default=0)
        self._file = file.open("ab", buffering=0)
        #: Where `read` goes on: (file, byte), so that a long spool is read once.
        self._place: tuple[int, int] = (0, 0)
        self._read_up_to = 0

    def renumber_after(self, stored: int) -> None:
        """Go on after what the service has, should this machine know less (its files were lost)."""
        self.last = max(self.last, stored)

    def append(self, events: Iterable[Piece], *, run: int, at: float) -> None:
        """Number these pieces and write them; raise `OSError` when the disk does not take them."""
        lines = []
        number = self.last
        for event in events:
            number += 1
            lines.append(json.dumps({"seq": number, "run": run, "at": at, **event}).encode())
        if lines:
            self._write(b"\n".join(lines) + b"\n")
            self.last = number

    def read(self, after: int, pieces: int = 500, size: int = 4 * 1024 * 1024) -> list[Piece]:
        """Pieces after this number, oldest first, about `size` bytes of them at most (but at least one)."""
        if after != self._read_up_to:
            self._place = (0, 0)
        found: list[Piece] = []
        taken = 0
        for piece, length, place in self._from(self._place):
            self._place = place
            if piece.get("seq", 0) <= after:
                continue
            found.append(piece)
            taken += length
            if len(found) == pieces or taken >= size:
                break
        self._read_up_to = found[-1]["seq"] if found else after
        return found

    def after(self, seq: int) -> Iterator[Piece]:
        """All kept pieces after this number."""
        return (piece for piece, _, _ in self._from((0, 0)) if piece.get("seq", 0) > seq)

    def empty_if_large(self, delivered: int) -> None:
        """Let go of the pieces of this run when they are many and the service has them all (rule 4)."""
        if delivered < self.last or self._file.tell() < LARGE:
            return
        self._file.truncate(0)
        self._write(json.dumps({"last": self.last}).encode() + b"\n")
        self._place, self._read_up_to = (len(self._earlier), self._file.tell()), self.last

    def close(self) -> None:
        """Release the file."""
        self._file.close()

    def _files(self) -> list[Path]:
        return [*self._earlier, self._path]

    def _from(self, place: tuple[int, int]) -> Iterator[tuple[Piece, int, tuple[int, int]]]:
        """Whole lines from this place on, each with its length and the place after it."""
        first, offset = place
        for index, path in enumerate(self._files()):
            if index < first:
                continue
            for line, end in _lines(path, offset):
                yield json.loads(line), len(line), (index, end)
            offset = 0

    def _write(self, content: bytes) -> None:
        """Write all of it or, as far as the disk allows, nothing."""
        start = self._file.seek(0, os.SEEK_END)
        written = 0
        try:
            while written < len(content):
                written += self._file.write(content[written:]) or 0
        except OSError:
            if written:
                self._file.truncate(start)
            raise

    def _keep_whole_lines(self) -> None:
        """Remove a line that the end of a process cut short (rule 2)."""
        for path in self._files():
            if not path.is_file():
                continue
            content = path.read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                with path.open("r+b") as file:
                    file.truncate(whole)


def _lines(path: Path, offset: int) -> Iterator[tuple[bytes, int]]:
    """Whole lines from this byte on, each with the place after it."""
    if not path.is_file():
        return
    with path.open("rb") as file:
        file.seek(offset)
        for line in file:
            if not line.endswith(b"\n"):
                return
            offset += len(line)
            yield line, offset


def _number(piece: Piece) -> int:
    """The number of a piece, or the last number before the spool was emptied."""
    return int(piece["seq"] if "seq" in piece else piece["last"])
