"""Carry a decision out: write it down, then tell the backends.

Rules
-----
1. The intent is saved before the deed: ADMITTED before `launch`, STOPPING before `stop`. So a crash at any instant
   leaves a record from which the next step goes on, and no deed is done twice (backends are idempotent).
2. Deeds follow from the records alone, not from the decision: ADMITTED is launched, STOPPING is stopped.
3. A workload whose backend could not be observed is left alone: it may run already.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence, Set
from dataclasses import replace

from jupyter_gq.backends.protocol import Launch
from jupyter_gq.controller.context import Context, token_hash
from jupyter_gq.controller.records.changes import NEW_RUN, Change, DetailChange, WorkloadChange
from jupyter_gq.controller.records.last_evictions import remember_eviction
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import BackendError, StoreUnavailable, Superseded
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import Event, State
from jupyter_gq.domain.workload import Kind, Stop, Workload
from jupyter_gq.domain.workload_detail import Eviction, Place
from jupyter_gq.scheduling.decision import Admit, Decision, Evict, Instruction, Reserve, Unwarn, Warn
from jupyter_gq.scheduling.wording import describe_preemptor
from jupyter_gq.store.protocol import Record

from .observe import RunKey, Seen

log = logging.getLogger(__name__)

#: Tells a runner how long it has after SIGTERM, which itself says nothing of that.
STOP_GRACE = "GQ_STOP_GRACE"
#: So many launches are written down together: each alone would cost a write to the disk.
TOGETHER = 50
#: A run that outlives its grace is told again so often.
TELL_AGAIN = Seconds(10)


class Actor:
    """Applies decisions and keeps the backends in step with the records."""

    def __init__(self, context: Context) -> None:
        self._context = context
        #: Tokens of runs that are about to be launched; nothing else ever holds one.
        self._tokens: dict[RunKey, str] = {}
        #: When each run was told to stop by this process: for the first time, and last.
        self._told: dict[RunKey, tuple[Instant, Instant]] = {}
        #: Launched, and not yet written down.
        self._launched: list[str] = []

    # --- the decision, into the records

    def write_down(self, decision: Decision) -> None:
        """Save what was decided, all of it together."""
        changes: list[Change] = []
        for instruction in decision.instructions:
            changes.extend(self._changes(instruction))
        self._context.records.commit(changes)

    def _changes(self, instruction: Instruction) -> list[Change]:
        record = self._context.records.get(instruction.workload)
        if record is None:
            return []
        match instruction:
            case Admit():
                return [self._admission(record, instruction)]
            case Evict():
                return self._eviction(record, instruction)
            case Reserve(placement=placement):
                return [Change(workload=record.workload.id, fields=WorkloadChange(reserved=placement))]
            case Warn():
                return _activity_change(record, instruction.expire_at, instruction.sentence)
            case Unwarn():
                return _activity_change(record, None, "")
            case _:
                # Never decided of work whose backend cannot do it (`invariants.check_possible`).
                log.error("%s: no backend can carry out %s", instruction.workload, type(instruction).__name__)
                return []

    def _admission(self, record: Record, admit: Admit) -> Change:
        workload = record.workload
        run = workload.run + 1
        fields = WorkloadChange(placement=admit.placement, reserved=(), run=run, started_at=self._context.clock.now())
        place = DetailChange(place=Place.of(admit.placement), over_quota=admit.over_quota, sentence="")
        return Change(
            workload=workload.id,
            event=Event.ADMITTED,
            fields=fields,
            detail={**place, **NEW_RUN},
            token_hash=self._new_token(workload, run),
        )

    def _eviction(self, record: Record, evict: Evict) -> list[Change]:
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
        eviction = Eviction(reason=evict.reason.value, sentence=evict.sentence, by=_for_whom(evict.reason, by), at=now)
        if workload.kind is Kind.NOTEBOOK:
            remember_eviction(self._context.store, workload.owner, eviction)
        log.info("%s of %s is evicted: %s", workload.id, workload.owner, evict.sentence)
        return [stop_change(workload, stop, DetailChange(eviction=eviction, sentence=evict.sentence))]

    # --- the records, into deeds

    async def carry_out(self, seen: Seen) -> Exception | None:
        """Launch what is ADMITTED, stop what is STOPPING, tell a backend again of what it forgot.

        Return the first failure that is the defect of one workload: all else is done, and others may be told so.
        """
        names = [record.workload.id for record in self._context.records.begun()]
        failure = await self._each(names, lambda record: self._bring_into_step(record, seen), seen.unseen)
        self._tidy()
        return failure

    async def launch_admitted(self, names: Sequence[str]) -> Exception | None:
        """Launch those of them that are ADMITTED; return as `carry_out` does."""
        return await self._each(names, self._launch_if_admitted)

    async def _each(
        self, names: Iterable[str], deed: Callable[[Record], Awaitable[None]], unseen: Set[Kind] = frozenset()
    ) -> Exception | None:
        failure: Exception | None = None
        # A store that went away ended the loop before these were written down: the next look tells what became of them.
        self._launched = []
        for name in names:
            # Requests are answered while a backend works: the record may have changed since the loop began.
            record = self._context.records.alive(name)
            if record is None or record.workload.kind in unseen:
                continue
            try:
                await deed(record)
            except (StoreUnavailable, Superseded):
                raise  # what the others are to become is not known any more
            except Exception as error:  # noqa: BLE001 - one workload's defect must not keep the others waiting
                failure = failure or error
            if len(self._launched) >= TOGETHER:
                self._write_launched()
                await asyncio.sleep(0)  # what a backend does beside us goes on, and so do requests
        self._write_launched()
        return failure

    async def _bring_into_step(self, record: Record, seen: Seen) -> None:
        if self._is_forgotten(record.workload, seen):
            await self._remind(record)
        await self._launch_if_admitted(record)
        if record.workload.state is State.STOPPING:
            await self._stop(record)

    async def _launch_if_admitted(self, record: Record) -> None:
        if record.workload.state is State.ADMITTED:
            await (self._launch(record) if record.workload.stop is None else self._give_up(record))

    async def _launch(self, record: Record) -> None:
        workload = record.workload
        key = (workload.id, workload.run)
        if key not in self._tokens and workload.kind is Kind.TRAINING:
            # After a restart the token of the admission is lost: the run gets another one.
            hashed = self._new_token(workload, workload.run)
            self._context.records.commit([Change(workload=workload.id, token_hash=hashed)])
        # Kept until the launch went well: one that fails by a defect is tried again, and needs no other.
        token = self._tokens.get(key, "")
        self._context.known_runs.add(key)
        try:
            await self._context.backend_of(workload.kind).launch(self._launch_of(record, token))
        except (BackendError, OSError) as error:
            self._context.known_runs.discard(key)
            self._refused(workload, error)
            return
        self._tokens.pop(key, None)
        self._launched.append(workload.id)

    def _write_launched(self) -> None:
        """That they were launched; after a crash before this, the next look at the backend says so too."""
        launched, self._launched = self._launched, []
        records = [record for name in launched if (record := self._context.records.alive(name)) is not None]
        admitted = [record.workload.id for record in records if record.workload.state is State.ADMITTED]
        self._context.records.commit([Change(workload=name, event=Event.LAUNCHED) for name in admitted])

    def _refused(self, workload: Workload, error: Exception) -> None:
        told = f"It could not be started: {error}"
        fields = WorkloadChange(placement=(), finished_at=self._context.clock.now())
        change = Change(workload=workload.id, event=Event.FAILED, fields=fields, detail=DetailChange(sentence=told))
        self._context.records.commit([change])

    async def _give_up(self, record: Record) -> None:
        """It was stopped before it was launched; no backend shows it, so there is nothing to end."""
        workload = record.workload
        requeue = workload.stop is not None and workload.stop.requeue
        now = self._context.clock.now()
        fields = WorkloadChange(placement=(), finished_at=now)
        if requeue:
            fields = WorkloadChange(placement=(), stop=None, requeued_at=now)
        event = Event.REQUEUED if requeue else Event.CANCELLED
        self._context.records.commit([Change(workload=workload.id, event=event, fields=fields)])

    async def _stop(self, record: Record) -> None:
        workload = record.workload
        stop = workload.stop
        if stop is None:
            return
        if record.detail.given_back:
            # Its spawner ends it. The Hub is not asked: it may be starting the same server anew just now.
            await self._release_unused(record)
            return
        now, key = self._context.clock.now(), (workload.id, workload.run)
        grace = self._grace(stop)
        # The grace of who could not be told at once begins when he is.
        first, last = self._told.get(key, (now, None))
        if last is not None and last < stop.at:
            first, last = now, None
        if last is not None and now < max(last, first + grace) + TELL_AGAIN:
            return
        left = Seconds(max(0.0, first + grace - now))
        backend = self._context.backend_of(workload.kind)
        if await self._attempt(workload, "told to stop", lambda: backend.stop(workload.id, workload.run, left)):
            self._told[key] = (first, now)

    async def _release_unused(self, record: Record) -> None:
        """A ticket that was given back before any process held its share: nothing has to end."""
        workload = record.workload
        if record.detail.pid is not None:
            return
        backend = self._context.backend_of(workload.kind)
        preparation = backend.capabilities.pod_preparation
        if preparation is not None:
            await self._attempt(workload, "released", lambda: preparation.release(workload.id, workload.run))
            return
        if await self._attempt(workload, "released", lambda: backend.forget(workload.id, workload.run)):
            fields = WorkloadChange(placement=(), finished_at=self._context.clock.now())
            self._context.records.commit([Change(workload=workload.id, event=Event.CANCELLED, fields=fields)])

    def _grace(self, stop: Stop) -> Seconds:
        settings = self._context.settings
        return settings.cancel_grace if stop.reason is EvictReason.STOPPED_BY_USER else settings.grace

    async def _remind(self, record: Record) -> None:
        """Tell the backend again of a run that it forgot; its process, or its pod, is found or gone."""
        launch, backend = self._launch_of(record, ""), self._context.backend_of(record.workload.kind)
        if await self._attempt(record.workload, "told to its backend again", lambda: backend.launch(launch)):
            self._context.known_runs.add((record.workload.id, record.workload.run))

    def _is_forgotten(self, workload: Workload, seen: Seen) -> bool:
        """A run that its backend does not know and should: that happens after a restart only."""
        if workload.state not in {State.STARTING, State.RUNNING, State.STOPPING}:
            return False
        forgetful = self._context.backend_of(workload.kind).capabilities.forgetful
        return forgetful and seen.of(workload.id, workload.run) is None

    async def _attempt(self, workload: Workload, what: str, deed: Callable[[], Awaitable[None]]) -> bool:
        """A deed that is tried again by the next step when it fails."""
        try:
            await deed()
        except (BackendError, OSError) as error:
            log.warning("%s could not be %s, it is tried again: %s", workload.id, what, error)
            return False
        return True

    def _launch_of(self, record: Record, token: str) -> Launch:
        environment = {**self._context.environment(record.workload), STOP_GRACE: f"{self._context.settings.grace:g}"}
        return Launch(workload=record.workload, detail=record.detail, environment=environment, token=token)

    def _new_token(self, workload: Workload, run: int) -> str | None:
        if workload.kind is not Kind.TRAINING:
            return None
        token = self._context.new_token()
        self._tokens[(workload.id, run)] = token
        return token_hash(token)

    def _tidy(self) -> None:
        self._told = {key: told for key, told in self._told.items() if self._is_present(*key)}
        self._tokens = {key: token for key, token in self._tokens.items() if self._is_present(*key)}

    def _is_present(self, workload: str, run: int) -> bool:
        record = self._context.records.alive(workload)
        return record is not None and record.workload.run == run


def _for_whom(reason: EvictReason, by: Record | None) -> str | None:
    """As the owner reads it: inside a queue the job, else the queue or the user."""
    if by is None:
        return None
    return by.workload.name if reason is EvictReason.PREEMPTED else describe_preemptor(by.workload)


def stop_change(workload: Workload, stop: Stop, detail: DetailChange) -> Change:
    """The intent to end a run. One that is only ADMITTED stays so until it is known whether it was launched."""
    event = None if workload.state is State.ADMITTED else Event.STOP_REQUESTED
    return Change(workload=workload.id, event=event, fields=WorkloadChange(stop=stop), detail=detail)


def _activity_change(record: Record, expire_at: Instant | None, warning: str) -> list[Change]:
    activity = record.workload.activity
    if activity is None:
        return []
    fields = WorkloadChange(activity=replace(activity, expire_at=expire_at))
    return [Change(workload=record.workload.id, fields=fields, detail=DetailChange(warning=warning))]
