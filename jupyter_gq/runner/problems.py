"""Errors of a run that are not errors of the user's code. The text of each is the sentence that the owner reads."""

import errno

from jupyter_gq.domain.errors import UserError

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class RunError(UserError):
    """An error that ends the run; the message is one sentence for the owner of the job."""


class BundleError(RunError):
    """A bundle that cannot be run as it is."""


class KernelError(RunError):
    """A kernel that did not start, or ended while it was needed."""


def describe_disk_error(error: OSError) -> str:
    """Return the sentence that tells the owner why the job's own files cannot be written."""
    if error.errno in _DISK_FULL:
        return (
            "The disk of the job's folder is full, so its output could not be kept. "
            "Free some space (or ask your administrator) and send the cell again."
        )
    if error.errno == errno.ENOENT:
        return "Files of this run were deleted while it ran, so its output could not be kept. Send the cell again."
    return f"The job's own files could not be written: {error.strerror or error}."
