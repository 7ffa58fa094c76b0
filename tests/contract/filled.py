"""Stores with a row of everything, and all that can be read of them."""

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action, AuditEntry, AuditFilter
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store.protocol import NewEvent, OutputPiece, PageSize, Record
from jupyter_gq.store.sql import SqlStore
from tests.builders import a_job


def fill(url):
    """Return a store in which something of everything was kept, and some of it forgotten."""
    store = SqlStore(url)
    store.take_over()
    records = [_make_record(number) for number in range(450)]
    events = [
        NewEvent(at=Instant(number), owner="ann", kind="job", object=record.workload.id, payload={"n": 1})
        for number, record in enumerate(records)
    ]
    store.save(records, events)
    store.append_outputs("job-1", [OutputPiece(seq=n, payload={"op": "append", "cell": "c"}) for n in range(1, 351)])
    store.put_file("job-1", "bundle", bytes(range(256)) * 10_000)
    store.put_parts("ann", {"a" * 64: b"WIDTH = 7", "b" * 64: b"unused"}, Instant(5.0))
    assert not store.use_parts("job-1", "ann", [("a" * 64, len(b"WIDTH = 7"))])
    entry = AuditEntry(
        at=Instant(7), actor="root", action=Action.SETTINGS_CHANGE, object="hub.py", details={"ä\u0000": 1}
    )
    store.put_setting("policy", {"half_life": 3600}, [entry])
    store.prune_events(20)
    return store


def _make_record(number):
    state = State.PENDING if number % 2 else State.SUCCEEDED
    return Record(
        workload=a_job("digits", "vision", id=f"job-{number}", owner="ann", state=state),
        detail=WorkloadDetail(sentence="ä\u0000", consecutive_losses=number),
        idempotency_key=f"k{number}",
    )


def contents(store):
    """Return all that can be read of the store, without what the commands on the database added to the audit log."""
    records = store.list(PageSize(entries=1000))
    outputs = {record.workload.id: store.outputs(record.workload.id) for record in records}
    keys = [store.by_idempotency_key("ann", f"k{number}") for number in (0, 1)]
    audit = [entry for entry in store.audit(AuditFilter()) if not entry.action.startswith("database.")]
    files = store.file("job-1", "bundle"), store.parts("job-1", 0, PageSize(entries=10))
    return records, outputs, keys, store.events_after(0), audit, store.setting("policy"), files
