"""The outputs of a job as lines that only grow: each line once, progress bars once, nothing that moves the cursor."""

import pytest

from jupyter_gq.client.outputs.output_text import OutputText, render


def stream(text, cell="a"):
    output = {"output_type": "stream", "name": "stdout", "text": text}
    return {"op": "append", "cell": cell, "role": "target", "output": output}


def state(name, cell="a"):
    return {"op": "cell", "cell": cell, "role": "target", "state": name}


def test_lines_come_out_once_they_have_ended():
    text = OutputText()
    assert text.add([state("start"), stream("epoch 1\nepo")]) == ["epoch 1"]
    assert text.partial == "epo"
    assert text.add([stream("ch 2\n")]) == ["epoch 2"]
    assert text.partial == ""
    assert text.add([state("end")]) == []


def test_the_last_line_of_a_cell_comes_out_with_its_end_or_with_that_of_the_outputs():
    text = OutputText()
    assert text.add([stream("no newline"), state("end"), stream("next", cell="b")]) == ["no newline"]
    assert text.end() == ["next"]
    assert text.end() == []


def test_a_progress_bar_is_one_line():
    text = OutputText()
    shown = []
    for done in range(3):
        assert text.add([stream(f"\r{done} of 2")]) == []
        shown.append(text.partial)
    assert shown == ["0 of 2", "1 of 2", "2 of 2"]
    assert text.add([stream("\ndone\n")]) == ["2 of 2", "done"]


def test_a_cleared_cell_that_prints_the_same_again_gives_only_what_is_new():
    text = OutputText()
    assert text.add([stream("1\n2\n")]) == ["1", "2"]
    assert text.add([{"op": "clear", "cell": "a", "role": "target"}]) == []
    assert text.add([stream("1\n")]) == []
    assert text.add([stream("2\n3\n")]) == ["3"]
    assert text.add([{"op": "clear", "cell": "a", "role": "target"}, stream("1\nother\n")]) == ["other"]


def test_a_paused_job_continues_below_its_earlier_lines():
    text = OutputText()
    assert text.add([state("start"), stream("1\n"), state("end")]) == ["1"]
    again = {"op": "set", "cell": "a", "role": "target", "outputs": [stream("1\n")["output"]]}
    assert text.add([state("start"), again, stream("2\n")]) == ["2"]


RED = ["\x1b[31mline 1\x1b[0m", "E: v"]


@pytest.mark.parametrize(
    ("output", "text"),
    [
        ({"output_type": "stream", "name": "stdout", "text": ["a\n", "b"]}, "a\nb"),
        ({"output_type": "execute_result", "data": {"text/plain": "42", "text/html": "<b>42</b>"}}, "42"),
        ({"output_type": "display_data", "data": {"image/png": "aGk="}}, "[image/png]"),
        ({"output_type": "display_data"}, "[no data]"),
        (
            {"output_type": "error", "ename": "E", "evalue": "v", "traceback": RED},
            "line 1\nE: v",
        ),
        ({"output_type": "error", "ename": "E", "evalue": "v", "traceback": []}, "E: v"),
        ({"output_type": "stream", "name": "stdout", "text": "\x1b]0;title\x07a\x1b[2Jb\x9b1m"}, "ab"),
    ],
    ids=lambda value: value if isinstance(value, str) else value["output_type"],
)
def test_each_kind_of_output_has_a_text_that_moves_no_cursor(output, text):
    assert render([output]) == text


def test_each_output_begins_on_a_new_line():
    result = {"output_type": "execute_result", "data": {"text/plain": "42"}}
    assert render([stream("a")["output"], result, result]) == "a\n42\n42"
