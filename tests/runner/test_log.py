"""The log of a run has everything that its cells print, once and in order."""

from .conftest import Job

#: Far more text than a cell keeps, in far more time than a budget of output lasts.
_MANY = 40_000


def test_the_log_has_each_line_once_also_those_that_the_cell_drops(job: Job) -> None:
    job.target(f"for number in range({_MANY}):\n    print(f'line {{number:06}}', 'x' * 100)")
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    lines = [line for line in job.log().splitlines() if line.startswith("line ")]
    assert [int(line.split()[1]) for line in lines] == list(range(_MANY))
    assert "line 000000" not in str(job.notebook()["cells"][-1]["outputs"]), "the cell keeps only the end"


def test_what_a_program_prints_is_in_the_log_once_and_under_the_cell(job: Job) -> None:
    job.target(
        "import os, subprocess\n"
        "os.write(2, b'from the library\\n')\n"
        "print('from the cell')\n"
        "_ = subprocess.run(['echo', 'from a program'], check=True)"
    )
    assert job.run()["outcome"] == "SUCCEEDED", job.log()
    assert " Done." in job.log(), "the end has the word of the panel"
    shown = "".join(output["text"] for output in job.notebook()["cells"][-1]["outputs"])
    for told in ("from a program\n", "from the library\n", "from the cell\n"):
        assert (job.log().count(told), shown.count(told)) == (1, 1), job.log()
