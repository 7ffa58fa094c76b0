"""The log of a kernel that knows secrets: what its processes print past the kernel is masked too. Standard library."""

import os
import threading

from jupyter_gq.runner.mask import Mask


def open_masked_log(mask: Mask) -> int:
    """Return the writing end of a pipe, whose text goes to standard output of this process with the values hidden.

    The caller closes its copy. The copying ends with the last process that has the pipe, or with this one.
    """
    reader, writer = os.pipe()
    threading.Thread(target=_copy, args=(reader, mask), name="masked log", daemon=True).start()
    return writer


def _copy(reader: int, mask: Mask) -> None:
    held = b""
    try:
        while piece := os.read(reader, 65536):
            shown, held = mask.split_bytes(held + piece)
            _write(shown)
        _write(held)
    except OSError:
        pass  # the disk refuses the log: the kernel must not wait for it
    finally:
        os.close(reader)


def _write(content: bytes) -> None:
    while content:
        content = content[os.write(1, content) :]
