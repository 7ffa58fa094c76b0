"""The records that are not final; those that each step asks for are kept apart, since most only wait."""

from collections.abc import Iterable

from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record


class Live:
    """Records by id, each also where it belongs as it is now."""

    def __init__(self, records: Iterable[Record]) -> None:
        self.all: dict[str, Record] = {}
        #: Of notebooks.
        self.notebooks: dict[str, Record] = {}
        #: That wait no more: placed, running, or ending.
        self.begun: dict[str, Record] = {}
        for record in records:
            self.put(record)

    def put(self, record: Record) -> None:
        """Store a live record, new or changed."""
        name, waits = record.workload.id, record.workload.state is State.PENDING
        self.all[name] = record
        for group, belongs in (
            (self.notebooks, record.workload.kind is Kind.NOTEBOOK),
            (self.begun, not waits),
        ):
            if belongs:
                group[name] = record
            else:
                group.pop(name, None)

    def drop(self, name: str) -> None:
        """Remove a record that is final."""
        for group in (self.all, self.notebooks, self.begun):
            group.pop(name, None)
