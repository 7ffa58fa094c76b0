"""A tier can be run again and again, beside busy processes, and what failed is kept."""

import sys

from tests.repeat import busy_processes, repeat

#: Fails in its second round, and says where the logs of its tests would be kept.
FAILS_ONCE = """
import os, pathlib, sys
counter = pathlib.Path(sys.argv[1])
number = int(counter.read_text()) + 1 if counter.exists() else 1
counter.write_text(str(number))
print("round", number, "keeps logs in", os.environ["JUPYTER_GQ_TEST_RESULTS"])
sys.exit(number == 2)
"""


def test_each_round_runs_and_a_failed_one_is_counted_and_kept(tmp_path, capsys):
    folder = tmp_path / "results"
    (folder / "9").mkdir(parents=True)
    command = [sys.executable, "-c", FAILS_ONCE, str(tmp_path / "counter")]
    assert repeat(command, folder, times=3, busy=0) == 1
    told = capsys.readouterr().out
    assert f"round 2 of 3: failed: {folder}/2" in told
    assert "2 of 3 rounds passed" in told
    assert sorted(each.name for each in folder.iterdir()) == ["1", "2", "3"], "of an earlier run nothing is left"
    assert (folder / "2/output.txt").read_text() == f"round 2 keeps logs in {folder}/2\n"


def test_busy_processes_compute_until_the_end():
    with busy_processes(2) as processes:
        assert [process.poll() for process in processes] == [None, None]
    assert all(process.returncode for process in processes)
