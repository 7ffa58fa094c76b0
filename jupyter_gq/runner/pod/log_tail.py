"""The pod's log: all output of its processes goes to the container's log and to the service, and the end is kept."""

import os
import sys
import threading

from .unsent_log import UnsentLog

#: Bytes of the end of the log that are kept.
KEPT = 64 * 1024


class LogTail:
    """A pipe that keeps the end of the log.

    The pipe lies between standard output and error of this process (and its children) and the container's log.
    """

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
        #: What the service has not got yet.
        self.unsent = UnsentLog()
        self._lock = threading.Lock()
        #: Bytes that were printed so far.
        self.size = 0
        self._thread = threading.Thread(target=self._copy, args=(reader,), daemon=True)
        self._thread.start()

    def text(self) -> bytes:
        """Return the end of the log, at most 64 KiB; a log that is cut begins at the start of a line."""
        with self._lock:
            kept, whole = bytes(self._kept), self.size <= KEPT
        return kept if whole else kept[kept.find(b"\n") + 1 :]

    def close(self, seconds: float) -> None:
        """Let this process print to the container's log directly again.

        Wait up to `seconds` for its children to close the pipe, so that their output is kept.
        """
        sys.stdout.flush()
        sys.stderr.flush()
        os.dup2(self._log, 1)
        os.dup2(self._error, 2)
        self._thread.join(seconds)

    def _copy(self, reader: int) -> None:
        """Copy the pipe to the container's log until all writers have closed it, and keep the end."""
        while piece := os.read(reader, 65536):
            with self._lock:
                self.size += len(piece)
                self._kept += piece
                del self._kept[:-KEPT]
            self.unsent.add(piece)
            written = 0
            while written < len(piece):
                written += os.write(self._log, piece[written:])
        os.close(reader)
