"""Errors of a run that are not errors of the user's code. The text of each is the sentence that the owner reads."""

import errno
import os
from pathlib import Path

from jupyter_gq.domain.errors import UserError

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
#: The sentence of a job that succeeded while the disk took no more of its output.
OUTPUT_DROPPED = "The disk of the job's folder was full at the end, so some of its outputs may be missing."


class RunError(UserError):
    """An error that ends the run; the message is one sentence for the owner of the job."""


class BundleError(RunError):
    """A bundle that cannot be run as it is."""


class KernelError(RunError):
    """A kernel that did not start, or ended while it was needed."""


def is_disk_full(error: OSError) -> bool:
    """Tell whether the disk, or a quota on it, has no room; somebody else may have taken it, and may free it again."""
    return error.errno in _DISK_FULL


def describe_disk_error(error: OSError) -> str:
    """Return the sentence that tells the owner why the job's own files cannot be written."""
    if is_disk_full(error):
        return (
            "The disk of the job's folder is full, so its output could not be kept. "
            "Free some space (or ask your administrator) and send the cell again."
        )
    if error.errno == errno.ENOENT:
        return "Files of this run were deleted while it ran, so its output could not be kept. Send the cell again."
    file = error.filename2 or error.filename  # a file that is replaced is the second one
    where = "" if file is None else f"{Path(os.fsdecode(file)).name}: "
    return f"The job's own files could not be written: {where}{error.strerror or error}."
