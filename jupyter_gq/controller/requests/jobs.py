"""The requests of users and runners about jobs. Each request is checked as a whole before anything is stored."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from pathlib import PurePosixPath

from pydantic import ValidationError

from jupyter_gq.client.models import (
    Bundle,
    CellRef,
    Heartbeat,
    JobError,
    JobList,
    JobRequest,
    JobSubmission,
    JobView,
    Manifest,
    OutputPage,
    Preview,
)
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.act import make_stop_change
from jupyter_gq.controller.loop.decide import Decider
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.controller.views.presenter import Presenter
from jupyter_gq.controller.views.views import said_cpus, said_memory
from jupyter_gq.domain.amount import Instant, Seconds, format_gpus, parse_request
from jupyter_gq.domain.errors import (
    Conflict,
    JupyterGQError,
    NeverFits,
    NotAMember,
    NotFound,
    PriorityTooHigh,
    StoreUnavailable,
    UnknownQueue,
)
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import FINAL, Event, State
from jupyter_gq.domain.workload import Kind, Stop, Workload
from jupyter_gq.domain.workload_detail import CodeError, Progress, SourceCell, WorkloadDetail
from jupyter_gq.scheduling.preview import admission
from jupyter_gq.store.protocol import OutputEvent, Record

from .job_resources import whose, with_host_resources
from .pods import JobPods

log = logging.getLogger(__name__)

#: Pieces of output in one page, and bytes of a log.
PAGE = 1_000
LOG_TAIL = 64 * 1024
#: How much of an error's text is shown with the job.
_ERROR_TEXT = 500


class Jobs:
    """The requests about jobs. A job that is not the caller's is `NotFound`."""

    def __init__(self, context: Context, presenter: Presenter, pods: JobPods, decider: Decider) -> None:
        self._context, self._presenter, self._pods, self._decider = context, presenter, pods, decider

    def submit(self, caller: Caller, submission: JobSubmission, key: str | None) -> tuple[JobView, bool]:
        """Queue a job. With a key that was seen before: the job of that time, and False."""
        self._context.meet(caller)
        if key:
            known = self._context.store.by_idempotency_key(caller.user, key)
            if known is not None:
                return self._presenter.job(self._context.records.get(known.workload.id) or known), False
        workload = self._checked(caller, submission, f"job-{self._context.new_id()}")
        workload = replace(workload, name=_name(submission))
        record = Record(
            workload=workload,
            detail=_detail(submission.bundle.manifest, self._image(caller, submission)),
            idempotency_key=key or None,
        )
        self._keep(record, submission.bundle)
        self._context.wake()
        return self._presenter.job(record), True

    def preview(self, caller: Caller, request: JobRequest) -> Preview:
        """Return what would happen if the job were submitted now; refuse for the same reasons as `submit`."""
        workload = self._checked(caller, request, "preview")
        (outlook,) = self._decider.preview(caller, [workload])
        return Preview(
            starts_now=outlook.starts_now,
            sentence=outlook.sentence,
            position=outlook.position,
            over_quota=format_gpus(outlook.over_quota) if outlook.over_quota else None,
            cpus=said_cpus(workload.request.cpu_milli),
            memory=said_memory(workload.request.memory),
        )

    def cancel(self, caller: Caller, job: str) -> JobView:
        """End it for good. One that runs has a few seconds to save its state. `Conflict` when it is final."""
        record = self._own(caller, job)
        workload = record.workload
        if workload.state in FINAL:
            phase = self._presenter.job(record).phase
            raise Conflict(f"The job {workload.name!r} is {phase} already; there is nothing to cancel.")
        if workload.stop is None or workload.stop.requeue:
            self._context.records.commit([self._end_of(workload, caller)])
            self._context.wake()
        return self._presenter.job(self._own(caller, job))

    def show(self, caller: Caller, job: str) -> JobView:
        """Return one job."""
        return self._presenter.job(self._own(caller, job))

    def list(self, caller: Caller, *, limit: int, before: str | None, owner: str | None = None) -> JobList:
        """Newest first. `owner`: only for admins; "*" = everybody."""
        whose = caller.user
        if owner is not None and caller.admin:
            whose = owner
        found = self._context.store.list(
            kind=Kind.TRAINING, owner=None if whose == "*" else whose, limit=limit + 1, before=before
        )
        shown = [self._context.records.alive(record.workload.id) or record for record in found[:limit]]
        following = shown[-1].workload.id if len(found) > limit and shown else None
        return JobList(jobs=[self._presenter.job(record) for record in shown], next=following)

    def read_outputs(self, caller: Caller, job: str, after: int) -> OutputPage:
        """Return the next pieces of output after the piece `after`."""
        record = self._own(caller, job)
        pieces = self._context.store.outputs(job, after, PAGE)
        last = self._context.last_seq(job)
        shown = pieces[-1].seq if pieces else after
        finished = record.workload.state in FINAL and shown >= last
        return OutputPage(
            events=[{**piece.payload, "seq": piece.seq} for piece in pieces], last_seq=last, finished=finished
        )

    def read_notebook(self, caller: Caller, job: str) -> JsonObject:
        """Return the notebook with its outputs so far; raise `NotFound` before there is one."""
        record = self._own(caller, job)
        notebook = self._context.bundles.executed_notebook(job, record.workload.owner)
        if notebook is None:
            raise NotFound(f"The job {record.workload.name!r} has no executed notebook yet: it has not run a cell.")
        return notebook

    def read_log(self, caller: Caller, job: str) -> str:
        """Return the end of the log of the newest run; "" before there is one."""
        record = self._own(caller, job)
        return self._context.bundles.log(job, record.workload.owner, LOG_TAIL) or ""

    # --- the job's own runner

    def append_outputs(self, job: str, events: Sequence[JsonObject]) -> int:
        """Store new pieces; return up to which piece all is stored. Pieces after a gap are not taken."""
        pieces = [OutputEvent(seq=seq, payload=dict(event)) for event in events if (seq := _seq(event)) is not None]
        before = self._context.last_seq(job)
        last = self._context.store.append_outputs(job, pieces)
        self._context.seqs[job] = last
        record = self._context.records.get(job)
        if last > before and record is not None:
            self._note_error(record, [piece.payload for piece in pieces if before < piece.seq <= last])
            self._context.broker.mention(record.workload.owner, "output", job, {"job": job, "last_seq": last})
            if record.workload.state is State.STARTING:
                self._context.wake()
        return last

    def record_heartbeat(self, job: str, beat: Heartbeat) -> None:
        """Record that the runner is alive, its progress, and when its state was saved."""
        record = self._context.records.alive(job)
        if record is None or beat.run != record.workload.run:
            return
        if beat.saved_at is not None:
            saved = Instant(min(beat.saved_at, self._context.clock.now()))
            if record.workload.checkpointed_at != saved:
                self._context.records.note(Change(workload=job, fields=WorkloadChange(checkpointed_at=saved)))
        if beat.progress is None:
            return
        progress = Progress(fraction=beat.progress.fraction, text=beat.progress.text)
        if record.detail.progress != progress:
            self._context.records.note(Change(workload=job, detail=DetailChange(progress=progress)))
            self._presenter.mention(job)

    # --- inside

    def _own(self, caller: Caller, job: str) -> Record:
        record = None if job in self._context.deleting else self._context.records.get(job)
        if record is None or record.workload.kind is not Kind.TRAINING or not caller.may_see(record.workload.owner):
            raise NotFound(f"There is no job {job!r}.")
        return record

    def _image(self, caller: Caller, submission: JobSubmission) -> str:
        """Return the image of the server that the job is sent from, which has what its code needs; "" if unknown."""
        server = submission.bundle.manifest.server
        found = [
            record.workload
            for record in self._context.records.notebooks()
            if record.workload.holds and (record.workload.owner, record.workload.name) == (caller.user, server)
        ]
        newest = max(found, key=lambda workload: (workload.submitted_at, workload.id), default=None)
        return "" if newest is None else self._pods.image_of(newest.id)

    def _checked(self, caller: Caller, request: JobRequest, name: str) -> Workload:
        """Return the workload of a request; raise if it could never run."""
        settings = self._context.settings
        known = {entry.queue.name: entry for entry in settings.leaves()}
        usable = settings.leaves_of(caller.user, caller.groups)
        if request.queue not in known:
            raise UnknownQueue(request.queue, usable)
        if request.queue not in usable and not caller.admin:
            raise NotAMember(caller.user, request.queue, usable)
        highest = known[request.queue].highest_priority(caller)
        if request.priority > highest:
            raise PriorityTooHigh(requested=request.priority, highest=highest, queue=request.queue)
        workload = Workload(
            id=name,
            kind=Kind.TRAINING,
            owner=caller.user,
            name=request.name,
            queue=request.queue,
            request=with_host_resources(
                self._context.request(Kind.TRAINING, parse_request(request.gpus)),
                request,
                settings.defaults_of(request.queue),
            ),
            tasks=request.tasks,
            min_members=request.tasks,
            priority=request.priority,
            estimate=None if request.expected_seconds is None else Seconds(request.expected_seconds),
            submitted_at=self._context.clock.now(),
        )
        try:
            admission.check_fits(self._context.empty_snapshot([caller]), workload)
        except NeverFits as refusal:
            raise whose(refusal, request) from refusal
        return workload

    def _keep(self, record: Record, bundle: Bundle) -> None:
        """Files first, then the record; when the record is not saved, no file stays."""
        workload, context = record.workload, self._context
        context.bundles.write(workload.id, workload.owner, bundle.model_dump(), context.settings.max_bundle_bytes)
        try:
            context.records.add(record)
        except StoreUnavailable:
            raise  # the record may have been saved; files without a record go when the next service takes over
        except JupyterGQError:
            context.bundles.delete(workload.id, workload.owner)
            raise

    def _end_of(self, workload: Workload, caller: Caller) -> Change:
        now = self._context.clock.now()
        by = None if caller.user == workload.owner else caller.user
        detail = DetailChange(sentence=f"Cancelled by {by}." if by else "Cancelled.")
        if not workload.holds:
            fields = WorkloadChange(finished_at=now)
            return Change(workload=workload.id, event=Event.CANCELLED, fields=fields, detail=detail)
        stop = Stop(
            reason=EvictReason.STOPPED_BY_USER,
            sentence="Cancelling: it has a few seconds to save its state.",
            by=by,
            at=now,
            requeue=False,
        )
        if workload.stop is not None:
            # The job is being paused: from now on it is being ended.
            return Change(workload=workload.id, fields=WorkloadChange(stop=stop), detail=detail)
        return make_stop_change(workload, stop, detail)

    def _note_error(self, record: Record, pieces: Sequence[JsonObject]) -> None:
        for piece in pieces:
            output = piece.get("output")
            if piece.get("op") == "append" and isinstance(output, dict) and output.get("output_type") == "error":
                error = _job_error(output)
                if error is not None and self._context.records.alive(record.workload.id):
                    self._context.records.note(Change(workload=record.workload.id, detail=DetailChange(error=error)))


def _detail(manifest: Manifest, image: str) -> WorkloadDetail:
    """Return what the record of a new job keeps of its manifest."""
    return WorkloadDetail(
        server=manifest.server,
        notebook_path=manifest.notebook_path,
        cwd=manifest.cwd,
        mode=manifest.mode,
        targets=_cells(manifest.targets),
        prefix=_cells(manifest.prefix),
        image=image,
    )


def _cells(cells: Sequence[CellRef]) -> tuple[SourceCell, ...]:
    return tuple(SourceCell(cell_id=c.cell_id, source_hash=c.source_hash, seconds=c.seconds) for c in cells)


def _job_error(output: JsonObject) -> CodeError | None:
    try:
        error = JobError(ename=output.get("ename", ""), evalue=str(output.get("evalue", ""))[:_ERROR_TEXT])
    except ValidationError:
        return None
    return CodeError(ename=error.ename, evalue=error.evalue)


def _seq(event: JsonObject) -> int | None:
    seq = event.get("seq")
    return seq if isinstance(seq, int) and not isinstance(seq, bool) and seq > 0 else None


def _name(submission: JobSubmission) -> str:
    """Return the name that the owner wrote, else the name of the notebook."""
    written = " ".join(submission.name.split())
    return written or PurePosixPath(submission.bundle.manifest.notebook_path).stem or "job"
