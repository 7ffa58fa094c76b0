"""The sentences about cells for people who see no list of them."""

from jupyter_gq.lab.kernels.history import RanCell
from jupyter_gq.lab.plan.cell_notes import describe_failed, describe_warnings
from jupyter_gq.lab.requests import CellWarning

BEFORE = [RanCell(code=f"x{n} = 1\ny = 2", execution_count=n + 1) for n in range(9)]


def a_warning(message, index=None, cell_id=None):
    return CellWarning(code="x", message=message, index=index, cell_id=cell_id)


def test_a_sentence_names_one_cell_or_the_first_of_many():
    many = [a_warning("was edited", n) for n in range(7)]
    two = [a_warning("was deleted", 0), a_warning("was deleted", 2)]
    assert describe_warnings([a_warning("writes a.txt", 8), *many, *two], BEFORE, "target") == [
        "The cell [9] “x8 = 1” writes a.txt.",
        "Each of the cells [1] “x0 = 1”, [2] “x1 = 1”, [3] “x2 = 1”, [4] “x3 = 1”, [5] “x4 = 1” and 2 more was edited.",
        "Each of the cells [1] “x0 = 1” and [3] “x2 = 1” was deleted.",
    ]


def test_what_is_said_of_the_cell_that_is_sent_and_of_all_cells_names_no_other():
    warnings = [a_warning("asks for input", cell_id="target"), a_warning("“x” is a setup cell.", cell_id="other")]
    assert describe_warnings([*warnings, a_warning("All run again.")], BEFORE, "target") == [
        "This cell asks for input.",
        "“x” is a setup cell.",
        "All run again.",
    ]


def test_failed_cells_that_are_left_out_are_named_once():
    def ran(count, code, cell_id="", failed=True):
        return RanCell(code=code, execution_count=count, cell_id=cell_id, seconds=1.0, failed=failed)

    assert describe_failed([ran(1, "x = 0", "a", failed=False), ran(2, "x += 1; raise", "b")], "t") == [
        "The cell [2] “x += 1; raise” ended with an error and does not run in the job: what it did is missing there."
    ]
    assert describe_failed([ran(1, "y", "a"), ran(2, "y = 1", "a", failed=False)], "t") == [], "it ran again"
    assert describe_failed([ran(1, "train()", "t"), ran(2, "%%train\ntrain()")], "t") == [], "it is sent"
