"""Mounted file systems, as the table of a process in /proc shows them.

Users choose the names of their mount points, as with FUSE. So a line of the table ends with a line feed only, and may
have bytes that are no text.
"""

import os
import re
from dataclasses import dataclass
from pathlib import Path

#: Linux writes some characters of a path as a backslash and an octal number.
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True, kw_only=True, slots=True)
class Mount:
    """A mounted file system."""

    #: Path of the folder in which it is.
    point: str
    #: Type of the file system, such as "ext4".
    kind: str


def read_mounts(table: Path) -> list[Mount]:
    """Return the file systems in a table, in its order; raise `OSError` if the table cannot be read.

    `table` has the format of `/proc/self/mountinfo`, which is not that of `/proc/mounts`.
    """
    # A line: id, parent, device, root, place, options, ..., "-", type, source, options.
    lines = [line.split(" ") for line in os.fsdecode(table.read_bytes()).split("\n") if line]
    return [Mount(point=_unescape(line[4]), kind=line[line.index("-") + 1]) for line in lines]


def _unescape(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), path)
