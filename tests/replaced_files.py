"""Files that another process may read at any moment."""

from pathlib import Path


def write_at_once(file: Path, text: str) -> None:
    """Replace the file, so that nobody ever reads half of it."""
    beside = file.with_suffix(".new")
    beside.write_text(text)
    beside.replace(file)
