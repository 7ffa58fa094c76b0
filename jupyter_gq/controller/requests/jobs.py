"""The requests of users and runners about jobs. A request is checked completely before anything is stored."""

import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import PurePosixPath

from pydantic import ValidationError

from jupyter_gq.client.models import (
    Bundle,
    CancelledJobs,
    CellRef,
    Heartbeat,
    JobError,
    JobResults,
    JobSubmission,
    JobUsage,
    JobView,
    Manifest,
    OutputPage,
    RefusedJob,
)
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.act import make_stop_change
from jupyter_gq.controller.records.acts import act_of
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.results import RESULT_PART, is_missing, parse_results
from jupyter_gq.controller.views.presenter import Presenter
from jupyter_gq.domain.audit import Action, AuditEntry
from jupyter_gq.domain.errors import (
    Conflict,
    JupyterGQError,
    NotFound,
    NotYours,
    StoreUnavailable,
    UnusableFolder,
    UserError,
)
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.mentions import mention
from jupyter_gq.domain.phases import describe_phase
from jupyter_gq.domain.plain_text import quoted, strip_controls
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import FINAL, Event, State
from jupyter_gq.domain.workload import Kind, Stop, Workload
from jupyter_gq.domain.workload_detail import CodeError, Progress, SourceCell, WorkloadDetail
from jupyter_gq.store.protocol import OutputPiece, PageSize, Record

from .continued_jobs import check_earlier_job, check_kept_checkpoints
from .file_threads import run_in_content_thread, run_in_file_thread, run_where_it_is_kept
from .idempotency import find_earlier_job, is_key_known
from .job_access import find_changeable_job, find_job
from .job_checks import check_disk, check_kept_size, check_limits_of_queue, check_limits_of_user, find_usable_queue
from .job_secrets import check_secrets, check_stored_secrets
from .job_software import find_image
from .logs import choose_tasks
from .new_workload import build_workload
from .output_limits import OutputLimits
from .pods import JobPods
from .project_files import ProjectFiles
from .request_hash import hash_request
from .saved_times import SavedTimes

log = logging.getLogger(__name__)

#: Number of pieces of output in one page.
PAGE = 1_000
#: Number of bytes at the end of a log that are shown.
LOG_TAIL = 64 * 1024
#: Number of characters of an error's text that are shown with the job.
_ERROR_TEXT = 500


class Jobs:
    """The requests about jobs. A job that the caller may not see raises `NotFound`, as if there were none."""

    def __init__(self, context: Context, presenter: Presenter, pods: JobPods, files: ProjectFiles) -> None:
        self._context, self._presenter, self._pods = context, presenter, pods
        self._files = files
        self._output_limits = OutputLimits(context)
        self.saved_times = SavedTimes()

    async def check_files(self, caller: Caller, submission: JobSubmission, key: str | None) -> None:
        """Check the files that a new job needs: secrets, a working folder, the checkpoints of an earlier job.

        Raises `SecretUnavailable` if the job may not have a secret or the caller has not stored it, `CannotContinue` if
        the job cannot begin with the checkpoints of the job that it names, and `UnusableFolder` if it is known that the
        job cannot run in its working folder. The folder is not checked if the job brings files or has a folder of its
        own. If the caller has made a job with this idempotency key before, nothing is checked.
        """
        manifest = submission.bundle.manifest
        if is_key_known(self._context, caller, key):
            return
        await check_stored_secrets(self._context, caller, manifest.secrets, manifest.environment)
        await check_kept_checkpoints(self._context, caller, submission)
        find_fault = self._context.backend_of(Kind.TRAINING).capabilities.find_folder_fault
        if find_fault is None or manifest.files or manifest.own_folder:
            return
        # In a thread: a file system that does not answer must not keep other requests waiting.
        if fault := await run_in_file_thread(caller.user, find_fault, caller.user, manifest.cwd):
            raise UnusableFolder(manifest.cwd, fault)

    @asynccontextmanager
    async def staged(self, caller: Caller, submission: JobSubmission, key: str | None) -> AsyncIterator[None]:
        """Upload the bundle of a new job for `submit` in the block, if large contents are kept outside the database.

        After the block, what `submit` has not used is deleted. Does nothing for a `key` that has made a job before.
        Raises `TooLarge`, `ContentsUnavailable`, and the errors of `submit` for secrets, limits and the queue.
        """
        files = self._context.bundles.pod_files
        if files is None or files.contents is None or is_key_known(self._context, caller, key):
            yield
            return
        # Checked before, so that a job that is refused uploads nothing.
        check_secrets(self._context, submission.bundle.manifest.secrets, submission.bundle.manifest.environment)
        self._check_limits(caller, submission)
        document, limit = self._make_document(submission.bundle), self._context.settings.max_bundle_bytes
        name = await run_in_content_thread(caller.user, files.stage, document, limit)
        try:
            yield
        finally:
            if name is not None:
                files.unstage(name)

    def _check_limits(self, caller: Caller, submission: JobSubmission) -> None:
        """Raise `LimitReached`, `UnknownQueue` or `NotAMember` if a limit is reached or the queue may not be used."""
        settings = self._context.settings
        check_limits_of_user(settings, self._context.records, caller.user)
        check_limits_of_queue(settings, self._context.records, submission.queue)
        check_kept_size(self._context, caller.user)
        find_usable_queue(settings, caller, submission.queue)

    def _make_document(self, bundle: Bundle) -> JsonObject:
        """Return the bundle as it is stored, with the limits that its runner must know."""
        return {**bundle.model_dump(), "max_result_bytes": self._context.settings.max_result_bytes}

    def submit(self, caller: Caller, submission: JobSubmission, key: str | None) -> tuple[JobView, bool]:
        """Store a new job and queue it; return the job and True.

        If the caller sent the same request with this idempotency key before, that earlier job is returned with False.
        Raises `KeyReused` if the earlier request was another one, `Conflict` if its job is being deleted, and another
        `UserError` if the queue, a secret or the software may not be used, a limit of jobs or of the bundle is
        exceeded, or the job could never run. Raises `StorageFull` if the disk has no room.
        """
        self._context.remember_groups(caller)
        request_hash = hash_request(submission) if key else ""
        if key and (known := find_earlier_job(self._context, caller, key, request_hash)):
            return self._presenter.job(known), False
        manifest = submission.bundle.manifest
        check_secrets(self._context, manifest.secrets, manifest.environment)
        chosen = find_image(self._context.images, submission.software, manifest.kernel.name)
        self._check_limits(caller, submission)
        check_disk(self._context, caller.user)
        check_earlier_job(self._context, caller, submission)  # again: it may have been deleted meanwhile
        self._context.store.require_room()
        workload = build_workload(self._context, caller, submission, f"job-{self._context.new_id()}")
        workload = replace(workload, name=_job_name(submission))
        record = Record(
            workload=workload,
            detail=replace(
                _make_detail(manifest, chosen or self._find_image(caller, submission)),
                software=submission.software,
                continue_from=submission.continue_from,
                request_hash=request_hash,
                owner_groups=caller.groups,
                group=submission.group,
                group_parallel=submission.group_parallel or 0,
                group_metric=submission.group_metric,
                group_mode=submission.group_mode,
            ),
            idempotency_key=key or None,
        )
        details: JsonObject = {"tasks": workload.tasks, "priority": workload.priority}
        if record.detail.secrets:
            details["secrets"] = ", ".join(record.detail.secrets)
        if record.detail.software:
            details["software"] = record.detail.software
        if record.detail.continue_from:
            details["continue_from"] = record.detail.continue_from
        if self._needs_admin(caller, workload):
            details["as_admin"] = True
        entry = act_of(caller, Action.JOB_SUBMIT, workload, workload.submitted_at, **details)
        self._store_job(record, submission.bundle, entry)
        self._context.wake()
        return self._presenter.job(record), True

    def cancel(self, caller: Caller, job: str) -> JobView:
        """Cancel a job, and return its present view. A pending job ends at once.

        A running job is told to stop, and has a few seconds to save its state; a job that is being paused ends instead.
        A job that is being cancelled does not change. Raises `Conflict` if the job has ended.
        """
        changes = self._cancel_changes(caller, job)
        if changes:
            self._context.records.commit(changes)
            self._context.wake()
        return self.show(caller, job)

    def cancel_many(self, caller: Caller, names: Sequence[str]) -> CancelledJobs:
        """Cancel several jobs in one commit, as `cancel` does, and return them.

        Jobs that cannot be cancelled are returned with the reason, and do not keep the others from being cancelled.
        """
        changes: list[Change] = []
        refused: dict[str, RefusedJob] = {}
        for name in dict.fromkeys(names):
            try:
                changes += self._cancel_changes(caller, name)
            except UserError as error:
                refused[name] = RefusedJob(job=name, code=error.code, message=str(error))
        if changes:
            self._context.records.commit(changes)
            self._context.wake()
        cancelled = [
            find_changeable_job(self._context, caller, name) for name in dict.fromkeys(names) if name not in refused
        ]
        return CancelledJobs(
            jobs=self._presenter.show_each(cancelled, self._presenter.job_summary), refused=list(refused.values())
        )

    def show(self, caller: Caller, job: str) -> JobView:
        """Return the present view of a job that the caller may change."""
        return self._presenter.job(find_changeable_job(self._context, caller, job))

    def read_usage(self, caller: Caller, job: str) -> JobUsage:
        """Return how a job that the caller may change uses its GPUs, or used them in its last run."""
        return self._presenter.job_usage(find_changeable_job(self._context, caller, job))

    def read_outputs(self, caller: Caller, job: str, after: int) -> OutputPage:
        """Return the next `PAGE` pieces of output after number `after`, and whether no more can follow them.

        No more can follow once the job has ended, all stored pieces are shown, and no ended run has outputs that are
        not stored yet.
        """
        record = find_job(self._context, caller, job)
        page = PageSize(entries=PAGE, size=self._context.settings.max_page_bytes)
        pieces = self._context.store.outputs(job, after, page)
        last = self._context.last_seq(job)
        shown = pieces[-1].seq if pieces else after
        delivering = any(workload == job for workload, _ in self._context.ended_runs)
        finished = record.workload.state in FINAL and shown >= last and not delivering
        return OutputPage(
            events=[{**piece.payload, "seq": piece.seq} for piece in pieces], last_seq=last, finished=finished
        )

    async def read_notebook(self, caller: Caller, job: str) -> JsonObject:
        """Return the executed notebook with the outputs so far; raise `NotFound` before the first cell has run."""
        record = find_job(self._context, caller, job)
        bundles, owner = self._context.bundles, record.workload.owner
        is_outside = partial(bundles.is_outside, job, owner, None, 0)
        notebook = await run_where_it_is_kept(caller.user, is_outside, bundles.executed_notebook, job, owner)
        if notebook is None:
            raise NotFound(f"The job {record.workload.name!r} has no executed notebook yet: it has not run a cell.")
        return notebook

    def read_log(self, caller: Caller, job: str, task: int | None = None) -> str:
        """Return the last `LOG_TAIL` bytes of the log of the job's last run as text; "" if there is no log.

        With `task`, return the log of that task alone; otherwise those of all tasks, each with a part of the bytes.
        Raises `NotFound` if the job has no such task.
        """
        workload = find_job(self._context, caller, job).workload
        tasks = choose_tasks(workload, task)
        return self._context.bundles.log(job, workload.owner, LOG_TAIL, run=workload.run, tasks=tasks) or ""

    def read_results(self, caller: Caller, job: str) -> JobResults:
        """Return what a job brings back; raise `NotFound` before there is something.

        Raises `UnusableFile` if the job has put something else into the place of the list.
        """
        workload = find_job(self._context, caller, job).workload
        document = self._context.bundles.results(job, workload.owner)
        if document is None:
            raise NotFound(f"The job {workload.name!r} has brought nothing back.")
        return parse_results(document)

    async def read_result_part(self, caller: Caller, job: str, path: str, start: int) -> bytes:
        """Return at most `RESULT_PART` bytes of a result from byte `start` on; empty at its end.

        Raises `NotFound` if there is nothing though the job's list names more, `ContentsUnavailable` if it cannot be
        fetched now, and `NotYours` for everybody but the owner, administrators too: a value may hold secrets, and
        loading the pickle of another user runs that user's code.
        """
        workload = find_job(self._context, caller, job).workload
        if caller.user != workload.owner:
            raise NotYours(f"Only {workload.owner} can read what the job {workload.name!r} brings back.")
        is_outside = partial(self._context.bundles.is_outside, job, workload.owner, path, start)
        return await run_where_it_is_kept(caller.user, is_outside, self._read_result_part, workload, path, start)

    def _read_result_part(self, workload: Workload, path: str, start: int) -> bytes:
        """Return what `read_result_part` does, and raise `NotFound` and `ContentsUnavailable` as it does."""
        bundles, job = self._context.bundles, (workload.id, workload.owner)
        content = bundles.result_part(*job, path, start, RESULT_PART)
        if not content and is_missing(bundles.results(*job), path, start):
            raise NotFound(f"The job {workload.name!r} has no result {quoted(path)}, or it was deleted.")
        return content

    # --- requests of the job's own runner

    def append_outputs(self, job: str, events: Sequence[JsonObject]) -> int:
        """Store new pieces of a job's output, and announce them; return the number of the last stored piece.

        Pieces without a valid number are ignored, and pieces after a gap are not stored. A note and marks replace
        pieces beyond the limits of a job. An error in the output is recorded with the job, and the first output of a
        starting run wakes the loop.
        """
        pieces = [
            OutputPiece(seq=seq, payload=dict(event)) for event in events if (seq := _read_seq(event)) is not None
        ]
        before = self._context.last_seq(job)
        last = self._output_limits.append(job, [piece for piece in pieces if piece.seq > before])
        self._context.last_seqs[job] = last
        record = self._context.records.get(job)
        if last > before and record is not None:
            self._record_error(record, [piece.payload for piece in pieces if before < piece.seq <= last])
            self._context.broker.announce(record.workload.owner, "output", job, {"job": job, "last_seq": last})
            if record.workload.state is State.STARTING:
                self._context.wake()
        return last

    def record_heartbeat(self, job: str, beat: Heartbeat) -> None:
        """Record the progress of a run and when it last saved its state, in memory only.

        New progress and the first checkpoint are announced. Does nothing for a run other than the present one, or for a
        job that has ended.
        """
        record = self._context.records.find_unfinished(job)
        if record is None or beat.run != record.workload.run:
            return
        stored, now = record.workload.checkpointed_at, self._context.clock.now()
        saved = self.saved_times.note(job, beat.run, beat.saved_at, stored, now)
        if saved is not None and saved != stored:
            self._context.records.change_in_memory(Change(workload=job, fields=WorkloadChange(checkpointed_at=saved)))
            if stored is None:  # from now on a pause costs less
                self._presenter.announce(job)
        if beat.progress is None:
            return
        progress = Progress(fraction=beat.progress.fraction, text=strip_controls(beat.progress.text, lines=True))
        if record.detail.progress != progress:
            self._context.records.change_in_memory(Change(workload=job, detail=DetailChange(progress=progress)))
            self._presenter.announce(job)

    # --- inside

    def _needs_admin(self, caller: Caller, job: Workload) -> bool:
        """Tell whether the caller may send the job only as an administrator.

        Without that right, the queue would not admit the caller, or the priority would be too high.
        """
        settings, member = self._context.settings, replace(caller, admin=False)
        (queue,) = (entry for entry in settings.leaves() if entry.queue.name == job.queue)
        return not queue.admits(member.user, member.groups) or job.priority > queue.highest_priority(member)

    def _find_image(self, caller: Caller, submission: JobSubmission) -> str:
        """Return the container image of the caller's server from which the job is sent; "" if it is unknown."""
        server = submission.bundle.manifest.server
        found = [
            record.workload
            for record in self._context.records.notebooks()
            if record.workload.holds and (record.workload.owner, record.workload.name) == (caller.user, server)
        ]
        newest = max(found, key=lambda workload: workload.submission, default=None)
        return "" if newest is None else self._pods.image_of(newest.id)

    def _store_job(self, record: Record, bundle: Bundle, audit: AuditEntry) -> None:
        """Store the files of a new job, then its record and audit entry; delete the files if the record is refused.

        If the store does not answer, the files stay, since the record may have been saved. Errors are raised.
        """
        workload, context = record.workload, self._context
        document = self._make_document(bundle)
        self._files.keep(workload.id, workload.owner, bundle.manifest)
        try:
            content = b"" if context.bundles.pod_files is not None else self._files.read_all(workload.id)
            context.bundles.write(workload.id, workload.owner, document, context.settings.max_bundle_bytes, content)
            context.records.add(record, audit)
        except StoreUnavailable:
            raise  # the record may have been saved; if not, the next service that takes over deletes the files
        except JupyterGQError:
            context.bundles.withdraw(workload.id, workload.owner)
            context.store.delete_files(workload.id)
            raise

    def _cancel_changes(self, caller: Caller, job: str) -> Sequence[Change]:
        """Return the change that cancels a job of the caller; none if it is being cancelled already.

        Raises `NotFound`, or `Conflict` if the job has ended.
        """
        record = find_changeable_job(self._context, caller, job)
        workload = record.workload
        if workload.state in FINAL:
            phase = describe_phase(self._presenter.job(record).phase)
            raise Conflict(f"The job {workload.name!r} {phase} already; there is nothing to cancel.")
        is_ending = workload.stop is not None and not workload.stop.requeue
        return [] if is_ending else [self._cancel_change(workload, caller)]

    def _cancel_change(self, workload: Workload, caller: Caller) -> Change:
        """Return the change that cancels a job: at once if it holds no devices, else by telling its run to stop."""
        now = self._context.clock.now()
        by = None if caller.user == workload.owner else caller.user
        neutral = "an administrator" if caller.admin else "a manager of the queue"
        who = "" if by is None else f" by {mention(by, by, neutral)}"
        detail = DetailChange(sentence=f"Cancelled{who}.")
        audit = act_of(caller, Action.JOB_CANCEL, workload, now)
        if not workload.holds:
            fields = WorkloadChange(finished_at=now)
            return Change(workload=workload.id, event=Event.CANCELLED, fields=fields, detail=detail, audit=audit)
        stop = Stop(
            reason=EvictReason.STOPPED_BY_USER,
            sentence="Cancelling: it has a few seconds to save its state.",
            by=by,
            at=now,
            requeue=False,
        )
        if workload.stop is not None:
            # The job is being paused; from now on it ends instead.
            return Change(workload=workload.id, fields=WorkloadChange(stop=stop), detail=detail, audit=audit)
        return make_stop_change(workload, stop, detail, audit)

    def _record_error(self, record: Record, pieces: Sequence[JsonObject]) -> None:
        """Record the last error among these pieces of output, in memory only, unless the job has ended."""
        for piece in pieces:
            output = piece.get("output")
            if piece.get("op") == "append" and isinstance(output, dict) and output.get("output_type") == "error":
                error = _read_error(output)
                if error is not None and self._context.records.find_unfinished(record.workload.id):
                    self._context.records.change_in_memory(
                        Change(workload=record.workload.id, detail=DetailChange(error=error))
                    )


def _make_detail(manifest: Manifest, image: str) -> WorkloadDetail:
    """Return the detail of a new job, from its manifest and its container image."""
    return WorkloadDetail(
        server=manifest.server,
        notebook_path=manifest.notebook_path,
        cwd=manifest.cwd,
        mode=manifest.mode,
        targets=_source_cells(manifest.targets),
        prefix=_source_cells(manifest.prefix),
        left_out_cells=None if manifest.left_out_cells is None else tuple(manifest.left_out_cells),
        carries_variables=manifest.carried is not None,
        returns=tuple(manifest.returns),
        secrets=tuple(manifest.secrets),
        image=image,
    )


def _source_cells(cells: Sequence[CellRef]) -> tuple[SourceCell, ...]:
    return tuple(SourceCell(cell_id=c.cell_id, source_hash=c.source_hash, seconds=c.seconds) for c in cells)


def _read_error(output: JsonObject) -> CodeError | None:
    """Return the name and text of an output of type `error`, each shortened; None if the output is malformed."""
    try:
        error = JobError(ename=output.get("ename", ""), evalue=str(output.get("evalue", "")))
    except ValidationError:
        return None
    return CodeError(
        ename=strip_controls(error.ename[:_ERROR_TEXT]), evalue=strip_controls(error.evalue[:_ERROR_TEXT], lines=True)
    )


def _read_seq(event: JsonObject) -> int | None:
    """Return the number of a piece of output; None if it has no number, or one that is not above 0."""
    seq = event.get("seq")
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and seq > 0 else None


def _job_name(submission: JobSubmission) -> str:
    """Return the name of a new job: the one that its owner wrote, else that of the notebook's file, else "job".

    Control and bidirectional characters and repeated spaces are removed.
    """
    stem = PurePosixPath(submission.bundle.manifest.notebook_path).stem
    names = (" ".join(strip_controls(written).split()) for written in (submission.name, stem))
    return next(filter(None, names), "job")
