"""What every store guarantees, on each database. Another one is added by its URL."""

import multiprocessing
import os
import stat
import threading
from dataclasses import replace

import pytest

from jupyter_gq.client.outputs.fold import LEFT_OUT, fold
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.audit import Action, AuditEntry, AuditFilter
from jupyter_gq.domain.errors import Conflict, NotFound
from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload import Activity, Hold, Kind, Stop, TaskPlacement
from jupyter_gq.domain.workload_detail import CodeError, WorkloadDetail
from jupyter_gq.store.codec import encode_json
from jupyter_gq.store.engine import WRITES, open_engine
from jupyter_gq.store.protocol import NewEvent, OutputPiece, OutputSize, PageSize, Record
from jupyter_gq.store.rows import row_of
from jupyter_gq.store.schema import upgrade
from jupyter_gq.store.sql import SqlStore, _put_records
from jupyter_gq.store.statements import put_setting, put_workloads
from tests.builders import a_job, a_notebook
from tests.patience import scaled


@pytest.fixture
def store(url):
    opened = SqlStore(url)
    yield opened
    opened.close()


@pytest.fixture
def reopened(store, url):
    """What another process would find."""
    stores = []

    def reopen():
        stores.append(SqlStore(url))
        return stores[-1]

    yield reopen
    for opened in stores:
        opened.close()


def a_record(id="digits", **fields):
    workload = a_job("digits", "vision", id=id, **fields)
    return Record(workload=workload, detail=WorkloadDetail(cwd="/home/ann", consecutive_losses=1))


def an_event(kind="job", owner="ann", **payload):
    return NewEvent(at=Instant(5.0), owner=owner, kind=kind, object="digits", payload=payload)


def pieces(*payloads, start=1):
    return [OutputPiece(seq=seq, payload={**p, "seq": seq}) for seq, p in enumerate(payloads, start)]


def text(cell, content):
    return {"op": "append", "cell": cell, "output": {"output_type": "stream", "name": "stdout", "text": content}}


def test_finished_work_is_found_by_its_age_page_by_page(store):
    records = [a_record(id, submitted=at, state=State.SUCCEEDED) for at, id in enumerate("abcd")]
    store.save([*records, a_record("alive")])
    first, last = records[0].workload.submitted_at, records[-1].workload.submitted_at
    assert [each.workload.id for each in store.finished(last)] == ["a", "b", "c"]
    assert [each.workload.id for each in store.finished(last, limit=2)] == ["a", "b"]
    assert [each.workload.id for each in store.finished(last, after="b", limit=2)] == ["c"]
    assert store.finished(first) == ()


def test_owners_of_finished_work_are_known_by_its_kind(store):
    records = (
        a_record("a", owner="ann", state=State.SUCCEEDED),
        a_record("b", owner="ann", state=State.FAILED),
        a_record("c", owner="carol", state=State.SUCCEEDED, kind=Kind.NOTEBOOK),
        a_record("d", owner="dora"),
    )
    assert store.owners_of_finished(Kind.TRAINING) == frozenset()
    store.save(records)
    assert store.owners_of_finished(Kind.TRAINING) == {"ann"}
    assert store.finished_owners(Kind.TRAINING) == {"a": "ann", "b": "ann"}


def test_a_record_is_forgotten_after_its_output_in_small_steps(store):
    store.save([a_record("old", state=State.FAILED), a_record("other")])
    for name in ("old", "other"):
        store.append_outputs(name, pieces(*[text("c", str(number)) for number in range(5)]))
    assert [store.delete_portion("old", pieces=2) for _ in range(3)] == [False, False, False]
    assert (store.get("old") is not None, store.last_seqs(["old"])["old"]) == (True, 0)
    assert store.delete_portion("old", pieces=2)
    assert store.get("old") is None
    assert store.last_seqs(["other"])["other"] == 5
    assert store.delete_portion("old"), "forgetting twice is no error"


def test_what_has_not_ended_is_never_forgotten(store):
    store.save([a_record("alive")])
    store.append_outputs("alive", pieces(text("c", "1")))
    with pytest.raises(Conflict):
        store.delete_portion("alive")
    assert store.last_seqs(["alive"])["alive"] == 1


def test_a_record_comes_back_as_it_was(store, reopened):
    full = Record(
        workload=replace(
            a_notebook("ann", "0.25"),
            state=State.STOPPING,
            run=3,
            started_at=Instant(12.5),
            placement=(TaskPlacement(node="box", devices=("GPU-1", "GPU-2")),),
            stop=Stop(reason=EvictReason.IDLE, sentence="Idle.", by="bob", at=Instant(3.0), requeue=False),
            hold=Hold(by="root", at=Instant(4.0)),
            activity=Activity(busy=None, last_active=Instant(2.0), sampled_at=Instant(2.5), expire_at=Instant(9.0)),
        ),
        detail=WorkloadDetail(
            error=CodeError(ename="Error", evalue="ä\ud800\0"),
            unknown={"nested": [{"text": "ä\ud800\0"}], "none": None},
        ),
        idempotency_key="k1",
        token_hash="ab",
    )
    store.save([full])
    assert reopened().get(full.workload.id) == full


def test_saving_again_replaces(store):
    record = a_record()
    store.save([record])
    changed = replace(record, workload=replace(record.workload, state=State.ADMITTED), detail=WorkloadDetail())
    store.save([changed])
    assert store.get("digits") == changed
    assert store.unfinished() == (changed,)


def test_what_is_not_there_is_none(store):
    assert store.get("nothing") is None
    assert store.by_idempotency_key("ann", "nothing") is None
    assert store.setting("nothing") is None
    assert store.unfinished() == store.list() == store.outputs("nothing") == store.events_after(0) == ()
    assert store.event_range() == (0, 0)
    assert store.last_seqs(["nothing"])["nothing"] == 0


def test_live_is_oldest_first_without_what_is_final(store):
    jobs = [a_record("c", submitted=1), a_record("b", submitted=1), a_record("a", submitted=2)]
    done = a_record("done", submitted=0, state=State.SUCCEEDED)
    store.save([*jobs, done])
    assert [record.workload.id for record in store.unfinished()] == ["b", "c", "a"]


def test_ids_have_the_order_of_their_bytes(store):
    ids = ["B", "a", "a-b", "ab", "Z", "_"]
    store.save([a_record(id, submitted=1, state=State.SUCCEEDED) for id in ids])
    store.save([a_record(f"{id}*", submitted=1) for id in ids])
    assert [record.workload.id for record in store.unfinished()] == sorted(f"{id}*" for id in ids)
    assert [record.workload.id for record in store.finished(Instant(1e12))] == sorted(ids)
    assert [record.workload.id for record in store.finished(Instant(1e12), after="Z")] == ["_", "a", "a-b", "ab"]
    assert [record.workload.id for record in store.list(before="B")] == []


def test_list_pages_newest_first_and_filters(store):
    store.save([a_record(f"j{i}", submitted=i // 2) for i in range(6)])
    notebook = Record(workload=a_notebook("bob", submitted=9))
    store.save([notebook])
    pages, before = [], None
    while page := store.list(kind=Kind.TRAINING, owner="ann", before=before, page=PageSize(entries=4)):
        pages.append([record.workload.id for record in page])
        before = page[-1].workload.id
    assert pages == [["j5", "j4", "j3", "j2"], ["j1", "j0"]]
    assert store.list(owner="bob") == (notebook,)
    assert len(store.list(before="unknown")) == 7


def test_an_idempotency_key_is_unique_for_its_owner_only(store):
    first = replace(a_record("one"), idempotency_key="k")
    other = replace(a_record("two", owner="bob"), idempotency_key="k")
    store.save([first, other])
    assert store.by_idempotency_key("ann", "k") == first
    assert store.by_idempotency_key("bob", "k") == other
    with pytest.raises(Conflict):
        store.save([a_record("fresh"), replace(a_record("three"), idempotency_key="k")], [an_event()])
    assert store.get("fresh") is None, "a refused save leaves nothing"
    assert store.events_after(0) == ()


def test_events_have_increasing_ids_that_are_never_used_again(store, reopened):
    first = store.save([a_record()], [an_event(n=1), an_event(n=2)])
    assert [event.id for event in first] == sorted({event.id for event in first})
    assert [event.payload for event in store.events_after(first[0].id)] == [{"n": 2}]
    store.prune_events(0)
    assert store.event_range() == (0, 0)
    (later,) = reopened().save([], [an_event(owner=None)])
    assert later.id > first[-1].id
    assert store.events_after(0) == (later,)


def test_pruning_keeps_the_newest_events(store):
    ids = [event.id for event in store.save([], [an_event(n=n) for n in range(5)])]
    store.prune_events(2)
    assert store.event_range() == (ids[3], ids[4])
    store.prune_events(2)
    assert [event.id for event in store.events_after(0, limit=1)] == [ids[3]]


def test_outputs_are_stored_once_and_without_gaps(store):
    store.save([a_record()])
    assert store.append_outputs("digits", pieces(text("c", "a"), text("c", "b"))) == 2
    assert store.append_outputs("digits", pieces(text("c", "X"), text("c", "Y"), text("c", "c"))) == 3
    assert store.append_outputs("digits", pieces(text("c", "late"), start=5)) == 3
    mixed = [*pieces(text("c", "d"), start=4), *pieces(text("c", "f"), start=6)]
    assert store.append_outputs("digits", mixed) == 4
    assert store.append_outputs("digits", []) == 4
    assert [o.seq for o in store.outputs("digits")] == [1, 2, 3, 4]
    assert fold(o.payload for o in store.outputs("digits"))["c"][0]["text"] == "abcd"
    assert [o.seq for o in store.outputs("digits", after=1, page=PageSize(entries=2))] == [2, 3]
    assert store.last_seqs(["digits"])["digits"] == 4


def test_outputs_of_a_workload_that_was_never_saved_are_refused(store):
    with pytest.raises(NotFound):
        store.append_outputs("nothing", pieces(text("c", "a")))


@pytest.mark.parametrize("batch", [1, 3, 100])
@pytest.mark.parametrize("after", range(9))
def test_a_reader_folds_to_the_same_outputs_whatever_a_set_made_superfluous(store, batch, after):
    store.save([a_record()])
    told = pieces(
        {"op": "run", "state": "start"},
        text("c", "a"),
        text("other", "o"),
        text("c", "b"),
        {"op": "cell", "cell": "c", "state": "end"},
        {"op": "set", "cell": "c", "outputs": [{"output_type": "stream", "name": "stdout", "text": "tail"}]},
        text("c", "!"),
        {"op": "set", "cell": "c", "outputs": [{"output_type": "stream", "name": "stdout", "text": "tail!"}]},
    )
    for i in range(0, len(told), batch):
        store.append_outputs("digits", told[i : i + batch])
    seen = fold(piece.payload for piece in told[:after])
    later = store.outputs("digits", after=after)
    assert [o.seq for o in later] == sorted(o.seq for o in later if o.seq > after)
    assert fold((o.payload for o in later), seen) == fold(piece.payload for piece in told)
    assert store.last_seqs(["digits"])["digits"] == 8
    kept = [o.seq for o in store.outputs("digits")]
    assert kept == [1, 3, 5, 8], "what the set replaced takes no room"
    assert store.append_outputs("digits", pieces(text("c", "z"), start=9)) == 9


def test_a_page_ends_at_its_size_and_has_at_least_one_entry(store):
    store.save([a_record(id, submitted=at, state=State.SUCCEEDED) for at, id in enumerate("abcdefghijkl")])
    store.append_outputs("a", pieces(*(text("c", "x" * 1000) for _ in range(20))))
    assert [piece.seq for piece in store.outputs("a", page=PageSize(entries=1000, size=3500))] == [1, 2, 3]
    assert [piece.seq for piece in store.outputs("a", after=3, page=PageSize(entries=1000, size=1))] == [4]
    assert [piece.seq for piece in store.outputs("a", after=18, page=PageSize(entries=1000, size=10**6))] == [19, 20]
    (newest,) = store.list(PageSize(entries=100, size=1))
    assert newest.workload.id == "l"
    assert len(store.list(PageSize(entries=100, size=10**6))) == 12


def test_the_size_of_output_is_known_and_only_the_newest_mark_for_left_out_pieces_is_kept(store):
    store.save([a_record()])
    assert store.output_size("digits") == OutputSize(pieces=0, size=0)
    told = pieces(text("c", "a"), *({"op": "run", "state": LEFT_OUT} for _ in range(4)))
    store.append_outputs("digits", told[:3])
    store.append_outputs("digits", told[3:])
    assert [piece.seq for piece in store.outputs("digits")] == [1, 5]
    assert store.last_seqs(["digits"])["digits"] == 5
    size = sum(len(encode_json(piece.payload)) for piece in store.outputs("digits"))
    assert store.output_size("digits") == OutputSize(pieces=2, size=size)


def test_what_a_workload_keeps_is_its_output_and_its_files(store):
    store.save([a_record()])
    assert store.kept_size("digits") == 0
    store.append_outputs("digits", pieces(text("c", "a")))
    store.put_file("digits", "bundle.json", b"x" * 1000)
    store.put_file("other", "bundle.json", b"x" * 5000)
    assert store.kept_size("digits") == 1000 + store.output_size("digits").size


def test_settings_are_replaced(store, reopened):
    store.put_setting("last_eviction:ann", {"at": 1})
    store.put_setting("last_eviction:ann", {"at": 2})
    assert reopened().setting("last_eviction:ann") == {"at": 2}


def test_settings_are_stored_with_records_or_not_at_all(store, reopened):
    first = replace(a_record("one"), idempotency_key="key")
    store.save([first], settings={"last_eviction:ann": {"at": 1}})
    with pytest.raises(Conflict):
        store.save([replace(a_record("two"), idempotency_key="key")], settings={"last_eviction:ann": {"at": 2}})
    assert reopened().setting("last_eviction:ann") == {"at": 1}


def an_entry(at=1.0, actor="ann", action=Action.JOB_SUBMIT, object="digits", owner="ann", **details):
    return AuditEntry(at=Instant(at), actor=actor, action=action, object=object, owner=owner, details=details)


def test_the_audit_log_is_read_newest_first_by_filters_and_in_pages(store, reopened):
    cancelled = an_entry(2, "root", Action.JOB_CANCEL, as_admin=True)
    drained = an_entry(3, "root", Action.DRAIN_BEGIN, "box", None)
    store.save([a_record()], [an_event()], [an_entry(name="ä\u0000", priority=1)])
    store.save([], [], [cancelled])
    store.put_setting("drains", {"box": {}}, [drained])
    found = reopened().audit(AuditFilter())
    assert [replace(entry, id=0) for entry in found] == [drained, cancelled, an_entry(name="ä\u0000", priority=1)]
    first = store.audit(AuditFilter(), PageSize(entries=2))
    assert first + store.audit(AuditFilter(), PageSize(entries=2), before=first[-1].id) == found
    assert store.audit(AuditFilter(), PageSize(entries=100, size=1)) == found[:1], "a page has one entry at least"
    assert len(store.audit(AuditFilter(), PageSize(entries=100, size=10_000))) == len(found)
    for wanted, count in (
        (AuditFilter(since=Instant(2)), 2),
        (AuditFilter(until=Instant(2)), 1),
        (AuditFilter(actor="root"), 2),
        (AuditFilter(action=Action.DRAIN_BEGIN), 1),
        (AuditFilter(object="digits"), 2),
        (AuditFilter(owner="ann", actor="root"), 1),
        (AuditFilter(actor="an"), 0),
    ):
        assert len(store.audit(wanted)) == count


def test_an_entry_is_kept_only_together_with_what_it_tells_of(store):
    store.save([replace(a_record("first"), idempotency_key="k")])
    with pytest.raises(Conflict):
        store.save([replace(a_record("second"), idempotency_key="k")], [], [an_entry()])
    assert store.audit(AuditFilter()) == ()


def test_old_entries_are_deleted_in_portions_and_their_ids_are_not_used_again(store):
    store.save([], [], [an_entry(at) for at in (1, 2, 3, 9)])
    (newest, *_) = store.audit(AuditFilter())
    assert [store.delete_audit_before(Instant(4), most=2) for _ in range(3)] == [2, 1, 0]
    assert store.audit(AuditFilter()) == (newest,)
    assert store.delete_audit_before(Instant(10)) == 1
    store.save([], [], [an_entry()])
    assert store.audit(AuditFilter())[0].id == newest.id + 1


def test_a_file_is_replaced_and_found_by_another_process(store, reopened):
    store.put_file("digits", "bundle", b"")
    assert store.file("digits", "bundle") == b""
    content = bytes(range(256)) * 4096
    store.put_file("digits", "bundle", content)
    store.put_file("digits", "log", b"one")
    store.put_file("other", "bundle", b"two")
    found = reopened()
    assert (found.file("digits", "bundle"), found.file("digits", "log")) == (content, b"one")
    assert (found.file("digits", "nothing"), found.file("nothing", "bundle")) == (None, None)
    store.delete_file("digits", "log")
    assert (found.file("digits", "bundle"), found.file("digits", "log")) == (content, None)
    store.delete_files("digits")
    store.delete_files("nothing")
    assert (found.file("digits", "bundle"), found.file("other", "bundle")) == (None, b"two")


def test_the_files_of_what_is_forgotten_go_after_its_output_and_before_its_record(store):
    store.save([a_record("old", state=State.FAILED)])
    store.append_outputs("old", pieces(text("c", "1")))
    for name in ("bundle", "log"):
        store.put_file("old", name, b"x")
        store.put_file("other", name, b"y")
    left = []
    while not store.delete_portion("old"):
        left.append((store.last_seqs(["old"])["old"], store.file("old", "bundle"), store.get("old") is not None))
    assert left == [(0, b"x", True), (0, None, True)]
    assert (store.get("old"), store.file("old", "log"), store.file("other", "log")) == (None, None, b"y")


def test_the_files_of_what_has_not_ended_are_never_forgotten(store):
    store.save([a_record("alive")])
    store.put_file("alive", "bundle", b"x")
    with pytest.raises(Conflict):
        store.delete_portion("alive")
    assert store.file("alive", "bundle") == b"x"


def test_two_threads_and_another_process_lose_nothing(store, url):
    store.save([a_record()])

    def add(count):
        for n in range(count):
            store.save([a_record(f"t{threading.get_ident()}-{n}")], [an_event(n=n)])

    threads = [threading.Thread(target=add, args=(20,)) for _ in range(2)]
    other = multiprocessing.get_context("spawn").Process(target=_add_from_outside, args=(url, 20))
    other.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    other.join()
    assert other.exitcode == 0
    assert len(store.unfinished()) == 61
    assert len({event.id for event in store.events_after(0)}) == 60


def _add_from_outside(url, count):
    store = SqlStore(url)
    for n in range(count):
        store.save([a_record(f"outside-{n}")], [an_event(n=n)])
    store.close()


def test_processes_that_open_a_new_database_at_once_all_find_it_ready(url):
    context = multiprocessing.get_context("spawn")
    openers = [context.Process(target=_add_from_outside, args=(url, 1)) for _ in range(3)]
    for opener in openers:
        opener.start()
    for opener in openers:
        opener.join()
    assert [opener.exitcode for opener in openers] == [0, 0, 0]
    store = SqlStore(url)
    assert [record.workload.id for record in store.unfinished()] == ["outside-0"]
    store.close()


def test_a_database_of_the_first_release_is_brought_up_to_date_with_all_that_is_in_it(url):
    engine = open_engine(url)
    record = a_record()
    with engine.execution_options(**{WRITES: True}).begin() as connection:
        upgrade(connection, to="0001")
        put_workloads(connection, [row_of(record)])
        put_setting(connection, {"name": "policy", "value": "{}"})
    engine.dispose()
    store = SqlStore(url)
    assert store.unfinished() == (record,)
    assert store.setting("policy") == {}
    assert store.append_outputs("digits", pieces(text("c", "a"))) == 1
    store.put_file("digits", "bundle", b"x")
    assert store.file("digits", "bundle") == b"x"
    store.put_setting("policy", {}, [an_entry()])
    assert len(store.audit(AuditFilter())) == 1
    store.close()


def test_a_killed_writer_leaves_what_it_had_committed_and_no_more(url):
    context = multiprocessing.get_context("spawn")
    committed = context.Event()
    writer = context.Process(target=_commit_then_hang, args=(url, committed))
    writer.start()
    assert committed.wait(scaled(30))
    writer.kill()
    writer.join()
    store = SqlStore(url)
    assert [record.workload.id for record in store.unfinished()] == ["committed"]
    store.save([a_record("next")])
    store.close()


def _commit_then_hang(url, committed):
    store = SqlStore(url)
    store.save([a_record("committed")])
    with store._database.write() as connection:
        _put_records(connection, [a_record("not committed")])
        committed.set()
        threading.Event().wait()


def test_only_its_owner_can_read_a_database_in_a_file(tmp_path):
    store = SqlStore(f"sqlite:///{tmp_path}/state/service.sqlite")
    store.save([a_record()])
    folder = f"{tmp_path}/state"
    modes = {name: stat.S_IMODE(os.stat(f"{folder}/{name}").st_mode) for name in os.listdir(folder)}
    assert set(modes.values()) == {0o600}, modes
    assert stat.S_IMODE(os.stat(folder).st_mode) == 0o700
    store.close()


def test_an_id_is_known_if_it_has_a_record_also_one_that_cannot_be_read(store):
    store.save([a_record("readable"), a_record("damaged")])
    with store._database.write() as connection:
        connection.exec_driver_sql("UPDATE workloads SET document = '{}' WHERE id = 'damaged'")
    asked = ["damaged", "readable", *(f"other-{number}" for number in range(1200))]
    assert store.known_ids(asked) == {"readable", "damaged"}
