"""Files that another process may read at any moment."""

import shutil
from pathlib import Path


def write_at_once(file: Path, text: str) -> None:
    """Replace the file, so that nobody ever reads half of it."""
    beside = file.with_name(f"{file.name}.new")
    beside.write_text(text)
    if file.exists():
        shutil.copymode(file, beside)
    beside.replace(file)
