"""The database on a full disk: changes of state are stored, and outputs wait for room."""

from dataclasses import replace

import pytest

from jupyter_gq.domain.errors import StorageFull
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store.protocol import OutputPiece, Record
from jupyter_gq.store.sql import SqlStore
from tests.builders import a_job

from .small_disk import fill, mounted


@pytest.fixture
def disk(tmp_path):
    """A disk of 20 MiB."""
    with mounted(tmp_path / "disk", size="20m") as folder:
        yield folder


def a_store(disk, reserve):
    store = SqlStore(f"sqlite:///{disk}/service.sqlite", reserve=reserve)
    store.take_over()
    store.confirm()
    return store


def a_record(id):
    return Record(workload=a_job("digits", "vision", id=id, owner="ann"), detail=WorkloadDetail())


def append_until_short(store, job):
    """Append pieces as long as the store takes them; raise what it says then."""
    for seq in range(1, 100_000):
        store.append_outputs(job, [a_piece(seq)])
        store.confirm()


def a_piece(seq, size=1000):
    return OutputPiece(seq=seq, payload={"op": "append", "cell": "c1", "text": "x" * size})


def end(store, record):
    """Store the record again in another state, as each change of a workload does."""
    store.save([replace(record, workload=replace(record.workload, run=record.workload.run + 1))])


def test_ends_are_stored_on_a_full_disk_and_outputs_are_not(disk):
    store, records = a_store(disk, 2**20), [a_record(f"job-{number}") for number in range(200)]
    store.save(records)
    fill(disk)
    with pytest.raises(StorageFull, match=r"is full\. Work that runs goes on"):
        append_until_short(store, "job-0")
    stored = store.last_seqs(["job-0"])["job-0"]
    for number, record in enumerate(records):
        end(store, record)
        if number % 10 == 0:
            store.confirm()  # as at each step of the service
    with pytest.raises(StorageFull):
        store.put_file("job-1", "bundle.json", b"{}")
    assert store.shortage
    (disk / "filler").unlink()
    store.confirm()
    assert store.shortage == ""
    assert store.append_outputs("job-0", [a_piece(stored + 1)]) == stored + 1
    store.close()


def test_reserve_is_restored_after_much_output(disk):
    store, record = a_store(disk, 2**20), a_record("job-1")
    store.save([record])
    for seq in range(1, 30):
        store.append_outputs("job-1", [a_piece(seq, 100_000)])
        store.confirm()
    fill(disk)
    store.confirm()
    for _ in range(20):
        end(store, record)
    store.close()


def test_database_of_a_service_that_was_killed_while_it_made_its_reserve_is_mended(disk):
    store = a_store(disk, 2**20)
    with store._database.write() as connection:
        connection.exec_driver_sql("CREATE TABLE reserve (room BLOB)")
        connection.exec_driver_sql("DELETE FROM reserve")
    store.close()
    again = a_store(disk, 2**20)
    again.confirm()
    assert again.shortage == ""
    again.close()
