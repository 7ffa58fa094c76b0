"""The lists of jobs: those of a user or of all users, and those that managers see of their queues."""

from collections.abc import Collection
from heapq import nlargest

from jupyter_gq.client.models import JobList
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.user_totals import describe_user, describe_users
from jupyter_gq.controller.views.presenter import Presenter
from jupyter_gq.domain.errors import NotFound
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import PageSize, Record

from .job_access import require_manager


class JobLists:
    """The requests for lists of jobs. A list holds only jobs that the caller may see."""

    def __init__(self, context: Context, presenter: Presenter) -> None:
        self._context, self._presenter = context, presenter

    def list_jobs(
        self, caller: Caller, *, limit: int, before: str | None, owner: str | None = None, group: str | None = None
    ) -> JobList:
        """Return at most `limit` jobs, newest first, and the `before` of the next page, None on the last one.

        Jobs that are being deleted are left out.

        `owner` selects another user's jobs, or those of all users if "*". For callers who are not admins, `owner` is
        ignored. `group` selects the jobs of one group. `before` is the id of the last job of the previous page. Raises
        `NotFound` if there is no such job that the caller may see: a page without jobs would look like the end.
        """
        if before is not None:
            self._require_visible(caller, before)
        whose = self._owner_listed(caller, owner)
        store, hidden = self._context.store, self._context.deletions
        page = PageSize(entries=limit + len(hidden.requested), size=self._context.settings.max_page_bytes)
        found = store.list(page, kind=Kind.TRAINING, owner=whose, group=group, before=before)
        kept = [record for record in found if record.workload.id not in hidden][:limit]
        shown = [self._context.records.find_unfinished(record.workload.id) or record for record in kept]
        last = (kept or found)[-1].workload.id if found else None
        more = last and store.list(PageSize(entries=1), kind=Kind.TRAINING, owner=whose, group=group, before=last)
        self._context.look_up_last_seqs(record.workload.id for record in shown)
        jobs = self._presenter.show_each(shown, self._presenter.job_summary)
        return JobList(jobs=jobs, next=last if more else None, **self._describe_space(whose))

    def list_newest(self, caller: Caller, *, limit: int, owner: str | None = None) -> JobList:
        """Return at most `limit` jobs to look at: those that hold GPUs, those that wait, then ended ones, newest first.

        `owner` is as in `list_jobs`. `next` is None if these are all jobs.
        """
        whose = self._owner_listed(caller, owner)
        store, hidden = self._context.store, self._context.deletions
        page = PageSize(entries=limit + 1 + len(hidden.requested), size=self._context.settings.max_page_bytes)
        found = store.list(page, kind=Kind.TRAINING, owner=whose)
        left = [each for each in self._context.records.unfinished() if _is_job_of(each, whose)]
        first = nlargest(limit + 1, left, key=lambda each: (each.workload.holds, each.workload.submission))
        known = {each.workload.id for each in left}
        all_found = [*first, *(each for each in found if each.workload.id not in known)]
        kept = [each for each in all_found if each.workload.id not in hidden]
        shown = kept[:limit]
        self._context.look_up_last_seqs(record.workload.id for record in shown)
        jobs = self._presenter.show_each(shown, self._presenter.job_summary)
        more = len(kept) > limit or bool(  # bytes may have cut the page of the store
            found and store.list(PageSize(entries=1), kind=Kind.TRAINING, owner=whose, before=found[-1].workload.id)
        )
        last = shown[-1].workload.id if shown and more else None
        return JobList(jobs=jobs, next=last, **self._describe_space(whose))

    def list_queue(self, caller: Caller, queue: str, *, limit: int, before: str | None) -> JobList:
        """Return at most `limit` jobs of all users in a queue and those below it, newest first, without ended ones.

        `before` is as in `list_jobs`. Raises `NotFound` unless the caller may change the jobs of that queue.
        """
        require_manager(self._context.settings, caller, queue)
        leaves = self._context.settings.leaves_below(queue)
        last_shown = None if before is None else self._find_submission(before, leaves)
        left = [
            record
            for record in self._context.records.unfinished()
            if record.workload.queue in leaves and (last_shown is None or record.workload.submission < last_shown)
        ]
        left.sort(key=lambda record: record.workload.submission, reverse=True)
        self._context.look_up_last_seqs(record.workload.id for record in left[:limit])
        page = PageSize(entries=limit, size=self._context.settings.max_page_bytes)
        views = (view for record in left for view in self._presenter.show_each([record], self._presenter.job_summary))
        shown = page.take(views, lambda view: len(view.model_dump_json()))
        more = bool(shown) and shown[-1].id != left[-1].workload.id
        return JobList(jobs=list(shown), next=shown[-1].id if more else None)

    def _owner_listed(self, caller: Caller, owner: str | None) -> str | None:
        """Return whose jobs are listed for a caller who asks for those of `owner`; None means those of all users."""
        listed = owner if owner is not None and caller.admin else caller.user
        return None if listed == "*" else listed

    def _find_submission(self, job: str, queues: Collection[str]) -> tuple[float, str]:
        """Return the sort key of a job of these queues, also of an ended one; raise `NotFound` for any other."""
        record = self._context.records.get(job)
        if record is None or record.workload.queue not in queues:
            raise _no_such_page(job)
        return record.workload.submission

    def count_kept(self) -> tuple[int, float]:
        """Return the bytes that the database keeps of all jobs, and how much of the limit the fullest user takes.

        The latter is 1 at the limit, and 0 without a limit.
        """
        sizes, limit = self._context.kept_sizes, self._context.settings.max_user_database_bytes
        totals = sizes.of_users()
        return sum(totals.values()), max(totals.values(), default=0) / limit if limit else 0.0

    def _describe_space(self, owner: str | None) -> dict[str, str]:
        """Return phrases on what the jobs of a user, or of all users, take on the disk and in the database.

        A phrase is "" if that is not measured.
        """
        context, settings = self._context, self._context.settings
        spaces = {
            "disk": (context.disk_uses.of_users(), settings.max_user_disk * 2**20),
            "database": (context.kept_sizes.of_users(), settings.max_user_database_bytes),
        }
        return {
            name: describe_users(totals, limit) if owner is None else describe_user(totals.get(owner, 0), limit)
            for name, (totals, limit) in spaces.items()
        }

    def _require_visible(self, caller: Caller, before: str) -> None:
        """Raise `NotFound` if the job at which a page begins does not exist, or if the caller may not see it."""
        record = self._context.records.get(before)
        if record is None or record.workload.kind is not Kind.TRAINING or not caller.may_see(record.workload.owner):
            raise _no_such_page(before)


def _is_job_of(record: Record, owner: str | None) -> bool:
    """Tell whether the record is that of a job, and of this owner if one is named."""
    return record.workload.kind is Kind.TRAINING and owner in (None, record.workload.owner)


def _no_such_page(before: str) -> NotFound:
    return NotFound(f"before: there is no job {before!r}. Begin with the first page.")
