"""Stores that are lost, full or too late, around a real one."""

from collections.abc import Sequence
from typing import Any

from jupyter_gq.domain.errors import Conflict, StorageFull, StoreUnavailable
from jupyter_gq.store.protocol import OutputPiece, Store, StoredEvent

from .time_and_death import Fuse


class _StoreAround:
    """Passes everything on; the doubles below override what goes wrong."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class StoreOfAServiceThatDies(_StoreAround):
    """The service may be killed just before or just after a save."""

    def __init__(self, store: Store, fuse: Fuse) -> None:
        super().__init__(store)
        self._fuse = fuse

    def save(self, *given: Any, **named: Any) -> tuple[StoredEvent, ...]:
        self._fuse.burn()
        stored = self._store.save(*given, **named)
        self._fuse.burn()
        return stored


class StoreIsFull(_StoreAround):
    """Refuses every write while `full`."""

    full = True

    def save(self, *given: Any, **named: Any) -> tuple[StoredEvent, ...]:
        if self.full:
            raise StorageFull("The disk of the database is full.")
        return self._store.save(*given, **named)


class StoreKeepsOldEvents(_StoreAround):
    """Cannot delete events."""

    def prune_events(self, keep: int) -> None:
        raise StorageFull("The disk of the database is full.")


class StoreTakesNoOutputs(_StoreAround):
    """Has room for records, and while `full` none for outputs."""

    full = True

    def append_outputs(self, workload: str, outputs: Sequence[OutputPiece]) -> int:
        if self.full:
            raise StorageFull("The disk of the database is full.")
        return self._store.append_outputs(workload, outputs)


class StoreGoesAway(_StoreAround):
    """While `away` it answers nothing."""

    away = False
    asked = 0

    def __getattr__(self, name: str) -> Any:
        real = getattr(self._store, name)

        def unanswered(*given: Any, **named: Any) -> Any:
            self.asked += 1
            raise StoreUnavailable("'jobs' at db", "connection refused")

        return unanswered if self.away else real


class StoreLosesAnAnswer(_StoreAround):
    """The next save, once `losing`, is kept; but whoever asked for it never hears so."""

    losing = False

    def save(self, *given: Any, **named: Any) -> tuple[StoredEvent, ...]:
        stored = self._store.save(*given, **named)
        if self.losing:
            self.losing = False
            raise StoreUnavailable("'jobs' at db", "server closed the connection unexpectedly")
        return stored


class StoreLosesTheRace(_StoreAround):
    """Somebody else's save of the same key came first."""

    def save(self, *given: Any, **named: Any) -> tuple[StoredEvent, ...]:
        raise Conflict("Another workload of this owner was submitted with the same idempotency key.")
