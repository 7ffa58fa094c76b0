"""The working folder of a job: whether a process can work in it."""

import os
import stat


def find_folder_fault(folder: str) -> str:
    """Return why this process cannot work in a folder, such as "does not exist (any more)"; "" if it can."""
    try:
        is_folder = stat.S_ISDIR(os.stat(folder).st_mode)
    except FileNotFoundError:
        return "does not exist (any more)"
    except OSError as error:
        return f"cannot be used ({error.strerror})"
    if not is_folder:
        return "is a file and no folder"
    return "" if os.access(folder, os.X_OK, effective_ids=True) else "cannot be entered with the rights of this job"
