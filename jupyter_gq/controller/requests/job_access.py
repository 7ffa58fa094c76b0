"""The right to see a job, and the right to change one.

Rules
-----
Seeing: the owner of a job, and administrators.

Changing: these, and the managers of the job's queue, who see what they change. They read no output, notebook or log.

Overruling: owners cannot undo what a manager of the queue or an administrator decided for their job: a hold, and a
limit of the running time.

No hint: a job that the caller may not see or change raises `NotFound`, as if there were none.

See docs/decisions/0108-change-a-job-by-one-patch.md.
"""

from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.settings.config import Settings
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record


def find_job(context: Context, caller: Caller, job: str) -> Record:
    """Return the record of a job of the caller, or any job for an administrator.

    Raises `NotFound` if there is no such job, if it belongs to somebody else, or if it is being deleted.
    """
    record = _find(context, job)
    if record is None or not caller.may_see(record.workload.owner):
        raise _not_found(job)
    return record


def find_changeable_job(context: Context, caller: Caller, job: str) -> Record:
    """Return the record of a job that the caller may change, as its owner, as a manager of its queue or as an admin.

    Raises `NotFound` as `find_job` does.
    """
    record = _find(context, job)
    if record is None:
        raise _not_found(job)
    workload = record.workload
    if not caller.may_see(workload.owner) and not may_manage(context.settings, caller, workload.queue):
        raise _not_found(job)
    return record


def require_manager(settings: Settings, caller: Caller, queue: str) -> None:
    """Raise `NotFound` unless the training queue exists and the caller is one of its managers or an admin."""
    known = any(entry.queue.name == queue for entry in settings.training)
    if not known or not may_manage(settings, caller, queue):
        raise NotFound(f"There is no queue {queue!r} that you manage.")


def may_manage(settings: Settings, caller: Caller, queue: str) -> bool:
    """Return whether the caller may decide about the jobs of all users in a queue: as an admin, or as its manager.

    A caller whose token is limited to own objects manages no queue.
    """
    return caller.admin or (not caller.own_only and settings.manages(caller, queue))


def _find(context: Context, job: str) -> Record | None:
    """Return the record of a job; None if there is none, or if it is being deleted."""
    record = None if job in context.deletions else context.records.get(job)
    return record if record is not None and record.workload.kind is Kind.TRAINING else None


def _not_found(job: str) -> NotFound:
    return NotFound(f"There is no job {job!r}.")
