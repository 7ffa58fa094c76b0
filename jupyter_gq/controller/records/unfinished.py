"""The records that are not final, with separate indexes for those that each step reads: most records only wait."""

from collections.abc import Iterable

from jupyter_gq.domain.workload import Kind
from jupyter_gq.store.protocol import Record


class UnfinishedRecords:
    """The unfinished records by id, and indexes of some of them."""

    def __init__(self, records: Iterable[Record]) -> None:
        #: All unfinished records, by id.
        self.all: dict[str, Record] = {}
        #: Records of notebooks, by id.
        self.notebooks: dict[str, Record] = {}
        #: Records of workloads that hold devices, by id: admitted, running or ending.
        self.holding: dict[str, Record] = {}
        for record in records:
            self.put(record)

    def put(self, record: Record) -> None:
        """Add an unfinished record, or replace the record with the same id; the indexes follow."""
        name = record.workload.id
        self.all[name] = record
        for group, belongs in (
            (self.notebooks, record.workload.kind is Kind.NOTEBOOK),
            (self.holding, record.workload.holds),
        ):
            if belongs:
                group[name] = record
            else:
                group.pop(name, None)

    def drop(self, name: str) -> None:
        """Remove the record of that id from all indexes; does nothing if it is not there."""
        for group in (self.all, self.notebooks, self.holding):
            group.pop(name, None)
