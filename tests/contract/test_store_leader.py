"""Of all who ever opened a database, only the one that took over last changes anything in it."""

import threading

import pytest

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action, AuditEntry, AuditFilter
from jupyter_gq.domain.errors import Superseded
from jupyter_gq.domain.states import State
from jupyter_gq.store import statements
from jupyter_gq.store.protocol import NewEvent, OutputPiece, Record
from jupyter_gq.store.sql import SqlStore
from tests.builders import a_job
from tests.patience import scaled


@pytest.fixture
def opened(url):
    """Makes stores on one database."""
    stores = []

    def open():
        stores.append(SqlStore(url))
        return stores[-1]

    yield open
    for store in stores:
        store.close()


def a_record(id, **fields):
    return Record(workload=a_job("digits", "vision", id=id, **fields))


def an_event(**payload):
    return NewEvent(at=Instant(1.0), owner=None, kind="queues", object="", payload=payload)


AN_ENTRY = AuditEntry(at=Instant(1.0), actor="root", action=Action.SETTINGS_CHANGE, object="hub.py")
WRITES = {
    "save": lambda store: store.save([a_record("new")], [an_event()]),
    "append_outputs": lambda store: store.append_outputs("old", [OutputPiece(seq=1, payload={"op": "run"})]),
    "delete_portion": lambda store: store.delete_portion("old"),
    "prune_events": lambda store: store.prune_events(0),
    "put_setting": lambda store: store.put_setting("policy", {"new": True}),
    "audit entry": lambda store: store.put_setting("policy", {"new": True}, [AN_ENTRY]),
    "delete_audit_before": lambda store: store.delete_audit_before(Instant(2.0)),
    "put_file": lambda store: store.put_file("old", "bundle", b"new"),
    "delete_file": lambda store: store.delete_file("old", "bundle"),
    "delete_files": lambda store: store.delete_files("old"),
}


def contents(store):
    return (
        store.list(), store.outputs("old"), store.events_after(0), store.setting("policy"), store.file("old", "bundle"),
        store.audit(AuditFilter()),
    )  # fmt: skip


@pytest.mark.parametrize("write", WRITES)
def test_who_was_replaced_changes_nothing(opened, write):
    old = opened()
    assert old.take_over() == 1
    old.save([a_record("old", state=State.FAILED)], [an_event()], [AN_ENTRY])
    old.put_file("old", "bundle", b"old")
    new = opened()
    assert new.take_over() == 2
    before = contents(new)
    with pytest.raises(Superseded, match="epoch is 2, ours 1"):
        WRITES[write](old)
    assert contents(new) == contents(old) == before
    WRITES[write](new)
    assert contents(new) != before, "the one in charge does change something"


def test_whether_one_was_replaced_can_be_asked(opened):
    old, new = opened(), opened()
    old.confirm()
    new.take_over()
    with pytest.raises(Superseded):
        old.confirm()
    new.confirm()


def test_who_opens_the_database_later_may_not_write_before_taking_over(opened):
    first = opened()
    first.take_over()
    later = opened()
    with pytest.raises(Superseded):
        later.put_setting("policy", {})
    first.put_setting("policy", {"still": "first"})
    assert later.setting("policy") == {"still": "first"}, "but it may read"


def test_who_was_replaced_may_take_over_again(opened):
    one, two = opened(), opened()
    assert [one.take_over(), two.take_over(), one.take_over()] == [1, 2, 3]
    one.put_setting("policy", {})
    with pytest.raises(Superseded):
        two.put_setting("policy", {})


def test_what_a_dead_service_kept_for_work_that_it_never_saved_goes_with_the_next_take_over(opened):
    dead = opened()
    dead.take_over()
    dead.save([a_record("saved")])
    dead.put_file("saved", "bundle", b"1")
    dead.put_file("never saved", "bundle", b"2")
    new = opened()
    new.take_over()
    assert (new.file("saved", "bundle"), new.file("never saved", "bundle")) == (b"1", None)


def test_nobody_takes_over_in_the_middle_of_a_write(opened):
    old, new = opened(), opened()
    old.take_over()
    taking = threading.Thread(target=new.take_over)
    with old._database.write():
        taking.start()
        taking.join(0.2)
        assert taking.is_alive(), "it waits for the write to end"
    taking.join()
    with pytest.raises(Superseded):
        old.put_setting("policy", {})


def test_a_write_that_waited_for_another_to_take_over_changes_nothing(opened):
    old, new = opened(), opened()
    old.take_over()
    failures = []

    def write():
        try:
            old.put_setting("policy", {"by": "old"})
        except Superseded as error:
            failures.append(error)

    writing = threading.Thread(target=write)
    with new._database._locked() as (connection, epoch):
        writing.start()
        writing.join(0.2)
        assert writing.is_alive(), "it waits until it is known who is in charge"
        statements.set_epoch(connection, epoch + 1)
    writing.join()
    assert failures
    assert new.setting("policy") is None


def test_of_three_that_fight_for_the_database_none_writes_after_it_was_replaced(opened):
    """The events in the order of their ids carry epochs that never fall, and no write is half there."""
    superseded, everybody = [], threading.Barrier(3)

    def fight(store):
        for _ in range(12):
            epoch = store.take_over()
            everybody.wait(scaled(30))  # so in each round two of them have been replaced
            try:
                for number in range(4):
                    store.save([a_record(f"{epoch}-{number}")], [an_event(epoch=epoch)])
            except Superseded:
                superseded.append(epoch)

    fighters = [threading.Thread(target=fight, args=(opened(),)) for _ in range(3)]
    for fighter in fighters:
        fighter.start()
    for fighter in fighters:
        fighter.join()
    store = opened()
    epochs = [event.payload["epoch"] for event in store.events_after(0, limit=1_000)]
    assert len(superseded) >= 24
    assert epochs == sorted(epochs)
    assert {f"{epoch}-{epochs[:at].count(epoch)}" for at, epoch in enumerate(epochs)} == {
        record.workload.id for record in store.unfinished()
    }
