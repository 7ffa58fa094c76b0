"""The first change is sent at once, a flood is delayed, the end of a cell is always sent."""

import sys
from types import FrameType

import pytest

from jupyter_gq.client.outputs.fold import fold
from jupyter_gq.runner.delivery.budget import BURST, FAST_RATE, SLOW_AFTER, SLOW_RATE, Budget
from jupyter_gq.runner.output.cell_output import OutputBounds
from jupyter_gq.runner.output.messages import VIEW, make_output, read_content
from jupyter_gq.runner.output.recorder import FLUSH_INTERVAL, OVER_BUDGET_WAIT, Recorder

VIEWS = {"data": {VIEW: {"model_id": "a"}, "text/plain": "p"}, "metadata": {}, "transient": {}}


def a_stream(text: str) -> dict[str, str]:
    return {"name": "stdout", "text": text}


def test_first_change_is_due_at_once_and_the_next_is_gathered() -> None:
    sent: list[dict] = []
    recorder = Recorder(sent.extend, now=0.0)
    cell = recorder.cell_output("c", "target")
    assert recorder.seconds_until_flush(10.0) is None
    recorder.append(cell, a_stream("a"), "stream", None)
    assert recorder.seconds_until_flush(10.0) == 0
    recorder.flush(10.0)
    recorder.append(cell, a_stream("b"), "stream", None)
    assert recorder.seconds_until_flush(10.0) == pytest.approx(FLUSH_INTERVAL)
    recorder.flush(10.0 + FLUSH_INTERVAL)
    assert [piece["output"]["text"] for piece in sent] == ["a", "b"]
    assert recorder.seconds_until_flush(11.0) is None


def test_excess_output_waits_for_the_budget_except_at_the_end_of_a_cell() -> None:
    sent: list[dict] = []
    recorder = Recorder(sent.extend, now=0.0)
    cell = recorder.cell_output("c", "target")
    size = 0
    for n in range(100):
        recorder.append(cell, a_stream(f"{n} " * 20_000 + "\n"), "stream", None)
        recorder.flush(0.1 * n)
        size = sum(len(str(piece)) for piece in sent)
    assert size < BURST + 10 * FAST_RATE + 100_000
    assert recorder.seconds_until_flush(10.0) == OVER_BUDGET_WAIT
    recorder.flush(10.0, everything=True)
    assert fold(sent)["c"] == recorder.outputs("c")


def test_an_update_reaches_every_output_of_its_display_id_in_any_cell() -> None:
    sent: list[dict] = []
    recorder = Recorder(sent.extend, now=0.0)
    shown = {"data": {"text/plain": "0"}, "metadata": {}}
    for name in ("one", "two"):
        recorder.append(recorder.cell_output(name, "target"), shown, "display_data", "id")
    recorder.update_display("id", {"data": {"text/plain": "1"}})
    recorder.update_display("unknown", {"data": {"text/plain": "2"}})
    recorder.flush(1.0, everything=True)
    folded = fold(sent)
    assert [folded[name][0]["data"]["text/plain"] for name in ("one", "two")] == ["1", "1"]


def test_notice_replaces_further_displays_of_a_job_above_its_bound() -> None:
    sent: list[dict] = []
    recorder = Recorder(sent.extend, now=0.0, bounds=OutputBounds(job=20_000))
    for number in range(10):
        shown = {"data": {"text/html": f"{number}" * 5_000}, "metadata": {}}
        cell = recorder.cell_output(f"cell {number}", "target")
        recorder.append(cell, shown, "display_data", None)
        recorder.append(cell, a_stream("goes on\n"), "stream", None)
        recorder.append(cell, {"data": {"text/plain": "small"}, "metadata": {}}, "display_data", None)
        recorder.flush(float(number), everything=True)
    first, last = recorder.outputs("cell 0"), recorder.outputs("cell 9")
    assert first[0]["data"] == {"text/html": "0" * 5_000}
    assert "the outputs of this job have reached 19.5 KiB. Save it to a file" in last[0]["data"]["text/plain"]
    assert [output.get("text") or output["data"]["text/plain"] for output in last[1:]] == ["goes on\n", "small"]
    assert sum(len(str(recorder.outputs(f"cell {number}"))) for number in range(10)) < 35_000
    assert fold(sent)["cell 9"] == last


def test_a_display_has_its_parts_in_the_order_of_nbformat() -> None:
    """Code can print what an Output widget has captured."""
    made = make_output("display_data", {"data": {"text/plain": "a"}, "metadata": {}})
    assert made is not None
    assert list(made) == ["output_type", "metadata", "data"]


def test_messages_that_are_no_outputs_are_ignored() -> None:
    assert make_output("execute_input", {"code": "1"}) is None


def test_budget_is_full_then_fast_then_slow() -> None:
    budget = Budget(now=0.0)
    assert budget.allows(BURST, 0.0)
    assert budget.allows(10 * BURST, 0.0)  # one large piece is not delayed for ever
    budget.spend(BURST)
    assert not budget.allows(1, 0.0)
    assert budget.allows(FAST_RATE, 1.0)
    assert not budget.allows(FAST_RATE + 1, 1.0)
    budget.spend(SLOW_AFTER)
    wait = SLOW_AFTER / SLOW_RATE
    assert not budget.allows(BURST, wait / 2)


def open_and_update_bars(number: int) -> int:
    """Display that many progress bars, each in a box, then update each once; return the calls within the widgets."""
    recorder = Recorder(lambda pieces: None, now=0.0)
    cell = recorder.cell_output("c", "target")
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call" and frame.f_code.co_filename.endswith("widgets.py")

    sys.setprofile(count)
    try:
        for name in range(number):
            recorder.apply_comm("comm_open", a_state(f"bar-{name}", _model_name="IntProgressModel", value=0))
            recorder.apply_comm(
                "comm_open", a_state(f"box-{name}", _model_name="HBoxModel", children=[f"IPY_MODEL_bar-{name}"])
            )
            recorder.append(cell, {"data": {VIEW: {"model_id": f"box-{name}"}, "text/plain": ""}}, "display_data", None)
        for name in range(number):
            recorder.apply_comm("comm_msg", a_state(f"bar-{name}", value=100))
    finally:
        sys.setprofile(None)
    assert all("█" * 20 in output["data"]["text/plain"] for output in recorder.outputs("c"))
    return calls


def a_state(model: str, **state: object) -> dict:
    return {"comm_id": model, "data": {"state": state}}


def test_a_message_of_a_widget_costs_what_it_changes() -> None:
    assert open_and_update_bars(1000) <= 11 * open_and_update_bars(100)


@pytest.mark.parametrize(
    ("kind", "content", "read"),
    [
        ("display_data", {"data": {VIEW: ["a"], "text/plain": "p"}}, {"text/plain": "p"}),
        ("display_data", {"data": {VIEW: "a", "text/plain": 3}, "metadata": None}, {"text/plain": "3"}),
        ("execute_result", {"data": {VIEW: {"model_id": 3}, "text/plain": "p"}, "transient": [1]}, {"text/plain": "p"}),
        ("display_data", {"data": {"application/json": [1]}, "execution_count": "x"}, {"application/json": [1]}),
    ],
)
def test_malformed_parts_of_a_display_are_left_out_and_the_rest_is_shown(kind: str, content: dict, read: dict) -> None:
    assert read_content(kind, content) == {"data": read, "metadata": {}, "transient": {}}


@pytest.mark.parametrize(
    ("kind", "content"),
    [("display_data", {"data": None}), ("display_data", {"data": {VIEW: 3}}), ("stream", {}), ("comm_msg", [1])],
)
def test_messages_that_show_nothing_are_ignored(kind: str, content: object) -> None:
    assert read_content(kind, content) is None


def test_fields_of_other_types_become_text() -> None:
    assert read_content("stream", {"name": 3, "text": 4}) == {"name": "stdout", "text": "4"}
    assert read_content("error", {"ename": 1, "traceback": [2]}) == {"ename": "1", "evalue": "", "traceback": ["2"]}
    assert read_content("comm_msg", {"data": {}, "transient": None}) == {"data": {}, "transient": {}}
    display = read_content("display_data", {"data": {}, "transient": {"display_id": [7]}})
    assert display == {"data": {}, "metadata": {}, "transient": {"display_id": "[7]"}}
    assert read_content("display_data", VIEWS) == VIEWS
    assert read_content("status", {}) == {"execution_state": "None"}


def test_each_output_is_noted_once_also_what_the_cell_drops_and_what_a_widget_captures() -> None:
    noted: list[dict] = []
    recorder = Recorder(lambda pieces: None, now=0.0, bounds=OutputBounds(text=100, text_kept=50), note=noted.append)
    cell = recorder.cell_output("c1", "target")
    for number in range(100):
        recorder.append(cell, {"name": "stdout", "text": f"line {number}\n"}, "stream", None)
    recorder.append(cell, {"name": "stdout", "text": "\r 10%\r 20%\r 30%"}, "stream", None)
    recorder.append(cell, {"ename": "E", "evalue": "", "traceback": ["E"]}, "error", None)
    recorder.capture("w1", {"name": "stdout", "text": "captured"}, "stream", None)
    recorder.flush(1.0, everything=True)
    cell.restore([{"output_type": "stream", "name": "stdout", "text": "of an earlier run"}])
    recorder.flush(2.0, everything=True)
    text = "".join(output.get("text", f"<{output['output_type']}>") for output in noted)
    assert text == "".join(f"line {number}\n" for number in range(100)) + "\r 30%<error>captured"
    assert "line 0\n" not in str(recorder.outputs("c1"))


def open_widget(recorder: Recorder, model: str, **state: object) -> None:
    recorder.apply_comm("comm_open", {"comm_id": model, "data": {"state": state}})


def a_view(model: str) -> dict:
    return {"data": {"text/plain": "Widget()", VIEW: {"model_id": model}}, "metadata": {}}


def find_texts(recorder: Recorder) -> list[str]:
    return [output["data"]["text/plain"] for output in recorder.outputs("c") if output["data"]["text/plain"]]


@pytest.mark.parametrize("is_captured", [False, True])
def test_what_replaces_the_display_of_a_widget_stays_whatever_becomes_of_the_widget(is_captured: bool) -> None:
    recorder = Recorder(lambda pieces: None, now=0.0)
    cell = recorder.cell_output("c", "target")
    open_widget(recorder, "out", _model_name="OutputModel", outputs=[], msg_id="")
    open_widget(recorder, "label", _model_name="LabelModel", value="half")
    if is_captured:
        recorder.append(cell, a_view("out"), "display_data", None)
        recorder.capture("out", a_view("label"), "display_data", "d")
    else:
        recorder.append(cell, a_view("label"), "display_data", "d")
    assert find_texts(recorder) == ["half"]
    recorder.update_display("d", {"data": {"text/plain": "done"}, "metadata": {}})
    assert find_texts(recorder) == ["done"]
    recorder.apply_comm("comm_close", {"comm_id": "label"})
    assert find_texts(recorder) == ["done"]
    open_widget(recorder, "next", _model_name="LabelModel", value="again")
    recorder.update_display("d", a_view("next"))
    assert find_texts(recorder) == ["again"]
    recorder.apply_comm("comm_msg", {"comm_id": "next", "data": {"method": "update", "state": {"value": "all"}}})
    assert find_texts(recorder) == ["all"]


@pytest.mark.parametrize("is_captured", [False, True])
def test_a_replaced_display_shows_no_more_of_what_its_output_widget_captured(is_captured: bool) -> None:
    recorder = Recorder(lambda pieces: None, now=0.0)
    cell = recorder.cell_output("c", "target")
    open_widget(recorder, "out", _model_name="OutputModel", outputs=[], msg_id="")
    open_widget(recorder, "inner", _model_name="OutputModel", outputs=[], msg_id="")
    if is_captured:
        recorder.append(cell, a_view("out"), "display_data", None)
        recorder.capture("out", a_view("inner"), "display_data", "d")
    else:
        recorder.append(cell, a_view("inner"), "display_data", "d")
    line = {"data": {"text/plain": "captured"}, "metadata": {}}
    recorder.capture("inner", line, "display_data", None)
    assert find_texts(recorder) == ["captured"]
    recorder.update_display("d", {"data": {"text/plain": "done"}, "metadata": {}})
    recorder.capture("inner", line, "display_data", None)
    assert find_texts(recorder) == ["done"]
