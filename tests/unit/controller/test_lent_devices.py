"""How much it takes to find who borrows from suspended notebooks, and when; who that is, `test_borrowers` says."""

import sys
from dataclasses import replace
from types import FrameType

from jupyter_gq.controller.lent_devices import LentDevices
from jupyter_gq.controller.records.records import Records
from jupyter_gq.domain.queue import Queue
from jupyter_gq.domain.states import State
from jupyter_gq.domain.workload_detail import WorkloadDetail
from jupyter_gq.store.protocol import Record
from jupyter_gq.store.sql import SqlStore
from tests.builders import a_job, a_notebook, running

from .world import World

#: Numbers of notebooks. What grows in proportion to them grows fourfold, and what grows with the square, sixteenfold.
FEW, MANY = 16, 64
IN_PROPORTION = 6


def calls_with(world: World, store: SqlStore, number: int) -> int:
    """The calls that find the borrowers of so many suspended notebooks, each with a device of its own."""
    notebooks = [running(a_notebook(f"u{each}", "0.5"), f"n-{each}") for each in range(number)]
    jobs = [running(a_job(f"j{each}{name}", "q", "0.5"), f"n-{each}") for each in range(number) for name in "ab"]
    holding = [*(replace(each, state=State.SUSPENDED) for each in notebooks), *jobs]
    store.save([Record(workload=workload, detail=WorkloadDetail()) for workload in holding])
    records = Records(store, world.clock, lambda record: {}, lambda event: None)
    lent, calls = LentDevices(records, lambda: ()), 0
    (first, *_) = (record.workload for record in records.holding() if record.workload.id == "j0b")

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and "/jupyter_gq/" in frame.f_code.co_filename

    sys.setprofile(count)
    try:
        found = lent.find_lenders(first)
    finally:
        sys.setprofile(None)
    assert found == ("nb-u0",)
    return calls


def test_finding_who_borrows_grows_in_proportion_to_the_suspended_notebooks(world, tmp_path):
    few, many = (calls_with(world, SqlStore(f"sqlite:///{tmp_path / str(n)}.sqlite"), n) for n in (FEW, MANY))
    assert many < few * IN_PROPORTION


def test_other_quotas_make_another_job_the_borrower(world, tmp_path):
    store = SqlStore(f"sqlite:///{tmp_path}/gq.sqlite")
    notebook = replace(running(a_notebook("ann", "0.5"), "n-0"), state=State.SUSPENDED)
    jobs = [running(a_job(f"j-{queue}", queue, "0.5"), "n-0") for queue in "ab"]
    store.save([Record(workload=workload, detail=WorkloadDetail()) for workload in (notebook, *jobs)])
    queues = [Queue(name="a", pool="default", quota=0), Queue(name="b", pool="default", quota=1000)]
    lent = LentDevices(Records(store, world.clock, lambda record: {}, lambda event: None), lambda: queues)
    assert [lent.is_borrower(job) for job in jobs] == [True, False]
    queues[:] = [Queue(name="a", pool="default", quota=1000), Queue(name="b", pool="default", quota=0)]
    assert [lent.is_borrower(job) for job in jobs] == [False, True]
