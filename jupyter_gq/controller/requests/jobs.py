"""The requests of users and runners about jobs. A request is checked completely before anything is stored."""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
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
from jupyter_gq.controller.results import RESULT_PART, find_size, parse_results
from jupyter_gq.controller.views.presenter import Presenter
from jupyter_gq.domain.amount import Instant, format_memory
from jupyter_gq.domain.audit import Action, AuditEntry
from jupyter_gq.domain.errors import (
    Conflict,
    JupyterGQError,
    KeyReused,
    LimitReached,
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

from .job_access import find_changeable_job, find_job
from .job_checks import check_limits_of_queue, check_limits_of_user
from .job_secrets import check_secrets
from .job_software import find_image
from .logs import choose_tasks
from .new_workload import build_workload
from .output_limits import OutputLimits
from .pods import JobPods
from .project_files import ProjectFiles
from .request_hash import hash_request, is_same_request

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

    async def check_folder(self, caller: Caller, submission: JobSubmission, key: str | None) -> None:
        """Raise `UnusableFolder` if it is known that the job cannot run in its working folder.

        A job that runs in a folder of its own is not checked. If the caller has made a job with this idempotency key
        before, nothing is checked either.
        """
        manifest = submission.bundle.manifest
        find_fault = self._context.backend_of(Kind.TRAINING).capabilities.find_folder_fault
        is_sent_again = key is not None and self._context.store.by_idempotency_key(caller.user, key) is not None
        if find_fault is None or manifest.files or manifest.own_folder or is_sent_again:
            return
        # In a thread: a file system that does not answer must not keep other requests waiting.
        if fault := await asyncio.to_thread(find_fault, caller.user, manifest.cwd):
            raise UnusableFolder(manifest.cwd, fault)

    def submit(self, caller: Caller, submission: JobSubmission, key: str | None) -> tuple[JobView, bool]:
        """Store a new job and queue it; return the job and True.

        If the caller sent the same request with this idempotency key before, that earlier job is returned with False.
        Raises `KeyReused` if the earlier request was another one, and a `UserError` if the queue may not be used, a
        limit of jobs or of the bundle is exceeded, or the job could never run.
        """
        self._context.remember_groups(caller)
        request_hash = hash_request(submission) if key else ""
        if key:
            known = self._context.store.by_idempotency_key(caller.user, key)
            if known is not None:
                _check_same_request(key, known, request_hash)
                return self._presenter.job(self._context.records.get(known.workload.id) or known), False
        manifest = submission.bundle.manifest
        check_secrets(self._context, caller, manifest.secrets, manifest.environment)
        chosen = find_image(self._context.images, submission.software, manifest.kernel.name)
        check_limits_of_user(self._context.settings, self._context.records, caller.user)
        check_limits_of_queue(self._context.settings, self._context.records, submission.queue)
        self._check_disk(caller)
        self._context.store.require_room()
        workload = build_workload(self._context, caller, submission, f"job-{self._context.new_id()}")
        workload = replace(workload, name=_job_name(submission))
        record = Record(
            workload=workload,
            detail=replace(
                _make_detail(manifest, chosen or self._find_image(caller, submission)),
                software=submission.software,
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
        # In a thread: a notebook with many outputs must not keep other requests waiting.
        notebook = await asyncio.to_thread(self._context.bundles.executed_notebook, job, record.workload.owner)
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

    def read_result_part(self, caller: Caller, job: str, path: str, start: int) -> bytes:
        """Return the next bytes of a result from `start` on, at most `RESULT_PART`; empty at its end.

        Raises `NotFound` if there is no such result, or none any more. Raises `NotYours` for everybody but the owner,
        administrators too: a value may hold secrets, and who loads the pickle of another user runs that user's code.
        """
        workload = find_job(self._context, caller, job).workload
        if caller.user != workload.owner:
            raise NotYours(f"Only {workload.owner} can read what the job {workload.name!r} brings back.")
        content = self._context.bundles.result_part(job, workload.owner, path, start, RESULT_PART)
        if not content and start == 0 and find_size(self._context.bundles.results(job, workload.owner), path) != 0:
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
        """Record the progress of a run and when it last saved its state, in memory only; new progress is announced.

        Does nothing for a run other than the present one, or for a job that has ended.
        """
        record = self._context.records.find_unfinished(job)
        if record is None or beat.run != record.workload.run:
            return
        if beat.saved_at is not None:
            saved = Instant(min(beat.saved_at, self._context.clock.now()))
            if record.workload.checkpointed_at != saved:
                self._context.records.change_in_memory(
                    Change(workload=job, fields=WorkloadChange(checkpointed_at=saved))
                )
        if beat.progress is None:
            return
        progress = Progress(fraction=beat.progress.fraction, text=strip_controls(beat.progress.text, lines=True))
        if record.detail.progress != progress:
            self._context.records.change_in_memory(Change(workload=job, detail=DetailChange(progress=progress)))
            self._presenter.announce(job)

    # --- inside

    def _check_disk(self, caller: Caller) -> None:
        """Raise `LimitReached` if the files of the user's jobs take more disk than the settings allow."""
        limit, uses = self._context.settings.max_user_disk, self._context.disk_uses
        used = uses.of_user(caller.user)
        if limit and used > limit:
            job, most = uses.largest_job(caller.user)
            raise LimitReached(
                f"The files of your jobs take {format_memory(used)} of disk, and at most {format_memory(limit)} are "
                f"allowed. Delete checkpoints that you do not need, such as those of {job} ({format_memory(most)}), "
                "and try again some minutes later; or ask your administrator for c.TrainingQueues.max_user_disk."
            )

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
        limits = {"max_result_bytes": context.settings.max_result_bytes}
        document = {**bundle.model_dump(), **limits}
        self._files.keep(workload.id, workload.owner, bundle.manifest)
        try:
            content = b"" if context.bundles.pod_files is not None else self._files.read_all(workload.id)
            context.bundles.write(workload.id, workload.owner, document, context.settings.max_bundle_bytes, content)
            context.records.add(record, audit)
        except StoreUnavailable:
            raise  # the record may have been saved; if not, the next service that takes over deletes the files
        except JupyterGQError:
            context.store.delete_files(workload.id)
            context.bundles.delete(workload.id, workload.owner)
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
        returns=tuple(manifest.returns),
        secrets=tuple(manifest.secrets),
        image=image,
    )


def _check_same_request(key: str, known: Record, request_hash: str) -> None:
    """Raise `KeyReused` if the job that a key has made before was asked for by another request."""
    if not is_same_request(known.detail.request_hash, request_hash):
        raise KeyReused(
            f"The Idempotency-Key {quoted(key)} belongs to another request, which made the job "
            f"{known.workload.name!r} ({known.workload.id}). Send a new job with a new key, or repeat that request "
            "unchanged."
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
