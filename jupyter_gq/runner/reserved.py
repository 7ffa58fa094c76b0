"""Files for which room is reserved early, so that they can be written on a full disk. Standard library only."""

from pathlib import Path

_RESERVED = 8192


def reserve_room(path: Path) -> None:
    """Reserve room for a file of up to 8 KiB at `path`; raise `OSError` if the disk has none."""
    _reserve_of(path).write_bytes(b" " * _RESERVED)


def write_reserved(path: Path, content: bytes) -> None:
    """Make or replace the file at `path` atomically, in the room that `reserve_room` reserved for it, if there is any.

    Raises `OSError` if the disk refuses. Up to 8 KiB of content in reserved room is written even if the disk is full.
    """
    reserve = _reserve_of(path)
    with open(reserve, "r+b" if reserve.exists() else "wb") as file:
        file.write(content)
        file.truncate()
    reserve.replace(path)


def _reserve_of(path: Path) -> Path:
    return path.with_name(f"{path.stem}.reserve")
