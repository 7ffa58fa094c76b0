"""Why a run can fail before or beside the user's code. The text of each is the sentence that the owner reads."""

import errno

_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})


class RunError(Exception):
    """The run cannot go on; the message is one sentence for its owner."""


class BundleError(RunError):
    """The bundle cannot be run as it is."""


class KernelError(RunError):
    """The kernel did not start, or ended while it was needed."""


def disk_sentence(error: OSError) -> str:
    """What to tell when the job's own files cannot be written."""
    if error.errno in _DISK_FULL:
        return (
            "The disk of the job's folder is full, so its output could not be kept. "
            "Free some space (or ask your administrator) and send the cell again."
        )
    return f"The job's own files could not be written: {error.strerror or error}."
