"""The ledger of runs on one machine."""

import json

from jupyter_gq.backends.local.ledger import Ledger, Run
from jupyter_gq.devices.processes import boot_id
from jupyter_gq.domain.workload import TaskPlacement


def a_run(**fields):
    return Run(job="job-1", number=2, owner="ann", tasks=(None,), launched_at=0.0, boot=boot_id(), **fields)


def test_a_later_service_reads_the_place_and_the_token_of_a_run(tmp_path):
    run = a_run(placement=(TaskPlacement(node="box", devices=("GPU-1", "GPU-2"), group="workers"),), token_hash="ab")
    Ledger(tmp_path).put(run)
    assert Ledger(tmp_path).all() == (run,)


def test_an_entry_of_an_earlier_release_has_no_place(tmp_path):
    Ledger(tmp_path).put(a_run())
    (file,) = tmp_path.glob("*.json")
    entry = json.loads(file.read_text())
    del entry["placement"], entry["token_hash"]
    file.write_text(json.dumps({**entry, "devices": ["GPU-1"]}))
    (run,) = Ledger(tmp_path).all()
    assert (run.placement, run.token_hash) == ((), "")
