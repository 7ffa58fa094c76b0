"""The pod's log: all that its processes print goes to the container's log, and its end is kept for the service."""

import os
import sys
import threading

#: Bytes that are kept.
KEPT = 64 * 1024


class Tail:
    """Stands between standard output and error of this process (and of those it starts) and the container's log."""

    def __init__(self) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        reader, writer = os.pipe()
        self._log = os.dup(1)
        self._error = os.dup(2)
        for number in (1, 2):
            os.dup2(writer, number)
        os.close(writer)
        self._kept = bytearray()
        self._lock = threading.Lock()
        #: Grows with all that is printed.
        self.size = 0
        self._thread = threading.Thread(target=self._copy, args=(reader,), daemon=True)
        self._thread.start()

    def text(self) -> bytes:
        """The end of what was printed, from the beginning of a line if all of it is not kept."""
        with self._lock:
            kept, whole = bytes(self._kept), self.size <= KEPT
        return kept if whole else kept[kept.find(b"\n") + 1 :]

    def close(self, seconds: float) -> None:
        """From now on this process prints to the container's log itself; wait for what others have printed."""
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(self._log, 1)
        os.dup2(self._error, 2)
        self._thread.join(seconds)

    def _copy(self, reader: int) -> None:
        while piece := os.read(reader, 65536):
            with self._lock:
                self.size += len(piece)
                self._kept += piece
                del self._kept[:-KEPT]
            written = 0
            while written < len(piece):
                written += os.write(self._log, piece[written:])
        os.close(reader)
