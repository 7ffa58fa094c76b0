"""Shared parts of the planning commands: reading state files, and numbers in words."""

import errno
import os
import stat
from pathlib import Path

from jupyter_gq.client.state import StateFile, read_state
from jupyter_gq.commands.refusal import CommandRefused
from jupyter_gq.domain.errors import InvalidSnapshot


def load_state(path: Path) -> StateFile:
    """Return the state of a file; raise `CommandRefused`, which names the file, if it cannot be read or is invalid."""
    try:
        return read_state(read_finite(path))
    except OSError as error:
        raise CommandRefused(f"{path} cannot be read: {error.strerror}.") from None
    except InvalidSnapshot as error:
        raise CommandRefused(f"{path}: {error}") from None


def read_finite(path: Path) -> bytes:
    """Return the content of a file or pipe; raise `OSError` for a device, which may never end, and as reading does."""
    with path.open("rb") as file:
        if not (stat.S_ISREG(mode := os.fstat(file.fileno()).st_mode) or stat.S_ISFIFO(mode)):
            raise OSError(errno.EINVAL, "it is no regular file and no pipe")
        return file.read()


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, such as "1 node" or "2 nodes"."""
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
