"""Records: the service's memory of workloads, in the store, and for live workloads also in this process.

Rules
-----
1. `commit` is the only way to change a record, and `apply_change` the only place that assigns a state.
2. The store comes first: when it refuses, memory is as it was, and the error goes to whoever asked.
3. A change of state is logged here, once, with its fields; names of variables, bundles and tokens never are.
4. One process writes; so memory and store agree at every moment. Only a store that did not answer may have kept what
   it did not confirm: then nothing is changed until `settle` has read everything anew.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

from jupyter_gq.controller.clock import Clock
from jupyter_gq.domain.errors import MachineError, NotFound, StoreUnavailable
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.states import FINAL, Event
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import NewEvent, Record, Store, StoredEvent

from .changes import Change, apply_change
from .live import Live
from .set_aside import SetAside

log = logging.getLogger(__name__)

#: Events that are kept for readers who come back.
EVENTS_KEPT = 10_000
_PRUNE_EVERY = 1_000


class Records:
    """The records, through which every change goes."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        describe: Callable[[Record], JsonObject],
        publish: Callable[[StoredEvent], None],
    ) -> None:
        self._store, self._clock, self._describe, self._publish = store, clock, describe, publish
        self._live = Live(store.live())
        #: Workloads that could not be observed, recorded or shown.
        self.set_aside = SetAside()
        #: What hid the answer to the last change; None while memory is as the store.
        self._in_doubt: StoreUnavailable | None = None
        self._events_since_pruning = 0
        #: Grows with every change; what was computed for one revision holds until the next.
        self.revision = 0

    def live(self) -> tuple[Record, ...]:
        """Return every record that is not final."""
        return tuple(self._live.all.values())

    def notebooks(self) -> tuple[Record, ...]:
        """Return the live records of notebooks."""
        return tuple(self._live.notebooks.values())

    def begun(self) -> tuple[Record, ...]:
        """Return the live records that are no longer pending."""
        return tuple(self._live.begun.values())

    def alive(self, workload: str) -> Record | None:
        """Return a live record; None if it is final or unknown."""
        return self._live.all.get(workload)

    def get(self, workload: str) -> Record | None:
        """Return a record, from memory while it lives."""
        return self._live.all.get(workload) or self._store.get(workload)

    def add(self, record: Record) -> None:
        """Store a new record, with its event."""
        self._save({record.workload.id: record}, {record.workload.id})
        log.info("%s of %s waits in %s", record.workload.id, record.workload.owner, record.workload.queue)

    def commit(self, changes: Sequence[Change]) -> None:
        """Apply these changes in order and save them together; raise and change nothing when one is impossible."""
        changed: dict[str, Record] = {}
        moves: list[tuple[Record, Record, Event]] = []
        for change in changes:
            before = changed.get(change.workload) or self._live.all.get(change.workload)
            if before is None:
                raise NotFound(f"There is no live workload {change.workload}.")
            after = apply_change(before, change)
            changed[change.workload] = after
            if change.event is not None:
                moves.append((before, after, change.event))
        if changed:
            self._save(changed, changed.keys())
        for before, after, event in moves:
            _log_move(before, after, event)

    def commit_each(self, changes: Sequence[Change]) -> None:
        """Apply the changes of each workload as `commit` does, and set aside a workload whose changes are impossible.

        The changes of one workload are saved together. Errors of the store are raised.
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

    def note(self, change: Change) -> None:
        """Change a record in memory only: samples that are worthless after a restart. Never a state."""
        if change.event is not None:
            raise ValueError("a change of state is always saved")
        before = self._live.all.get(change.workload)
        if before is not None:
            self._live.put(apply_change(before, change))

    def settle(self) -> bool:
        """Read everything that is alive anew, if it is not known whether the last change was kept."""
        if self._in_doubt is None:
            return False
        self._live = Live(self._store.live())
        self._in_doubt = None
        self.revision += 1
        return True

    def _save(self, records: Mapping[str, Record], announced: Iterable[str]) -> None:
        if self._in_doubt is not None:
            # The store may answer again, but what would be written is made of what may not be so any more.
            raise StoreUnavailable(self._in_doubt.place, self._in_doubt.told)
        now = self._clock.now()
        described = {
            name: self.set_aside.attempt(name, "showing", partial(self._describe, records[name])) for name in announced
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
            stored = self._store.save(tuple(records.values()), events)
        except StoreUnavailable as error:
            self._in_doubt = error
            raise
        self.revision += 1
        for name, record in records.items():
            if record.workload.state in FINAL:
                self._live.drop(name)
                self.set_aside.forget(name)
            else:
                self._live.put(record)
        for event in stored:
            self._publish(event)
        self._prune(len(stored))

    def _prune(self, added: int) -> None:
        self._events_since_pruning += added
        if self._events_since_pruning >= _PRUNE_EVERY:
            self._events_since_pruning = 0
            self._store.prune_events(EVENTS_KEPT)


def event_kind(record: Record) -> Literal["job", "notebook"]:
    """Under which name listeners hear of it."""
    return "notebook" if record.workload.kind is Kind.NOTEBOOK else "job"


def _log_move(before: Record, after: Record, event: Event) -> None:
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
        extra={"workload": workload.id, "state": workload.state.value, "event": event.value, "run": workload.run},
    )
