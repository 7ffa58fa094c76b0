"""Shares that were given back: whoever gives one back ends the server, and the service ends a server that runs on.

See docs/decisions/0279-end-a-server-that-outlives-its-share.md.
"""

import logging
from dataclasses import replace

from jupyter_gq.backends.protocol import Observation, Phase
from jupyter_gq.controller.context import Context
from jupyter_gq.controller.loop.attempts import attempt
from jupyter_gq.controller.records.acts import act_of_scheduler
from jupyter_gq.controller.records.changes import Change, DetailChange, WorkloadChange
from jupyter_gq.domain.amount import Seconds
from jupyter_gq.domain.audit import Action
from jupyter_gq.domain.states import Event
from jupyter_gq.domain.workload_detail import Eviction
from jupyter_gq.scheduling.wording import describe_duration
from jupyter_gq.store.protocol import Record

from .stop_times import StoppingRuns

log = logging.getLogger(__name__)


class GivenBackShares:
    """The runs whose share was given back."""

    def __init__(self, context: Context, stopping: StoppingRuns) -> None:
        """Begin without runs; `stopping` keeps since when this service knows that a share was given back."""
        self._context, self._stopping = context, stopping

    async def must_stop(self, record: Record, seen: Observation | None) -> bool:
        """Return True if the service must now stop a server whose share was given back.

        A share that no process uses is released. Once the grace has passed, the first call tells the owner and the
        audit log, and returns False; the next one returns True. An owner who was told of an eviction before is told no
        more.
        """
        await self._release_unused(record)
        workload, grace = record.workload, self._context.settings.grace
        passed = self._stopping.of((workload.id, workload.run)).count_given_back(self._context.clock.awake())
        if seen is None or seen.phase is not Phase.RUNNING or passed < grace:
            return False
        # The next step stops the server, with the new sentence.
        return not self._tell_owner(record, grace)

    async def _release_unused(self, record: Record) -> None:
        """Release the share, unless a process was reported for it.

        The ticket is cancelled at once, or on a cluster when its pod is gone.
        """
        workload = record.workload
        if record.detail.pid is not None:
            return
        backend = self._context.backend_of(workload.kind)
        preparation = backend.capabilities.pod_preparation
        if preparation is not None:
            await attempt(workload, "released", lambda: preparation.release(workload.id, workload.run))
            return
        if await attempt(workload, "released", lambda: backend.forget(workload.id, workload.run)):
            fields = WorkloadChange(placement=(), finished_at=self._context.clock.now())
            self._context.records.commit([Change(workload=workload.id, event=Event.CANCELLED, fields=fields)])

    def _tell_owner(self, record: Record, grace: Seconds) -> bool:
        """Tell the owner, the audit log and the log that a server is stopped which has outlived its share.

        Returns False, and tells nobody, if the owner has been told of the end of this server before, or if the workload
        has no `stop`.
        """
        workload, stop, now = record.workload, record.workload.stop, self._context.clock.now()
        if stop is None or record.detail.eviction is not None:
            return False
        told = (
            "The share of the server was given back, but the server did not end within "
            f"{describe_duration(grace)}: the server is stopped."
        )
        log.warning("%s of %s is stopped: %s", workload.id, workload.owner, told, extra=workload.log_fields)
        eviction = Eviction(reason=stop.reason.value, sentence=told, by=None, at=now)
        change = Change(
            workload=workload.id,
            fields=WorkloadChange(stop=replace(stop, sentence=told)),
            detail=DetailChange(eviction=eviction, sentence=told),
            audit=act_of_scheduler(Action.NOTEBOOK_EVICT, workload, now, reason=stop.reason.value, sentence=told),
        )
        self._context.records.commit([change])
        self._context.wake()
        return True
