"""The logs of a job's last run by their tasks, and the bytes that are kept of each."""

from jupyter_gq.backends.bundles import LogName
from jupyter_gq.domain.workload import Workload

#: Fewest bytes of each task's log that are kept, however many tasks a job has.
_LEAST_SHARE = 256 * 1024


def share_of_log(most: int, tasks: int) -> int:
    """Return the bytes that are kept of the log of one task, of at most `most` bytes of a job with so many tasks."""
    return max(_LEAST_SHARE, most // tasks)


def name_log(workload: Workload, task: int) -> LogName:
    """Return the name of the log of a task of the job's last run."""
    return LogName(job=workload.id, owner=workload.owner, run=workload.run, task=task)
