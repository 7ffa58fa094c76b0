"""The search for a job that still has to copy the checkpoints of an ended job. The ended job is kept until then.

See docs/decisions/0493-continue-a-job-from-the-checkpoints-of-another.md.
"""

from jupyter_gq.domain.workload import Workload

from .records.records import Records


def find_continuing_job(records: Records, job: str) -> Workload | None:
    """Return a job that has not ended, begins with the checkpoints of `job`, and has none of its own yet.

    Returns None if there is no such job, so that the checkpoints of `job` may be deleted.
    """
    waiting = (
        record.workload
        for record in records.unfinished()
        if record.detail.continue_from == job and record.workload.checkpointed_at is None
    )
    return next(waiting, None)
