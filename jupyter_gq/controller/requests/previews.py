"""Previews of jobs that have not been sent: place in the queue, start, quota, and alternatives that start earlier.

Rules
-----
Nothing is stored: a preview may be asked for as often as a field of the dialog changes.

Two parts: the decision of the cycle is there at once. Only for a job that would wait, forecasts are made in a thread,
one after the other for all who ask, at most `MOST_FORESEEN` for one preview.

In turns: one user's previews are decided one after the other, and the service answers others after each decision.

Bounded: while others ask as well, a preview waits at most `LONGEST_WAIT` seconds for its turn. Then its answer has no
start, so that the answer is there before the user looks for it.

See docs/decisions/0139-let-the-scheduler-compute-alternatives.md and
docs/decisions/0349-decide-the-previews-of-a-user-in-turns.md.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from math import ceil
from typing import Protocol
from weakref import WeakValueDictionary

from jupyter_gq.client.models import Alternative, ExpectedStart, JobFields, Preview
from jupyter_gq.controller.caller import Caller
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.group_limits import hold_beyond_limits, hold_newcomer
from jupyter_gq.controller.loop.decide import Decider
from jupyter_gq.controller.run_time_limits import find_run_time_limit
from jupyter_gq.controller.task_limit import hold_beyond_task_limit
from jupyter_gq.controller.views.workload_views import format_optional_cpus, format_optional_memory
from jupyter_gq.domain.amount import format_gpus
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.preview.admission import Outlook
from jupyter_gq.scheduling.wording import describe_duration

from .alternatives import MOST_OFFERED, Tried, choose_better, try_alternatives
from .continued_jobs import check_kept_checkpoints
from .job_secrets import check_stored_secrets
from .job_software import find_image
from .new_workload import build_workload

#: Number of forecasts for one preview: that of the request, and those of alternatives that do not start at once.
MOST_FORESEEN = 2
#: Seconds for which a preview waits until forecasts for other previews have been made.
LONGEST_WAIT = 1.0
#: An alternative is clearly earlier if at least so many seconds, and this part of the wait, are saved.
_LEAST_SAVED, _PART_SAVED = 60.0, 0.5


class ForeseesStarts(Protocol):
    """The part of the service that makes forecasts for previews."""

    async def foresee(self, workload: Workload) -> ExpectedStart | None:
        """Return when a workload that has not been sent would probably start; None if that cannot be foreseen."""
        ...


class Previews:
    """The requests of users who have not sent their job yet."""

    def __init__(self, context: Context, decider: Decider, forecasts: ForeseesStarts) -> None:
        self._context, self._decider, self._forecasts = context, decider, forecasts
        #: Held by the preview whose forecasts are being made.
        self._foreseeing = asyncio.Lock()
        #: The turns of each user with a preview that waits to be decided, or is being decided.
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def preview(
        self, caller: Caller, request: JobFields, *, secrets: Sequence[str] = (), home: str = "", kernel: str = ""
    ) -> Preview:
        """Return what would happen if the job were submitted now, and better alternatives; nothing is stored.

        `secrets` are names of secrets of the job, which are looked for in the folder `home`. `kernel` is the name of
        the job's kernel: if `request.software` is that name, the job needs no image. Raises the errors of a request
        that is wrong or can never run, as a submission does. The limits of jobs, the disk of the user, the room of the
        store and the bundle are not checked.
        """
        await check_stored_secrets(self._context, caller, secrets, {"HOME": home})
        await check_kept_checkpoints(self._context, caller, request)
        find_image(self._context.images, request.software, kernel)  # raises if it is not offered
        turn = self._turns.setdefault(caller.user, asyncio.Lock())
        async with turn:
            workload, outlook, tried = await self._decide(caller, request)
        if workload.hold is not None or (outlook.starts_now and not outlook.over_quota):
            return self._describe(workload, outlook)
        better = choose_better(outlook, tried)
        offered = [_offer(each) for each in better]
        if outlook.starts_now:
            return self._describe(workload, outlook, offered)
        later = [each for each in tried if not each.outlook.starts_now] if not offered else []
        expected, *others = await self._foresee([workload, *(each.workload for each in later[: MOST_FORESEEN - 1])])
        offered += [
            _offer_later(each, start, self._context.clock.now())
            for each, start in zip(later, others, strict=False)
            if start is not None and _is_clearly_earlier(start, expected, self._context.clock.now())
        ]
        return self._describe(workload, outlook, offered[:MOST_OFFERED], expected)

    async def _decide(self, caller: Caller, request: JobFields) -> tuple[Workload, Outlook, list[Tried]]:
        """Return what would be sent, what would become of it now, and alternatives if it would not start in quota."""
        workload = build_workload(self._context, caller, request, "preview")
        unfinished = tuple(self._context.records.unfinished())
        workload = hold_newcomer(unfinished, workload, request.group, request.group_parallel)
        views = [replace(record.workload, backoff=record.detail.backoff) for record in unfinished]
        together, limit = [*hold_beyond_limits(unfinished, views), workload], self._context.max_uncounted_tasks
        known = frozenset(entry.queue.name for entry in self._context.settings.training)
        workload = hold_beyond_task_limit(together, limit, self._context.clock.now(), known)[-1]
        (outlook,) = self._decider.preview(caller, [workload])
        await asyncio.sleep(0)  # other requests come before the next cycle
        if workload.hold is not None or (outlook.starts_now and not outlook.over_quota):
            return workload, outlook, []
        return workload, outlook, await try_alternatives(self._context, self._decider, caller, request, workload)

    async def _foresee(self, workloads: Sequence[Workload]) -> list[ExpectedStart | None]:
        """Return the probable start of each workload, as if only that one were queued; None = it is not known."""
        try:
            async with asyncio.timeout(LONGEST_WAIT):
                await self._foreseeing.acquire()
        except TimeoutError:
            return [None] * len(workloads)
        try:
            return [await self._forecasts.foresee(workload) for workload in workloads]
        finally:
            self._foreseeing.release()

    def _describe(
        self,
        workload: Workload,
        outlook: Outlook,
        alternatives: Sequence[Alternative] = (),
        expected: ExpectedStart | None = None,
    ) -> Preview:
        """Return the answer about a workload."""
        limit = find_run_time_limit(self._context.settings, workload)
        warning = "" if limit is None else limit.warn_of(workload.estimate)
        return Preview(
            starts_now=outlook.starts_now,
            sentence=f"{outlook.sentence} {warning}".rstrip(),
            max_seconds=None if limit is None else limit.seconds,
            position=outlook.position,
            expected_start=expected,
            over_quota=format_gpus(outlook.over_quota) if outlook.over_quota else None,
            gpus=format_gpus(workload.request.milli),
            cpus=format_optional_cpus(workload.request.cpu_milli),
            memory=format_optional_memory(workload.request.memory),
            alternatives=list(alternatives),
        )


def _offer(tried: Tried) -> Alternative:
    """Return an alternative that starts at once."""
    how = tried.outlook.sentence.removeprefix("Starts now")
    return _make(tried, f"{tried.difference} would start now{how}")


def _offer_later(tried: Tried, start: ExpectedStart, now: float) -> Alternative:
    """Return an alternative that starts after a shorter wait."""
    likely, surely = _describe_bound(start.p50 - now), _describe_bound(start.p90 - now)
    wait = f"within {likely}" if likely == surely else f"within {likely}, almost surely within {surely}"
    return _make(tried, f"{tried.difference} would probably start {wait}.", start)


def _describe_bound(seconds: float) -> str:
    """Return a duration within which something happens: in whole minutes, rounded up."""
    return describe_duration(max(1, ceil(seconds / 60)) * 60)


def _make(tried: Tried, sentence: str, start: ExpectedStart | None = None) -> Alternative:
    over = tried.outlook.over_quota
    return Alternative(
        queue=tried.request.queue,
        gpus=format_gpus(tried.workload.request.milli) if tried.request.gpu_memory is None else "1",
        gpu_model=tried.request.gpu_model,
        label=tried.difference,
        starts_now=tried.outlook.starts_now,
        over_quota=format_gpus(over) if over else None,
        expected_start=start,
        sentence=sentence,
    )


def _is_clearly_earlier(start: ExpectedStart, asked: ExpectedStart | None, now: float) -> bool:
    """Return whether a start is clearly earlier than that of the request, whose start may be unknown."""
    if asked is None:
        return True
    wait, other = max(0.0, asked.p90 - now), max(0.0, start.p90 - now)
    return wait - other >= max(_LEAST_SAVED, _PART_SAVED * wait)
