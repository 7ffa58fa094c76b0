"""The records of all workloads: in the store, and the unfinished ones also in memory.

Rules
-----
One way: `commit` is the only way to change a stored record, and `apply_change` the only place that assigns a state.

Store first: if the store refuses a change, memory stays as it was, and the caller gets the error.

Logged once: a change of state is logged here, once, with its fields. Variables, bundles and tokens are never logged.

No doubt: one process writes, so memory and store agree. Only if the store did not answer, it is unknown whether it kept
the last change. Then nothing is changed until `reload_after_outage` has read all unfinished records again.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from jupyter_gq.controller.clock import Clock
from jupyter_gq.domain.audit import AuditEntry
from jupyter_gq.domain.errors import MachineError, NotFound, StoreUnavailable
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import FINAL, Event
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import NewEvent, Record, Store, StoredEvent

from .changes import Change, apply_change
from .last_evictions import evictions_to_forget, evictions_to_store
from .set_aside import SetAside
from .unfinished import UnfinishedRecords

log = logging.getLogger(__name__)

#: Number of stored events, for listeners that come back.
EVENTS_KEPT = 10_000
#: Number of new events after which old ones are deleted.
_PRUNE_EVERY = 1_000


@dataclass(frozen=True, kw_only=True, slots=True)
class _Applied:
    """A change of one record, with the record before and after it."""

    before: Record
    after: Record
    change: Change


class Records:
    """The records of all workloads, and the only way to change them."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        describe: Callable[[Record], JsonObject],
        publish: Callable[[StoredEvent], None],
    ) -> None:
        """Load the unfinished records from the store.

        `describe` makes the payload of an event about a record, and `publish` sends a stored event to listeners.
        """
        self._store, self._clock, self._describe, self._publish = store, clock, describe, publish
        self._unfinished = UnfinishedRecords(store.unfinished())
        #: Workloads that could not be observed, recorded or shown.
        self.set_aside = SetAside()
        #: Why it is unknown whether the last change was stored; None = memory and store agree.
        self._in_doubt: StoreUnavailable | None = None
        self._events_since_pruning = 0
        #: Grows with every stored change, so that results can be kept until the next change.
        self.revision = 0

    def unfinished(self) -> tuple[Record, ...]:
        """Return the records of all workloads that are not final."""
        return tuple(self._unfinished.all.values())

    def notebooks(self) -> tuple[Record, ...]:
        """Return the records of all notebooks that are not final."""
        return tuple(self._unfinished.notebooks.values())

    def holding(self) -> tuple[Record, ...]:
        """Return the records of all workloads that hold devices, from admission until their run has ended."""
        return tuple(self._unfinished.holding.values())

    def find_unfinished(self, workload: str) -> Record | None:
        """Return the record of a workload that is not final, from memory; None if it is final or unknown."""
        return self._unfinished.all.get(workload)

    def is_present_run(self, workload: str, run: int) -> bool:
        """Return whether that run is the present one of an unfinished workload."""
        record = self._unfinished.all.get(workload)
        return record is not None and record.workload.run == run

    def get(self, workload: str) -> Record | None:
        """Return the record of a workload, final or not; None if there is none."""
        return self._unfinished.all.get(workload) or self._store.get(workload)

    def add(self, record: Record, audit: AuditEntry, changes: Sequence[Change] = ()) -> None:
        """Store record and audit entry of a new workload together with changes of others, and publish events.

        The last eviction of its owner is deleted if the workload is a notebook with a GPU. Nothing is stored if an
        error is raised; see `commit`.
        """
        workload, applied = record.workload, self._apply(changes)
        records = {**_last_states(applied), workload.id: record}
        self._save(records, [*_acts(changes), audit], evictions_to_forget(record))
        _log_moves(applied)
        log.info("%s of %s waits in %s", workload.id, workload.owner, workload.queue, extra=workload.log_fields)

    def add_audit(self, entry: AuditEntry) -> None:
        """Store an audit entry about a workload that may be final or deleted; errors of the store are raised."""
        self._save({}, [entry], {})

    def commit(self, changes: Sequence[Change]) -> None:
        """Apply these changes in order, save them together, and publish an event for each changed record.

        The eviction or failure of a notebook is saved as the last one of its owner. Nothing is changed if an error is
        raised: `NotFound` for a workload that is final or unknown, `IllegalTransition` for an event that the table of
        states does not allow, or an error of the store.
        """
        applied = self._apply(changes)
        if applied:
            evictions = evictions_to_store((each.after, each.change) for each in applied)
            self._save(_last_states(applied), _acts(changes), evictions)
            _log_moves(applied)

    def commit_each(self, changes: Sequence[Change]) -> None:
        """Apply these changes as `commit` does; if one of them is impossible, commit those of each workload alone.

        A workload whose changes are impossible is then set aside. Errors of the store are raised.
        """
        grouped: dict[str, list[Change]] = {}
        for change in changes:
            grouped.setdefault(change.workload, []).append(change)
        try:
            self.commit(changes)
        except MachineError:
            raise
        except Exception:  # noqa: BLE001 - each workload is tried alone, and the failure is kept with its workload
            for workload, own in grouped.items():
                self.set_aside.attempt(workload, "recording", partial(self.commit, own))

    def change_in_memory(self, change: Change) -> None:
        """Apply a change in memory only, for samples that are worthless after a restart; publish nothing.

        Does nothing if the workload is final or unknown. Raises `ValueError` for a change of state.
        """
        if change.event is not None:
            raise ValueError("a change of state is always saved")
        before = self._unfinished.all.get(change.workload)
        if before is not None:
            self._unfinished.put(apply_change(before, change))

    def reload_after_outage(self) -> bool:
        """Read the unfinished records again, if the store failed so that the fate of the last change is unknown.

        Returns whether that was necessary.
        """
        if self._in_doubt is None:
            return False
        self._unfinished = UnfinishedRecords(self._store.unfinished())
        self._in_doubt = None
        self.revision += 1
        return True

    def _apply(self, changes: Sequence[Change]) -> list[_Applied]:
        """Return these changes, applied in order, and store nothing; raise `NotFound` or `IllegalTransition`."""
        applied: list[_Applied] = []
        records: dict[str, Record] = {}
        for change in changes:
            before = records.get(change.workload) or self._unfinished.all.get(change.workload)
            if before is None:
                raise NotFound(f"There is no unfinished workload {change.workload}.")
            after = records[change.workload] = apply_change(before, change)
            applied.append(_Applied(before=before, after=after, change=change))
        return applied

    def _save(
        self, records: Mapping[str, Record], audit: Sequence[AuditEntry], settings: Mapping[str, JsonObject]
    ) -> None:
        """Store the records, an event for each, audit entries and settings; update memory, and publish the events.

        Raises `StoreUnavailable` without storing if an earlier change is in doubt. A record that cannot be described is
        saved without an event.
        """
        if self._in_doubt is not None:
            # The store may answer again, but the change was made from records that may be outdated.
            raise StoreUnavailable(self._in_doubt.place, self._in_doubt.told)
        now = self._clock.now()
        described = {
            name: self.set_aside.attempt(name, "showing", partial(self._describe, record))
            for name, record in records.items()
        }
        events = [
            NewEvent(
                at=now,
                owner=records[name].workload.owner,
                kind=event_kind(records[name]),
                object=name,
                payload=payload,
            )
            for name, payload in described.items()
            if payload is not None
        ]
        try:
            stored = self._store.save(tuple(records.values()), events, audit, settings)
        except StoreUnavailable as error:
            self._in_doubt = error
            raise
        self.revision += 1
        for name, record in records.items():
            if record.workload.state in FINAL:
                self._unfinished.drop(name)
                self.set_aside.forget(name)
            else:
                self._unfinished.put(record)
        for event in stored:
            self._publish(event)
        self._prune(len(stored))

    def _prune(self, added: int) -> None:
        """Count the added events, and from time to time delete all stored events but the newest `EVENTS_KEPT`.

        A failure is logged: the change that added the events is stored, and its caller must not take it for refused.
        """
        self._events_since_pruning += added
        if self._events_since_pruning >= _PRUNE_EVERY:
            self._events_since_pruning = 0
            try:
                self._store.prune_events(EVENTS_KEPT)
            except Exception as error:  # noqa: BLE001 - the failure of a clean-up is no failure of the stored change
                log.warning("old events could not be deleted; it is tried again later: %s", error)


def event_kind(record: Record) -> Literal["job", "notebook"]:
    """Return the kind of the events about a record: "notebook" or "job"."""
    return "notebook" if record.workload.kind is Kind.NOTEBOOK else "job"


def _last_states(applied: Sequence[_Applied]) -> dict[str, Record]:
    """Return each changed record as it is after all of its changes, by id of its workload."""
    return {each.change.workload: each.after for each in applied}


def _acts(changes: Sequence[Change]) -> list[AuditEntry]:
    """Return the audit entries of these changes."""
    return [change.audit for change in changes if change.audit is not None]


def _log_moves(applied: Sequence[_Applied]) -> None:
    """Log each change of state."""
    for each in applied:
        if each.change.event is not None:
            _log_move(each.before, each.after, each.change.event)


def _log_move(before: Record, after: Record, event: Event) -> None:
    """Log one change of state, with workload, owner, states, event, queue and run."""
    workload = after.workload
    log.info(
        "%s of %s: %s -> %s (%s) queue=%s run=%d",
        workload.id,
        workload.owner,
        before.workload.state.value,
        workload.state.value,
        event.value,
        workload.queue,
        workload.run,
        extra={**workload.log_fields, "state": workload.state.value, "event": event.value},
    )
