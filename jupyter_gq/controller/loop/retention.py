"""Forgets finished work after a while: its record, its output, its files.

Rules
-----
1. Forgotten is only what is final, has been for longer than `c.TrainingQueues.keep_finished_days`, and has no run that
   a backend still knows.
2. Files first, then the output in small pieces, the record last: what a killed service left is found again.
3. A job is gone for those who ask from the first step on: a lab that saw a part of its output would write that under
   the cell.
4. It happens in a thread, in transactions of a moment each: requests and the loop go on.
"""

import asyncio
import logging

from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import Instant, Seconds
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record

log = logging.getLogger(__name__)

#: Time between two looks.
EVERY = Seconds(3600)
#: Records that are looked at together.
_PAGE = 100


class Retention:
    """Looks for finished work that is old enough."""

    def __init__(self, context: Context) -> None:
        self._context = context

    async def run(self) -> None:
        """Look every hour, until cancelled."""
        while True:
            try:
                await self.sweep()
            except Exception:  # the last guard of a loop: what is left is found an hour later
                log.exception("old jobs could not be forgotten; it is tried again")
            await asyncio.sleep(EVERY)

    async def sweep(self) -> int:
        """Forget what is due; return how many records that were."""
        kept_for = self._context.settings.keep_finished
        if kept_for <= 0:
            return 0
        before, last, forgotten = Instant(self._context.clock.now() - kept_for), "", 0
        while page := await asyncio.to_thread(self._context.store.finished, before, last, _PAGE):
            last = page[-1].workload.id
            for record in page:
                if self._is_due(record, before):
                    await self._forget(record)
                    forgotten += 1
        if forgotten:
            log.info(
                "%d jobs and servers that ended more than %.0f days ago were forgotten", forgotten, kept_for / 86400
            )
        return forgotten

    def _is_due(self, record: Record, before: Instant) -> bool:
        workload = record.workload
        ended = workload.submitted_at if workload.finished_at is None else workload.finished_at
        return ended < before and all(known != workload.id for known, _ in self._context.known_runs)

    async def _forget(self, record: Record) -> None:
        workload, context = record.workload, self._context
        context.forgetting.add(workload.id)
        if workload.kind is Kind.TRAINING:
            await asyncio.to_thread(context.bundles.delete, workload.id, workload.owner)
        while not await asyncio.to_thread(context.store.forget, workload.id):
            """Each call takes away a few pieces of output; in between others may write."""
        context.seqs.pop(workload.id, None)
        context.forgetting.discard(workload.id)
