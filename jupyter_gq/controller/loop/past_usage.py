"""The past usage of each training queue, kept from step to step and across restarts.

The arithmetic is that of `scheduling.quota.past_usage`. The usage is saved once in each step of its decay, so a restart
loses a tenth of a half-life at most. Work that holds devices after a restart counts as if it had held them meanwhile.
"""

from collections.abc import Mapping

from jupyter_gq.controller.context import Context
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.workload import Kind
from jupyter_gq.scheduling.decision import Admit, Decision
from jupyter_gq.scheduling.quota.past_usage import DecayedUsage, add_entry_cost, advance
from jupyter_gq.scheduling.workloads import gang

#: Name of the stored document.
KEY = "past-use"


class PastUsage:
    """The keeper of `Context.past_usage`, which snapshots carry; empty unless a half-life is set."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._usage: DecayedUsage | None = None

    def update(self) -> None:
        """Add the GPU-seconds that jobs held since the last call to the decayed past usage in the context.

        The usage is saved at each step of its decay. Without a half-life in the settings, there is no past usage.
        """
        context = self._context
        half_life, now = context.settings.policy.usage.half_life, context.clock.now()
        if half_life is None:
            self._usage, context.past_usage = None, {}
            return
        before = self._usage or _read(context.store.setting(KEY), now)
        after = advance(before, self._held(), now, half_life)
        if after.known_at != before.known_at:
            context.store.put_setting(KEY, _document(after))
        self._usage, context.past_usage = after, after.known

    def add_entry_costs(self, decision: Decision) -> None:
        """Add the entry cost of each job that the decision starts for the first time to the past usage of its queue.

        Call this before the decision is recorded.
        """
        context = self._context
        rule = context.settings.policy.usage
        if self._usage is None or not rule.entry_cost:
            return
        for instruction in decision.instructions:
            record = context.records.find_unfinished(instruction.workload) if isinstance(instruction, Admit) else None
            if record is not None and not record.workload.run and record.workload.kind is Kind.TRAINING:
                milli = gang.smallest(record.workload)
                self._usage = add_entry_cost(self._usage, record.workload.queue, milli, rule.entry_cost)

    def _held(self) -> Mapping[str, int]:
        """Return the milli-GPU that jobs hold now, by queue."""
        held: dict[str, int] = {}
        for record in self._context.records.holding():
            workload = record.workload
            if workload.holds and workload.kind is Kind.TRAINING:
                held[workload.queue] = held.get(workload.queue, 0) + gang.occupied(workload)
        return held


def _document(usage: DecayedUsage) -> JsonObject:
    """Return the usage as a JSON object for the store; `_read` reads it."""
    return {
        "at": usage.at,
        "seconds": dict(usage.seconds),
        "known": dict(usage.known),
        "known_at": usage.known_at,
    }


def _read(document: JsonObject | None, now: Instant) -> DecayedUsage:
    """Return the usage of a stored document; without a document, an empty usage that begins at `now`."""
    if not document:
        return DecayedUsage(at=now, known_at=now)
    return DecayedUsage(
        at=Instant(document["at"]),
        seconds=document["seconds"],
        known=document["known"],
        known_at=Instant(document["known_at"]),
    )
