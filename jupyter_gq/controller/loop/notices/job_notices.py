"""The notices about jobs and sweeps that have ended, which go to users outside of JupyterLab.

Guarantees
----------
- At least once: the stored events say which jobs have ended, and a record says up to which event notices were sent and
  which are still to be sent. A service that starts again continues there, and may repeat the last ones.
- A way that fails holds up nothing: each notice is tried again for an hour, each way for itself.

See docs/decisions/0118-send-notices-from-the-stored-events.md.
"""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from pydantic import ValidationError

from jupyter_gq.backends.notifications.notifier import Notice, NoticeRule, Notifier
from jupyter_gq.client.models import JobSummary
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.beside import run_every
from jupyter_gq.controller.results import parse_results
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.errors import BackendError, UnusableFile
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.phases import ENDED
from jupyter_gq.domain.states import FINAL, State
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import PageSize, Record, StoredEvent

from .best_of_sweep import Numbers, describe_best
from .job_ends import list_ends, reached_limit
from .sweep_notices import list_group_ends, make_sweep_notice

log = logging.getLogger(__name__)

#: A function that returns a JSON document with the names that the reader may see.
Render = Callable[[str, Caller | None], str]

#: Seconds between two looks at the events.
LOOK = 2.0
#: Seconds after which a notice that could not be sent is tried again, after the first, second and further attempts.
RETRIES = (10.0, 60.0, 600.0, 3000.0)
#: Jobs that ended longer ago than this many seconds are not reported, such as after a long time without a service.
MOST_LATE = 3600.0
#: Events that are read and notices that are sent at one time.
_AT_ONCE = 100
#: Jobs of a sweep whose results are read to name the best one; of more, none is named.
_MOST_COMPARED = 10_000
#: Most bytes of each of these results, so that one sweep does not hold up the notices of everybody.
_LONGEST_COMPARED = 256 * 1024
#: Name of the document in the store.
_POSITION = "job_notices"
#: Ended jobs that are remembered, so that a second event about one is not a second notice.
_REMEMBERED = 10_000


@dataclass(kw_only=True, slots=True)
class _Unsent:
    """A notice that one way has not sent yet."""

    event: int
    notifier: Notifier
    notice: Notice
    #: When it is sent, by the clock of the time awake.
    due: float
    attempts: int = 0


class JobNotices:
    """The sending of notices, beside the steps of the loop."""

    def __init__(self, context: Context, rule: NoticeRule, render: Render) -> None:
        """Prepare to send notices by this rule; without a notifier in it, `run` does nothing.

        `render` returns a JSON document with the names that a reader may see.
        """
        self._context, self._rule, self._render_for = context, rule, render
        self._position: int | None = None
        self._unsent: list[_Unsent] = []
        self._told: dict[str, None] = {}

    async def run(self) -> None:
        """Send notices about jobs that end, until cancelled."""
        if self._rule.notifiers:
            await run_every(LOOK, "the sending of notices", self.deliver, self._context.failures)

    async def deliver(self) -> None:
        """Send the notices that are due, and store which are left.

        Raises `StoreUnavailable` or `StorageFull` if the store cannot be read or written; notices are sent again then.
        """
        before = self._to_document() if self._position is not None else None
        if self._position is None:
            await self._restore()
        await self._collect()
        now = self._context.clock.awake()
        due = [each for each in self._unsent if each.due <= now][:_AT_ONCE]
        results = await asyncio.gather(*map(self._try, due))
        sent = {id(each) for each, is_settled in zip(due, results, strict=True) if is_settled}
        self._unsent = [each for each in self._unsent if id(each) not in sent]
        document = self._to_document()
        if document != before:
            await asyncio.to_thread(self._context.store.put_setting, _POSITION, document)

    async def _restore(self) -> None:
        """Continue where the last service stopped; without a record, with the events from now on."""
        store = self._context.store
        document = await asyncio.to_thread(store.setting, _POSITION)
        if document is None:
            self._position = (await asyncio.to_thread(store.event_range))[1]
            return
        for event, names in document["unsent"]:
            found = await asyncio.to_thread(store.events_after, event - 1, 1)
            ways = tuple(each for each in self._rule.notifiers if each.name in names)
            for known, job in _read_ends(found if ways and found and found[0].id == event else ()):
                await self._add(known, job, ways)
        self._position = document["event"]

    async def _collect(self) -> None:
        """Add the notices of new events."""
        assert self._position is not None
        while events := await asyncio.to_thread(self._context.store.events_after, self._position, _AT_ONCE):
            for event, job in _read_ends(events):
                await self._add(event, job, self._rule.notifiers)
            self._position = events[-1].id

    async def _add(self, event: StoredEvent, job: JobSummary, notifiers: tuple[Notifier, ...]) -> None:
        """Add the notice of the end of a job for these ways, if the end is reported, or that of its sweep is."""
        sweep: Sequence[Record] = ()
        if job.group:
            sweep = await self._list_ended_sweep(job)
            notice = make_sweep_notice(sweep) if sweep else None
        else:
            notice = self._find_notice(job)
        if notice is None or not self._is_timely(notice) or notice.job in self._told:
            return
        if sweep and (best := await asyncio.to_thread(self._describe_best, sweep)):
            notice = replace(notice, sentence=f"{notice.sentence} {best}")
        self._told[notice.job] = None
        if len(self._told) > _REMEMBERED:
            del self._told[next(iter(self._told))]
        for notifier in notifiers:
            due = self._context.clock.awake()
            self._unsent.append(_Unsent(event=event.id, notifier=notifier, notice=notice, due=due))

    def _is_timely(self, notice: Notice) -> bool:
        """Return whether what has ended took long enough, and ended not too long ago."""
        is_late = notice.finished_at < self._context.clock.now() - MOST_LATE
        return notice.took >= self._rule.min_seconds and not is_late

    async def _list_ended_sweep(self, job: JobSummary) -> Sequence[Record]:
        """Return all jobs of the sweep of a job that has ended; none while others have not, or if no end is wanted.

        The last job that has ended stands for its sweep, so a sweep that grew later is reported once more.
        """
        left = self._context.records.unfinished()
        if any((each.workload.owner, each.detail.group) == (job.owner, job.group) for each in left):
            return ()
        records = await asyncio.to_thread(self._list_group, job.owner, job.group)
        if any(each.workload.state not in FINAL for each in records):  # a job that has just been added
            return ()
        return () if list_group_ends(records).isdisjoint(self._rule.phases) else records

    def _describe_best(self, records: Sequence[Record]) -> str:
        """Return a sentence about the best job of a sweep; "" if not all jobs that are done can be compared."""
        done = [record for record in records if record.workload.state is State.SUCCEEDED]
        if len(done) > _MOST_COMPARED:
            return ""
        try:
            return describe_best(done, map(self._read_numbers, done))
        except (UnusableFile, BackendError):
            return ""

    def _read_numbers(self, record: Record) -> Numbers:
        """Return the finite numbers that a job has brought back; raise an error if their list cannot be read."""
        workload = record.workload
        document = self._context.bundles.results(workload.id, workload.owner, limit=_LONGEST_COMPARED)
        variables = parse_results(document or {}).variables
        return {each.name: each.number for each in variables if isinstance(each.number, (int, float))}

    def _list_group(self, owner: str, group: str) -> list[Record]:
        """Return all jobs of a group of that owner."""
        found: list[Record] = []
        page = PageSize(entries=_AT_ONCE)
        list_page = partial(self._context.store.list, page, kind=Kind.TRAINING, owner=owner, group=group)
        while records := list_page(before=found[-1].workload.id if found else None):
            found.extend(records)
        return found

    def _find_notice(self, job: JobSummary) -> Notice | None:
        """Return the notice about a job that has ended; None if the rule wants none."""
        if job.finished_at is None or list_ends(job.phase, job.eviction).isdisjoint(self._rule.phases):
            return None
        return Notice(
            job=job.id,
            name=job.name,
            owner=job.owner,
            queue=job.queue,
            phase=job.phase,
            sentence=self._render(job.sentence, job.owner),
            took=Seconds(job.finished_at - job.submitted_at),
            finished_at=Instant(job.finished_at),
            reached_limit=reached_limit(job.phase, job.eviction),
        )

    def _render(self, sentence: str, owner: str) -> str:
        """Return the sentence with the names that the owner of the job may see."""
        reader = Caller(user=owner, groups=self._context.groups_of_user(owner))
        rendered: str = json.loads(self._render_for(json.dumps(sentence, ensure_ascii=False), reader))
        return rendered

    async def _try(self, unsent: _Unsent) -> bool:
        """Try to send a notice; return whether it is settled: sent, or given up after the last attempt."""
        try:
            await unsent.notifier.send(unsent.notice)
        except Exception as error:  # a way that fails in any manner must hold up no other
            if not isinstance(error, BackendError):
                log.exception("a notice could not be sent by %s", unsent.notifier.name)
            if unsent.attempts == len(RETRIES):
                log.warning("the notice about job %s is given up: %s", unsent.notice.job, error)
                return True
            if unsent.attempts == 0:
                log.warning("the notice about job %s is tried again: %s", unsent.notice.job, error)
            unsent.due = self._context.clock.awake() + RETRIES[unsent.attempts]
            unsent.attempts += 1
            return False
        return True

    def _to_document(self) -> JsonObject:
        """Return the position, and each event with an unsent notice with the names of the ways that have to send it."""
        names: dict[int, list[str]] = {}
        for each in self._unsent:
            names.setdefault(each.event, []).append(each.notifier.name)
        return {"event": self._position, "unsent": [[event, ways] for event, ways in names.items()]}


def _read_ends(events: Sequence[StoredEvent]) -> Iterator[tuple[StoredEvent, JobSummary]]:
    """Yield the events that tell the end of a job, with the job; of several jobs of a group, only the last one.

    Jobs of a sweep often end together, and each would be asked for the whole sweep.
    """
    ends = [(event, job) for event in events if (job := _read(event)) is not None]
    last = {(job.owner, job.group): event.id for event, job in ends}
    for event, job in ends:
        if not job.group or last[job.owner, job.group] == event.id:
            yield event, job


def _read(event: StoredEvent) -> JobSummary | None:
    """Return the job of which an event tells the end; None for other events, and for those of other versions."""
    if event.kind != "job" or event.payload.get("phase") not in ENDED:
        return None
    try:
        return JobSummary.model_validate(event.payload)
    except ValidationError:
        return None
