"""The ledger of runs on one machine."""

import json

from jupyter_gq.backends.local.ledger import Elasticity, Ledger, Run, Slot
from jupyter_gq.devices.linux.processes import boot_id
from jupyter_gq.domain.workload import TaskPlacement
from tests.fakes import FixedClock


def a_run(**fields):
    return Run(job="job-1", number=2, owner="ann", tasks=(None,), launched_at=0.0, boot=boot_id(), **fields)


def test_a_later_service_reads_the_place_and_the_token_of_a_run(tmp_path):
    run = a_run(placement=(TaskPlacement(node="box", devices=("GPU-1", "GPU-2"), group="workers"),), token_hash="ab")
    Ledger(tmp_path, FixedClock()).put(run)
    assert Ledger(tmp_path, FixedClock()).all() == (run,)


def test_an_entry_of_an_earlier_release_has_no_place(tmp_path):
    Ledger(tmp_path, FixedClock()).put(a_run())
    (file,) = tmp_path.glob("*.json")
    entry = json.loads(file.read_text())
    del entry["placement"], entry["token_hash"]
    file.write_text(json.dumps({**entry, "devices": ["GPU-1"]}))
    (run,) = Ledger(tmp_path, FixedClock()).all()
    assert (run.placement, run.token_hash) == ((), "")


def test_deadlines_of_an_earlier_release_are_kept(tmp_path):
    """It wrote them in seconds since the epoch."""
    slots = tuple(Slot(number=number, place=TaskPlacement(node="box")) for number in (1, 2))
    Ledger(tmp_path, FixedClock()).put(a_run(elastic=Elasticity(least=1, numbers=(0,), leaving=slots)))
    (file,) = tmp_path.glob("*.json")
    entry = json.loads(file.read_text())
    for each, at in zip((entry, *entry["elastic"]["leaving"]), (1040.0, 1020.0, 990.0), strict=True):
        del each["kill_by"]
        each["kill_at"] = at
    file.write_text(json.dumps(entry))
    (run,) = Ledger(tmp_path, FixedClock(now=1000.0)).all()
    assert run.kill_by == 540.0
    assert [slot.kill_by for slot in run.elastic.leaving] == [520.0, 500.0]
