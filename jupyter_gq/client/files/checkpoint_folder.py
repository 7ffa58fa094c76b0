"""The folder of a job's checkpoints: its name, and whether it holds any. Standard library only.

See docs/decisions/0493-continue-a-job-from-the-checkpoints-of-another.md.
"""

import os
from pathlib import Path

#: Name of the folder among the files of a job.
CHECKPOINTS = "checkpoint"
#: Beginning of the names in the folder that are the product's, such as trial files.
OWN_PREFIX = ".gq-"
#: File that is in the folder while the checkpoints of an earlier job are being copied into it.
COPYING = f"{OWN_PREFIX}copying"


def has_checkpoints(folder: Path) -> bool:
    """Return whether the folder has an entry that is not the product's, and no copy into it is incomplete.

    Raises `OSError` if the folder cannot be listed.
    """
    if os.path.lexists(folder / COPYING):
        return False
    with os.scandir(folder) as entries:
        return any(not entry.name.startswith(OWN_PREFIX) for entry in entries)
