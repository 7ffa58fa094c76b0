"""What a job was made from, told by the ids of its cells."""

import pytest

from jupyter_gq.domain.job_names import find_code_noun, find_origin


@pytest.mark.parametrize(
    ("targets", "prefix", "origin"),
    [
        (["9f3a"], ["setup-1"], "notebook"),
        (["call", "9f3a"], [], "notebook"),
        (["script"], [], "notebook"),  # a cell of a notebook that has this id
        (["script"], ["arguments"], "script"),
        (["call"], ["setup-1"], "call"),
        (["call"], [], "call"),  # code of a magic whose cell is not known
    ],
)
def test_the_cells_tell_whether_a_notebook_a_script_or_a_call_was_sent(targets, prefix, origin):
    assert find_origin(targets, prefix) == origin


@pytest.mark.parametrize(
    ("targets", "prefix", "noun"),
    [
        (["9f3a"], ["8b1c"], "cell"),
        (["script"], ["arguments"], "script"),
        (["call"], ["setup-1", "setup-2"], "function"),
        (["call"], ["setup-1", "9f3a"], "cell"),
        (["call"], [], "cell"),  # `%%train` in a cell that is not known
        (["9f3a"], ["setup-1"], "cell"),
    ],
)
def test_the_cells_tell_what_the_user_calls_the_code(targets, prefix, noun):
    assert find_code_noun(targets, prefix) == noun
