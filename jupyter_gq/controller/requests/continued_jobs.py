"""The check of a request for a job that begins with the checkpoints of an earlier job.

Rules
-----
Own only: the earlier job belongs to the caller, be they an administrator or not. Any other job is refused with the
    sentence for an unknown job.

Ended only: a job that may still write is refused.

Kept: the earlier job has checkpoints, as far as that is known here. What only the run can know, the run says.

As many tasks: if each task keeps a folder of its own, the new job has as many tasks as the earlier one. Tasks with one
    folder may be of any number.

See docs/decisions/0493-continue-a-job-from-the-checkpoints-of-another.md.
"""

from jupyter_gq.backends.capabilities import CheckpointFolders
from jupyter_gq.client.models import JobFields
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.views.workload_views import job_phase
from jupyter_gq.domain.errors import CannotContinue, NotFound
from jupyter_gq.domain.phases import describe_phase
from jupyter_gq.domain.plain_text import quoted
from jupyter_gq.domain.states import FINAL
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record

from .file_threads import run_in_file_thread
from .job_access import find_job

_OTHERWISE = "Name another job, or send this one without continuing from a job."


async def check_kept_checkpoints(context: Context, caller: Caller, request: JobFields) -> None:
    """Raise `CannotContinue` if the requested job cannot continue from the job that it names.

    This looks for checkpoints, which `check_earlier_job` does not. If nobody here knows whether there are some, the
    request passes. Raises `BackendError` if jobs cannot run as the owner.
    """
    earlier = check_earlier_job(context, caller, request)
    if earlier is None:
        return
    job, owner = earlier.workload.id, earlier.workload.owner
    if await run_in_file_thread(caller.user, context.bundles.has_checkpoints, job, owner) is False:
        raise _no_checkpoints(earlier, "has no checkpoints: it wrote none, or they were deleted")


def check_earlier_job(context: Context, caller: Caller, request: JobFields) -> Record | None:
    """Return the record of the job from whose checkpoints the requested one continues; None if it names none.

    Raises `CannotContinue` with what the caller can do if that is impossible. No file is looked at.
    """
    if not request.continue_from:
        return None
    folders = context.backend_of(Kind.TRAINING).capabilities.checkpoints
    if folders is None:
        raise CannotContinue(
            "No checkpoints of jobs are kept here, so no job can continue from those of another. Send the job without "
            "that, or ask your administrator for a place of checkpoints."
        )
    earlier = _find_own_job(context, caller, request.continue_from)
    workload = earlier.workload
    if workload.state not in FINAL:
        raise CannotContinue(
            f"The job {quoted(workload.name)} {describe_phase(job_phase(workload))}, and only a job that has ended can "
            "be continued by another. Wait until it ends, or cancel it."
        )
    if workload.run == 0:
        raise _no_checkpoints(earlier, "never ran, so it has no checkpoints")
    if folders is CheckpointFolders.EACH_TASK and workload.tasks != request.tasks:
        has = "1 task" if workload.tasks == 1 else f"{workload.tasks} tasks"
        asked = "1 task" if request.tasks == 1 else f"{request.tasks} tasks"
        raise CannotContinue(
            f"The job {quoted(workload.name)} had {has}, each with its own folder of checkpoints, and the new job has "
            f"{asked}. Send it with {has}."
        )
    return earlier


def _find_own_job(context: Context, caller: Caller, job: str) -> Record:
    """Return the record of a job of the caller; raise `CannotContinue` with one sentence for all that is not theirs."""
    try:
        found = find_job(context, caller, job)
    except NotFound:
        found = None
    if found is None or found.workload.owner != caller.user:
        days = context.settings.keep_finished / 86400
        deleted = f" Ended jobs are deleted after {days:g} days." if days > 0 else ""
        raise CannotContinue(f"You have no job {quoted(job)}, or it was deleted.{deleted} {_OTHERWISE}")
    return found


def _no_checkpoints(earlier: Record, why: str) -> CannotContinue:
    """Return the error for an earlier job without checkpoints; `why` completes a sentence about that job."""
    before = earlier.detail.continue_from
    remedy = f"The job {before}, from which it was to continue itself, may have some." if before else _OTHERWISE
    return CannotContinue(f"The job {quoted(earlier.workload.name)} {why}. {remedy}")
