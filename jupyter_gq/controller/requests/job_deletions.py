"""The requests to delete jobs that have ended, with all that is kept of them.

Rules
-----
Who: the owner of a job, and administrators.

Ended only: a job that has not ended is refused, and so is one of which a backend still knows a run, because outputs of
    that run may not be stored yet.

Not while it is awaited: a job whose checkpoints another job has still to copy is refused.

Not at once: the job is hidden when the request is accepted. `loop.cleaning.retention` deletes it, as it deletes old
work.

See docs/decisions/0410-let-users-delete-ended-jobs.md.
"""

from jupyter_gq.client.models import JobView
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.continuations import find_continuing_job
from jupyter_gq.controller.records.acts import act_of
from jupyter_gq.controller.views.presenter import Presenter
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.errors import Conflict
from jupyter_gq.domain.phases import describe_phase
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.domain.states import FINAL
from jupyter_gq.domain.workload import Kind

from .job_access import find_job


class JobDeletions:
    """The requests to delete jobs."""

    def __init__(self, context: Context, presenter: Presenter) -> None:
        self._context, self._presenter = context, presenter

    def delete(self, caller: Caller, job: str) -> JobView:
        """Hide a job of the caller and have it deleted; return it as it was. An admin may delete any job.

        Raises `NotFound` if there is no such job, if the caller may not see it, or if it is being deleted already.
        Raises `Conflict` if the job has not ended, or if another job waits to copy its checkpoints. Also raises
        `Conflict` if its last outputs may not be stored yet: a backend still knows a run of the job, or cannot be
        observed. A later call may then succeed.
        """
        record = find_job(self._context, caller, job)
        workload, view = record.workload, self._presenter.job(record)
        if workload.state not in FINAL:
            raise Conflict(
                f"The job {quoted(workload.name)} {describe_phase(view.phase)}, and only jobs that have ended can be "
                "deleted. Cancel it first, or wait until it ends."
            )
        unseen = Kind.TRAINING in self._context.unobserved
        if unseen or any(known == job for known, _ in self._context.known_runs):
            raise Conflict(
                f"The job {quoted(workload.name)} has ended, but its last outputs may not be stored yet. "
                "Try again in a minute."
            )
        if continuing := find_continuing_job(self._context.records, job):
            raise Conflict(
                f"The job {quoted(continuing.name)} ({continuing.id}) begins with the checkpoints of "
                f"{quoted(workload.name)} and has not copied them yet. Cancel it first, or wait until it has begun."
            )
        self._context.deletions.request(job, act_of(caller, Action.JOB_DELETE, workload, self._context.clock.now()))
        return view
