"""Safety: whatever is done to a store, in whatever order, it answers as a few plain collections would.

The database is closed and opened again at any moment; numbers of events are never used twice.
"""

import itertools
from dataclasses import replace

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test
from sqlalchemy import make_url

from jupyter_gq.client.outputs.fold import fold
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import Conflict, NotFound
from jupyter_gq.domain.states import FINAL, State
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store.protocol import NewEvent, OutputPiece, Record
from jupyter_gq.store.sql import SqlStore
from tests.builders import a_job

IDS = st.sampled_from(["a", "b", "c"])
BUDGET = settings(max_examples=30, stateful_step_count=20, deadline=None)
OPS = st.sampled_from(["append", "append", "set", "clear", "cell"])


class StoreMachine(RuleBasedStateMachine):
    """A store beside its model."""

    def __init__(self, url):
        super().__init__()
        self.url = url
        self.store = self.opened()
        self.records, self.events, self.outputs, self.settings = {}, [], {}, {}
        self.highest_event = 0
        self.files = {}

    def opened(self):
        return SqlStore(self.url)

    def teardown(self):
        self.store.close()

    @rule(
        id=IDS,
        state=st.sampled_from(list(State)),
        at=st.integers(0, 3),
        key=st.sampled_from([None, "k", "l"]),
        count=st.integers(0, 2),
    )
    def save(self, id, state, at, key, count):
        record = Record(
            workload=replace(a_job("n", "q", id=id), state=state, submitted_at=Instant(float(at))),
            detail=WorkloadDetail(consecutive_losses=count),
            idempotency_key=key,
        )
        new = [NewEvent(at=Instant(1.0), owner=None, kind="job", object=id, payload={"n": n}) for n in range(count)]
        taken = key is not None and any(r.idempotency_key == key for i, r in self.records.items() if i != id)
        try:
            stored = self.store.save([record], new)
        except Conflict:
            assert taken
            return
        assert not taken
        assert [event.payload for event in stored] == [event.payload for event in new]
        assert all(event.id > self.highest_event for event in stored)
        self.highest_event = max([self.highest_event, *(event.id for event in stored)])
        self.records[id] = record
        self.events += stored

    @rule(id=IDS, skip=st.integers(-2, 1), ops=st.lists(OPS, max_size=4))
    def append(self, id, skip, ops):
        told = self.outputs.setdefault(id, [])
        start = max(1, len(told) + 1 + skip)
        pieces = [OutputPiece(seq=seq, payload=_piece(seq, op)) for seq, op in enumerate(ops, start)]
        new = [] if start > len(told) + 1 else [piece for piece in pieces if piece.seq > len(told)]
        if new and id not in self.records:
            try:
                self.store.append_outputs(id, pieces)
            except NotFound:
                return
            raise AssertionError("outputs of nothing were stored")
        told += [piece.payload for piece in new]
        assert self.store.append_outputs(id, pieces) == len(told)

    @rule(keep=st.integers(0, 5))
    def prune(self, keep):
        self.store.prune_events(keep)
        self.events = self.events[len(self.events) - min(keep, len(self.events)) :]

    @rule(name=IDS, value=st.integers())
    def put_setting(self, name, value):
        self.store.put_setting(name, {"v": value})
        self.settings[name] = {"v": value}

    @rule(id=IDS, name=IDS, content=st.binary(max_size=3))
    def put_file(self, id, name, content):
        self.store.put_file(id, name, content)
        self.files[id, name] = content

    @rule(id=IDS, name=IDS)
    def delete_file(self, id, name):
        self.store.delete_file(id, name)
        self.files.pop((id, name), None)

    @rule(id=IDS)
    def delete_files(self, id):
        self.store.delete_files(id)
        self.files = {key: content for key, content in self.files.items() if key[0] != id}

    @rule(id=IDS)
    def forget(self, id):
        record = self.records.get(id)
        if record is not None and record.workload.state not in FINAL:
            try:
                self.store.delete_portion(id)
            except Conflict:
                return
            raise AssertionError("what has not ended was forgotten")
        while not self.store.delete_portion(id, pieces=2):
            pass
        if record is not None:
            del self.records[id]
            self.outputs.pop(id, None)
            self.files = {key: content for key, content in self.files.items() if key[0] != id}

    @rule()
    def reopen(self):
        self.store.close()
        self.store = self.opened()

    @invariant()
    def agrees(self):
        by_age = sorted(self.records.values(), key=lambda r: (r.workload.submitted_at, r.workload.id))
        assert self.store.list() == tuple(reversed(by_age))
        assert self.store.unfinished() == tuple(r for r in by_age if r.workload.state not in FINAL)
        assert self.store.events_after(0) == tuple(self.events)
        bounds = (self.events[0].id, self.events[-1].id) if self.events else (0, 0)
        assert self.store.event_range() == bounds
        for id, told in self.outputs.items():
            stored = self.store.outputs(id)
            assert self.store.last_seqs([id])[id] == len(told)
            assert [o.seq for o in stored] == sorted({o.seq for o in stored})
            assert fold(o.payload for o in stored) == fold(told)
        for id in ("a", "b", "c"):
            for name in ("a", "b", "c"):
                assert self.store.file(id, name) == self.files.get((id, name))
        for name, value in self.settings.items():
            assert self.store.setting(name) == value


def _piece(seq, op):
    output = {"output_type": "stream", "name": "stdout", "text": str(seq)}
    return {"seq": seq, "op": op, "cell": f"cell{seq % 2}", "output": output, "outputs": [output]}


def test_a_store_answers_as_plain_collections_would_on_sqlite(tmp_path):
    numbers = itertools.count()
    run_state_machine_as_test(lambda: StoreMachine(f"sqlite:///{tmp_path}/{next(numbers)}.sqlite"), settings=BUDGET)


def test_a_store_answers_as_plain_collections_would_on_postgresql(postgresql):
    template = postgresql.new_database()
    SqlStore(template).close()
    # Copies of a database that has the schema already: they are made five times as fast.
    copy = f"TEMPLATE {make_url(template).database}"
    run_state_machine_as_test(
        lambda: StoreMachine(postgresql.new_database(copy)), settings=settings(BUDGET, max_examples=12)
    )
