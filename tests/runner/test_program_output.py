"""What programs and libraries print past the kernel, at the very end of a cell, is under that cell."""

import pytest

from .conftest import Job

#: What makes the thread of ipykernel slow that reads what is printed past the kernel, as on a busy machine. Its method
#: is called for each piece before the piece is kept; IPython itself replaces `write` in each cell.
SLOW_READER = """
import sys, threading, time

def slow_down(stream):
    ask = stream._is_master_process
    def ask_slowly():
        if threading.current_thread() is stream.watch_fd_thread:
            time.sleep(0.005)
        return ask()
    stream._is_master_process = ask_slowly

slow_down(sys.stdout), slow_down(sys.stderr);
"""

#: A stream in place of the standard output, as code for training writes it to keep a file of what it prints.
TEE = """
class Tee:
    def __init__(self, shown):
        self.shown = shown

    def write(self, text):
        return self.shown.write(text)

    def flush(self):
        pass

sys.stdout = Tee(sys.stdout)
"""


def _text(job: Job, cell: int) -> str:
    return "".join(output.get("text", "") for output in job.notebook()["cells"][cell]["outputs"])


def test_the_end_of_what_a_program_prints_is_under_its_cell(job: Job) -> None:
    job.prefix(SLOW_READER, "slow")
    job.target("import subprocess\n_ = subprocess.run(['seq', '12000'])", "program")
    job.target("import os\n_ = os.write(2, b'from the library')", "library")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert _text(job, 1).split() == [str(number) for number in range(1, 12001)]
    assert _text(job, 2) == "from the library"
    assert job.log().count("\n12000\n") == 1


def test_the_end_of_a_cell_that_fails_has_all_too(job: Job) -> None:
    job.prefix(SLOW_READER, "slow")
    job.target("import subprocess\nsubprocess.run(['sh', '-c', 'seq 12000; exit 3'], check=True)", "program")
    assert job.run()["outcome"] == "FAILED", job.log()
    assert _text(job, 1).split()[-1] == "12000"


def test_nothing_is_lost_if_the_code_has_a_standard_output_of_its_own(job: Job) -> None:
    job.prefix(SLOW_READER, "slow")
    job.prefix(TEE, "tee")
    job.target("import subprocess\n_ = subprocess.run(['seq', '12000'])", "program")
    job.target("print('the end')", "printed")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert _text(job, 2).split()[-1] == "12000"
    assert _text(job, 3) == "the end\n"


def test_a_program_that_goes_on_printing_behind_its_cell_holds_it_only_for_a_while(job: Job) -> None:
    job.target("import subprocess, time\nendless = subprocess.Popen(['yes'])", "starts")
    job.target("endless.kill(), endless.wait();\nprint('the end')", "goes-on")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert "the end" in _text(job, 1)


def test_a_cell_that_closes_its_standard_output_still_ends(job: Job) -> None:
    job.target("import os, sys\nos.close(1), os.close(sys.stdout._fid);\nprint('shown all the same')")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert "shown all the same" in _text(job, 0)


#: What code puts in the place of a standard stream, and ipykernel cannot flush at the end of the cell.
BROKEN_STREAMS = {
    "closed": "import sys\nwith open('printed.txt', 'w') as sys.stdout:\n    print('kept in the file')",
    "none": "import sys\nsys.stdout = None",
    "without-flush": "import sys, types\nsys.stderr = types.SimpleNamespace(write=len)",
}


@pytest.mark.parametrize("code", BROKEN_STREAMS.values(), ids=BROKEN_STREAMS)
def test_a_cell_whose_standard_stream_cannot_be_flushed_ends_and_the_next_one_prints(job: Job, code: str) -> None:
    job.target(code, "breaks").target("print('the end')", "printed")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert "can't be flushed any more" in _text(job, 0)
    assert _text(job, 1) == "the end\n"


def test_a_cell_that_deletes_its_standard_output_fails_by_that(job: Job) -> None:
    job.target("import sys\ndel sys.stdout")
    assert "raised AttributeError" in job.run()["sentence"]
