"""Carrying decisions out: they are recorded first, and then the backends are reconciled with the records.

Rules
-----
Intent first: the intent is saved before the backend is called, ADMITTED before `launch` and STOPPING before `stop`. So
a crash at any instant leaves a record from which the next step goes on, and nothing is done twice (backends are
idempotent).

Records decide: calls of a backend follow from the records alone, not from the decision. ADMITTED work is launched, and
STOPPING work is stopped.

Unobserved backends: a workload whose backend could not be observed is left alone, because it may run already.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from dataclasses import replace
from functools import partial

from jupyter_gq.backends.protocol import Launch, Observation, hash_token
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.records.acts import act_of_scheduler
from jupyter_gq.controller.records.changes import NEW_RUN, Change, DetailChange, WorkloadChange
from jupyter_gq.controller.suspended_runs import has_suspended_run
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.audit import Action, AuditEntry
from jupyter_gq.domain.errors import BackendError, StartUnanswered, StorageFull, StoreUnavailable, Superseded
from jupyter_gq.domain.mentions import mention, reveal
from jupyter_gq.domain.plain_text import strip_controls
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import FINAL, Event, State
from jupyter_gq.domain.workload import Kind, RunKey, Stop, Workload
from jupyter_gq.domain.workload_detail import Eviction, Place
from jupyter_gq.scheduling.decision import (
    Admit,
    Decision,
    Evict,
    Grow,
    Instruction,
    Reserve,
    Resume,
    Shrink,
    Suspend,
    Unwarn,
    Warn,
)
from jupyter_gq.scheduling.idle.idle_rule import is_heard
from jupyter_gq.scheduling.idle.lending import is_wanted_back
from jupyter_gq.scheduling.wording import describe_preemptor
from jupyter_gq.store.protocol import Record

from .attempts import attempt
from .runs.given_back import GivenBackShares
from .runs.observed_runs import ObservedRuns
from .runs.resizing import needs_resize, plan_resize, stops_of_leaving
from .runs.run_end import make_backoff_change
from .runs.stop_times import StoppingRuns
from .shares import act_on_share, admit_resume, plan_suspension
from .suspended_jobs import act_on_job_share, plan_job_suspension, resume_job, suspend_instead, was_to_be_suspended

log = logging.getLogger(__name__)

#: Environment variable that tells a runner for how many seconds it may go on after SIGTERM.
STOP_GRACE = "GQ_STOP_GRACE"
#: Number of launches that are recorded together: each write to the disk takes time.
LAUNCHES_PER_WRITE = 50


class Executor:
    """Records decisions, and reconciles the backends with the records."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Tokens of runs that are about to be launched. No other object keeps a token in plain text.
        self._tokens: dict[RunKey, str] = {}
        self._stopping = StoppingRuns()
        #: Ids of workloads whose launch has not been recorded yet.
        self._launched: list[str] = []
        self._given_back = GivenBackShares(context, self._stopping)

    # --- from the decision to the records

    def record_decision(self, decision: Decision) -> None:
        """Save all instructions of a decision in one commit; a workload whose instruction fails is set aside.

        If the commit is impossible, the instructions of each workload are saved alone. Errors of the store are raised.
        """
        changes: list[Change] = []
        for instruction in decision.instructions:
            make = partial(self._changes, instruction)
            changes.extend(self._context.set_aside.attempt(instruction.workload, "deciding", make) or ())
        self._context.records.commit_each(changes)

    def _changes(self, instruction: Instruction) -> list[Change]:
        """Return the changes by which an instruction is recorded; none for an unknown workload.

        Tokens are made.
        """
        record = self._context.records.get(instruction.workload)
        if record is None:
            return []
        match instruction:
            case Admit():
                return [self._admission(record, instruction)]
            case Evict():
                return self._eviction(record, instruction)
            case Reserve(placement=placement, nominated=nominated):
                fields = WorkloadChange(reserved=placement, nominated=nominated)
                return [Change(workload=record.workload.id, fields=fields)]
            case Warn():
                return _activity_change(record, instruction.expire_at, instruction.sentence, lends=instruction.lends)
            case Unwarn():
                return _activity_change(record, None, "")
            case Suspend():
                return plan_suspension(record, instruction, self._context.clock.now())
            case Resume():
                return admit_resume(record, instruction)
            case Grow() | Shrink():
                return plan_resize(record, instruction, self._context.clock.now())

    def _admission(self, record: Record, admit: Admit) -> Change:
        """Return the change that begins a new run of a job or notebook on the devices of the instruction.

        For a job, make the token of the run as well, and keep it until the launch. A job with a suspended run goes on
        with that run.
        """
        if has_suspended_run(record):
            return _readmission(record, admit, self._context.clock.now())
        workload = self._context.with_memory_part(record.workload)
        run = workload.run + 1
        fields = WorkloadChange(
            placement=admit.placement, reserved=(), nominated=False, run=run, started_at=self._context.clock.now()
        )
        if workload.request != record.workload.request:
            fields["request"] = workload.request
        place = DetailChange(place=Place.of(admit.placement), over_quota=admit.over_quota, sentence="")
        return Change(
            workload=workload.id,
            event=Event.ADMITTED,
            fields=fields,
            detail={**place, **NEW_RUN},
            token_hash=self._new_token(workload, run),
        )

    def _eviction(self, record: Record, evict: Evict) -> list[Change]:
        """Return the change that tells a run to stop; none if the workload has no run or is stopping already.

        Logs the eviction.
        """
        workload, now = record.workload, self._context.clock.now()
        if not workload.holds or workload.stop is not None:
            return []
        stop = Stop(
            reason=evict.reason,
            sentence=evict.sentence,
            by=evict.by,
            at=now,
            requeue=workload.kind is Kind.TRAINING,
        )
        by = self._context.records.get(evict.by) if evict.by is not None else None
        eviction = Eviction(
            reason=evict.reason.value, sentence=evict.sentence, by=_name_preemptor(evict.reason, by), at=now
        )
        log.info(
            "%s of %s is evicted: %s",
            workload.id,
            workload.owner,
            evict.sentence,
            extra={**workload.log_fields, "reason": evict.reason.value},
        )
        action = Action.NOTEBOOK_EVICT if workload.kind is Kind.NOTEBOOK else Action.JOB_EVICT
        audit = act_of_scheduler(
            action, workload, now, reason=evict.reason.value, for_workload=evict.by, sentence=reveal(evict.sentence)
        )
        detail = DetailChange(eviction=eviction, sentence=evict.sentence)
        detail |= plan_job_suspension(self._context, record, stop)
        return [make_stop_change(workload, stop, detail, audit)]

    # --- from the records to the backends

    async def reconcile(self, observed: ObservedRuns) -> Exception | None:
        """Launch ADMITTED work, stop STOPPING work, and launch again what its backend forgot.

        Workloads of unobserved backends are left alone. Returns the first failure that concerns one workload only; all
        other work is done nevertheless. Errors of the store are raised.
        """
        names = [record.workload.id for record in self._context.records.holding()]
        failure = await self._for_each(
            names, lambda record: self._reconcile_record(record, observed), observed.unobserved
        )
        self._drop_ended_runs()
        return failure

    async def launch_admitted(self, names: Sequence[str]) -> Exception | None:
        """Launch those of these workloads that are ADMITTED; requeue or cancel those that were told to stop.

        Returns the first failure that concerns one workload only, or None.
        """
        return await self._for_each(names, self._launch_if_admitted)

    async def _for_each(
        self, names: Iterable[str], operation: Callable[[Record], Awaitable[None]], left_alone: Set[Kind] = frozenset()
    ) -> Exception | None:
        """Run an operation on each unfinished record, except those of kinds in `left_alone`; record the launches.

        Returns the first failure that concerns one workload only, or None. Errors of the store are raised.
        """
        failure: Exception | None = None
        # Left over if the store failed in the last loop. The next observation tells what became of these launches.
        self._launched = []
        for name in names:
            # Requests are answered while a backend works, so the record may have changed since the loop began.
            record = self._context.records.find_unfinished(name)
            if record is None or record.workload.kind in left_alone:
                continue
            try:
                await operation(record)
            except (StoreUnavailable, Superseded):
                raise  # the records of the other workloads are not known any more
            except Exception as error:  # noqa: BLE001 - a defect of one workload must not keep the others waiting
                failure = failure or error
            if len(self._launched) >= LAUNCHES_PER_WRITE:
                self._record_launches()
                await asyncio.sleep(0)  # lets requests and the backend's own tasks go on
        self._record_launches()
        return failure

    async def _reconcile_record(self, record: Record, observed: ObservedRuns) -> None:
        """Launch an ADMITTED workload, launch a run again that its backend forgot, and stop a STOPPING workload."""
        if self._is_forgotten(record.workload, observed):
            await self._launch_again(record)
        await self._launch_if_admitted(record)
        self._act_on_share(record, observed)
        await self._resize(record, observed)
        ends_suspended = record.workload.state is State.SUSPENDED and record.workload.stop is not None
        if record.workload.state is State.STOPPING or ends_suspended:
            await self._stop(record, observed.find(record.workload.id, record.workload.run))

    def _act_on_share(self, record: Record, observed: ObservedRuns) -> None:
        """Tell a backend that can suspend what the record of a notebook or a job wants of its share."""
        workload = record.workload
        port = self._context.backend_of(workload.kind).capabilities.suspension
        seen = observed.find(workload.id, workload.run)
        if port is None or seen is None:
            return
        if workload.kind is Kind.NOTEBOOK:
            act_on_share(record, seen.share, port, is_idle=self._is_known_to_be_idle(workload))
        else:
            act_on_job_share(record, seen.share, port)

    def _is_known_to_be_idle(self, workload: Workload) -> bool:
        """Return whether a fresh report to this service shows that the notebook is idle."""
        if workload.id not in self._context.heard or workload.activity is None or workload.activity.busy is not False:
            return False
        return is_heard(workload, self._context.settings.policy.idle, self._context.clock.now())

    async def _resize(self, record: Record, observed: ObservedRuns) -> None:
        """Tell a backend that can resize runs which tasks an elastic run is to have, if it has others."""
        workload = record.workload
        port = self._context.backend_of(workload.kind).capabilities.resizing
        if port is None or not needs_resize(workload, observed.find(workload.id, workload.run)):
            return
        launch = self._launch_of(record, "")
        grace = min(map(self._grace, stops_of_leaving(workload)), default=self._context.settings.grace)
        operation = partial(port.resize, workload, record.detail, launch.environment, Seconds(grace))
        await attempt(workload, "resized", operation)

    async def _launch_if_admitted(self, record: Record) -> None:
        """Launch a workload that is ADMITTED, or cancel its admission if it was told to stop."""
        if record.workload.state is State.ADMITTED:
            await (self._launch(record) if record.workload.stop is None else self._cancel_admission(record))

    async def _launch(self, record: Record) -> None:
        """Launch the run of an ADMITTED workload, with its token; see `_record_refused_launch` for a refusal.

        A suspended run is resumed instead. A job whose token was lost in a restart gets another one, which is saved at
        once. The launch itself is recorded later, by `_record_launches`.
        """
        workload, key = record.workload, (record.workload.id, record.workload.run)
        port = self._context.backend_of(workload.kind).capabilities.suspension
        if port is not None and has_suspended_run(record):
            resume_job(workload, port)
            self._launched.append(workload.id)
            return
        if key not in self._tokens and workload.kind is Kind.TRAINING:
            # The token of the admission is lost after a restart: the run gets another one.
            hashed = self._new_token(workload, workload.run)
            self._context.records.commit([Change(workload=workload.id, token_hash=hashed)])
        # Kept until the launch went well: a launch that fails by a defect is tried again with the same token.
        token = self._tokens.get(key, "")
        self._context.known_runs.add(key)
        try:
            await self._context.backend_of(workload.kind).launch(self._launch_of(record, token))
        except (StorageFull, BackendError, OSError) as error:
            self._record_refused_launch(key, error)
            return
        self._tokens.pop(key, None)
        self._launched.append(workload.id)

    def _record_launches(self) -> None:
        """Record the launches since the last call in one commit, and clear the list.

        Workloads not ADMITTED now are left out. After a crash before this, the next observation records the launches.
        """
        launched, self._launched = self._launched, []
        records = [record for name in launched if (record := self._context.records.find_unfinished(name)) is not None]
        admitted = [record.workload.id for record in records if record.workload.state is State.ADMITTED]
        self._context.records.commit_each([Change(workload=name, event=Event.LAUNCHED) for name in admitted])

    def _record_refused_launch(self, key: RunKey, error: Exception) -> None:
        """Record that a run was not launched: its workload backs off if the disk is full or silent, else it has failed.

        A workload that was told to stop during the launch stays as it is, and the next step ends its admission.
        """
        self._context.known_runs.discard(key)
        record, now = self._context.records.find_unfinished(key[0]), self._context.clock.now()
        if record is None or record.workload.state is not State.ADMITTED or record.workload.stop is not None:
            return
        if isinstance(error, StorageFull | StartUnanswered):
            # Not the fault of the job, such as a disk that others have filled, so the job waits instead of failing.
            change = make_backoff_change(record, Event.REQUEUED, str(error), now)
        else:
            told = f"The start failed: {strip_controls(str(error))}"
            fields = WorkloadChange(placement=(), leaving=(), finished_at=now)
            change = Change(workload=key[0], event=Event.FAILED, fields=fields, detail=DetailChange(sentence=told))
        self._context.records.commit([change])

    async def _cancel_admission(self, record: Record) -> None:
        """Record that a workload that was told to stop before its launch goes back to its queue, or is cancelled.

        The stop says which. No backend has to be told.
        """
        workload = record.workload
        requeue = workload.stop is not None and workload.stop.requeue
        now = self._context.clock.now()
        fields = WorkloadChange(placement=(), leaving=(), finished_at=now)
        if requeue:
            fields = WorkloadChange(placement=(), leaving=(), stop=None, requeued_at=now)
        event = Event.REQUEUED if requeue else Event.CANCELLED
        self._context.records.commit([Change(workload=workload.id, event=event, fields=fields)])

    async def _stop(self, record: Record, seen: Observation | None) -> None:
        """Tell the backend to stop a STOPPING run: once, and after the grace period again every `STOP_AGAIN` seconds.

        A job that can be suspended is suspended instead; `seen` is what the backend shows of the run, None if nothing.
        If a ticket was given back, its spawner ends the server, and an unused share is released. A server that still
        runs after the grace is stopped all the same.
        """
        workload = record.workload
        if workload.stop is None:
            return
        stop = self._hasten(workload, workload.stop)
        awake, times = self._context.clock.awake(), self._stopping.of((workload.id, workload.run))
        grace, backend = self._grace(stop), self._context.backend_of(workload.kind)
        if record.detail.given_back:
            # The spawner ends the server. The Hub is not asked: it may be starting the same server again just now.
            if not await self._given_back.must_stop(record, seen):
                return
            grace = self._context.settings.grace
        passed, share = times.count(stop, awake), None if seen is None else seen.share
        if suspend_instead(record, share, backend.capabilities.suspension, grace, passed):
            return
        # The grace begins when the run can be told, later than `stop.at` if its backend could not be observed.
        first = times.find_start_of_grace(stop, grace, awake)
        if first is None:
            return
        if times.told is None and was_to_be_suspended(record):
            first -= passed
        left = Seconds(max(0.0, first + grace - awake))
        if await attempt(workload, "told to stop", lambda: backend.stop(workload.id, workload.run, left)):
            times.note_told(stop, first, awake)

    def _hasten(self, workload: Workload, stop: Stop) -> Stop:
        """Return the stop with `by` set to the lender that is wanted back and leaves the run the least time, if any.

        Such a notebook may be used again only after the decision to stop, which left the run more time.
        """
        grace = self._context.settings.grace
        wanted = {
            each.workload.id: self._bound_grace(grace, each)
            for each in self._lenders(workload)
            if is_wanted_back(each.workload)
        }
        first = min(wanted, key=lambda name: (wanted[name], name != stop.by, name), default=stop.by)
        return stop if first == stop.by else replace(stop, by=first)

    def _grace(self, stop: Stop) -> Seconds:
        """Return the seconds from the stop to the kill of a run: `cancel_grace` if a user stops it, else `grace`.

        A run that makes room for a suspended notebook has less if the notebook would otherwise come back too late.
        """
        settings = self._context.settings
        grace = settings.cancel_grace if stop.reason is EvictReason.STOPPED_BY_USER else settings.grace
        by = self._context.records.find_unfinished(stop.by) if stop.by is not None else None
        return grace if by is None else self._bound_grace(grace, by)

    def _bound_grace(self, grace: Seconds, lender: Record) -> Seconds:
        """Return the seconds of a run that makes room for `lender`: `grace`, or less if the lender is suspended."""
        suspension = lender.detail.suspension
        if suspension is None:
            return grace
        return self._context.settings.suspension.borrower_grace(grace, suspension.seconds)

    def _lenders(self, workload: Workload) -> list[Record]:
        """Return the suspended notebooks for which a job would have to leave; none if it is no borrower."""
        found = map(self._context.records.find_unfinished, self._context.lent.find_lenders(workload))
        return [each for each in found if each is not None]

    async def _launch_again(self, record: Record) -> None:
        """Launch a run to a backend that forgot it, as after a restart; a failure is logged and tried again.

        The backend finds its process or pod, or its end.
        """
        launch, backend = self._launch_of(record, ""), self._context.backend_of(record.workload.kind)
        if await attempt(record.workload, "told to its backend again", lambda: backend.launch(launch)):
            self._context.known_runs.add((record.workload.id, record.workload.run))

    def _is_forgotten(self, workload: Workload, observed: ObservedRuns) -> bool:
        """Return whether a forgetful backend does not show a run that should be alive, such as after a restart."""
        if workload.state in {State.ADMITTED, *FINAL}:
            return False
        forgetful = self._context.backend_of(workload.kind).capabilities.forgetful
        return forgetful and observed.find(workload.id, workload.run) is None

    def _launch_of(self, record: Record, token: str) -> Launch:
        """Return the order to a backend to launch the run of a record, with its environment and its token."""
        workload, settings = record.workload, self._context.settings
        grace = min([settings.grace, *(self._bound_grace(settings.grace, each) for each in self._lenders(workload))])
        environment = {**self._context.environment(workload), STOP_GRACE: f"{grace:g}"}
        seq = self._context.last_seq_before(workload)
        return Launch(workload=workload, detail=record.detail, environment=environment, token=token, last_seq=seq)

    def _new_token(self, workload: Workload, run: int) -> str | None:
        """Make a token for a run of a job, keep it until the launch, and return its hash; None for a notebook."""
        if workload.kind is not Kind.TRAINING:
            return None
        token = self._context.new_token()
        self._tokens[(workload.id, run)] = token
        return hash_token(token)

    def _drop_ended_runs(self) -> None:
        """Forget the stops and the tokens of all runs that are not the present run of their workload."""
        is_present_run = self._context.records.is_present_run
        self._stopping.drop(is_present_run)
        self._tokens = {key: token for key, token in self._tokens.items() if is_present_run(*key)}


def _readmission(record: Record, admit: Admit, now: Instant) -> Change:
    """Return the change that gives a job devices on which its suspended run goes on, with its number and its token."""
    return Change(
        workload=record.workload.id,
        event=Event.ADMITTED,
        fields=WorkloadChange(placement=admit.placement, reserved=(), nominated=False, started_at=now),
        detail=DetailChange(place=Place.of(admit.placement), over_quota=admit.over_quota, sentence=""),
    )


def _name_preemptor(reason: EvictReason, by: Record | None) -> str | None:
    """Return how the victim's owner is told of the preemptor: its name in the same queue, else its queue or user.

    None if the preemptor is unknown.
    """
    if by is None:
        return None
    if reason is EvictReason.PREEMPTED:
        return mention(by.workload.owner, by.workload.name, "another user's job")
    return describe_preemptor(by.workload)


def make_stop_change(workload: Workload, stop: Stop, detail: DetailChange, audit: AuditEntry) -> Change:
    """Return the change that records the intent to end a run, which the next reconciliation carries out.

    `audit` is the entry of the audit log that is saved with the change.

    An ADMITTED workload keeps its state until it is known whether it was launched. A SUSPENDED one keeps its state
    until it has ended, since its devices may be lent.
    """
    event = None if workload.state in {State.ADMITTED, State.SUSPENDED} else Event.STOP_REQUESTED
    return Change(workload=workload.id, event=event, fields=WorkloadChange(stop=stop), detail=detail, audit=audit)


def _activity_change(record: Record, expire_at: Instant | None, warning: str, *, lends: bool = False) -> list[Change]:
    """Return the change that sets an idle warning, or withdraws it if `expire_at` is None; its time still holds then.

    `lends` says that the owner is told that the share is lent, and nothing lost.
    No change is returned if no activity has been reported.
    """
    activity = record.workload.activity
    if activity is None:
        return []
    promised = activity.expire_at if expire_at is None else activity.promised_until
    after = replace(activity, expire_at=expire_at, told_lent=lends, promised_until=promised)
    fields = WorkloadChange(activity=after)
    return [Change(workload=record.workload.id, fields=fields, detail=DetailChange(warning=warning))]
