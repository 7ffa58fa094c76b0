"""The part of the pod's log that the service has not got yet.

Rules
-----
Never wait: a job does not wait for its log. Beyond `MOST_UNSENT` bytes the oldest are left out, and a line in the log
    says how many.

Masked before it is cut: a part never ends within the value of a secret, nor within a character of UTF-8.
"""

import codecs
import threading

from jupyter_gq.runner.mask import Mask

#: Most bytes that wait for the service.
MOST_UNSENT = 8 * 1024 * 1024
#: Bytes that are taken for one part. Bytes that are not UTF-8 take up to three times as many in the part.
PART = 64 * 1024


class UnsentLog:
    """Text that was printed and not sent. One thread adds to it, and another one sends it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = bytearray()
        self._left_out = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        #: The end of the masked text that may be the beginning of a secret.
        self._held = b""
        #: The part that is being sent, and the number of its first byte.
        self._part = b""
        self.start = 0

    def __len__(self) -> int:
        """Return the number of bytes that wait."""
        with self._lock:
            return len(self._waiting) + len(self._part)

    def add(self, piece: bytes) -> None:
        """Append what was printed."""
        with self._lock:
            self._waiting += piece
            excess = len(self._waiting) - MOST_UNSENT
            if excess > 0:
                self._left_out += excess
                del self._waiting[:excess]

    def take(self, mask: Mask, *, last: bool = False) -> bytes:
        """Return the next part, which begins at `start`; the same one until `confirm`. Empty if there is none now.

        With `last`, nothing is held back that could be the beginning of a secret or of a character.
        """
        more = True
        while more and not self._part:
            with self._lock:
                content, left_out = bytes(self._waiting[:PART]), self._left_out
                del self._waiting[:PART]
                self._left_out, more = 0, bool(self._waiting)
            if left_out:
                told = f"\n[{left_out} bytes of the log are missing: more was printed than was sent]\n"
                content = told.encode() + content
            shown, self._held = mask.split_bytes(self._held + content)
            if last and not more:
                shown, self._held = shown + self._held, b""
            self._part = self._decoder.decode(shown, last and not more).encode()
        return self._part

    def confirm(self) -> None:
        """Go on to the next part: the service has this one."""
        self.start += len(self._part)
        self._part = b""
