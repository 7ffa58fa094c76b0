"""Folding the pieces gives the outputs of the cell, whatever happens and whenever the pieces are taken."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jupyter_gq.api.parse import parse_model
from jupyter_gq.client.models import OutputReport
from jupyter_gq.client.outputs.delivery import _batches
from jupyter_gq.client.outputs.fold import collapse, fold
from jupyter_gq.domain import output_bounds
from jupyter_gq.runner.output.cell_output import CellOutput, OutputBounds, append_text, collapse_piece, measure_output

#: A plain display has some 190 bytes: each of its six values counts with 32.
SMALL = OutputBounds(text=200, text_kept=100, rich=1000, rich_kept=500, single=225, count=12, pieces_size=1200)


def a_cell(bounds: OutputBounds = SMALL) -> CellOutput:
    return CellOutput("c", "target", bounds)


def a_display(text: str) -> dict[str, Any]:
    return {"output_type": "display_data", "data": {"text/plain": text}, "metadata": {}}


def as_shown(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the outputs without carriage returns at the end of a line, which show nothing."""
    return [
        {**output, "text": re.sub(r"\r+(?=\n|$)", "", output["text"])} if "text" in output else output
        for output in outputs
    ]


TEXT = st.text(alphabet="ab\n\r\b", max_size=40)
ACTION = st.one_of(
    st.tuples(st.sampled_from(["stdout", "stderr"]), TEXT),
    st.tuples(st.just("show"), st.text(alphabet="xy", max_size=180)),
    st.tuples(st.just("update"), st.integers(0, 5), st.text(alphabet="uv", max_size=180)),
    st.tuples(st.just("clear")),
    st.tuples(st.just("take")),
    st.tuples(st.just("size")),
)


@settings(max_examples=400)
@given(st.lists(ACTION, max_size=40))
def test_folded_pieces_always_equal_the_outputs(actions: list[tuple[Any, ...]]) -> None:
    """Safety: a client that folds what was taken sees what the notebook will hold."""
    cell = a_cell()
    entries = []
    pieces: list[dict[str, Any]] = []
    for action in actions:
        match action:
            case ("show", text):
                entries.append(cell.add(a_display(text)))
            case ("update", which, text) if which < len(entries):
                cell.update(entries[which], a_display(text))
            case ("update", *_):
                continue
            case ("clear",):
                cell.clear()
            case ("take",):
                pieces += cell.take_pieces()
            case ("size",):
                assert cell.pending_size >= 0
            case (stream, text):
                cell.write_text(stream, text)
    pieces += cell.take_pieces()
    assert as_shown(fold(pieces).get("c", [])) == as_shown(cell.outputs)
    assert cell.pending_size == 0


@given(st.lists(ACTION, max_size=60))
def test_outputs_never_exceed_the_bounds(actions: list[tuple[Any, ...]]) -> None:
    cell = a_cell()
    for action in actions:
        if action[0] in ("stdout", "stderr"):
            cell.write_text(*action)
        elif action[0] == "show":
            cell.add(a_display(action[1]))
    outputs = cell.outputs
    assert sum(len(output.get("text", "")) for output in outputs) <= SMALL.text
    assert len(outputs) <= SMALL.count + 1


@given(TEXT, TEXT)
def test_a_collapsed_piece_has_the_same_effect(before: str, text: str) -> None:
    before = collapse(before)
    assert as_shown([{"text": append_text(before, collapse_piece(text))}]) == as_shown(
        [{"text": collapse(before + text)}]
    )


def test_text_of_a_stream_is_one_piece() -> None:
    cell = a_cell()
    for word in ("a ", "b ", "c\n"):
        cell.write_text("stdout", word)
    (piece,) = cell.take_pieces()
    assert piece == {
        "op": "append",
        "cell": "c",
        "role": "target",
        "output": {"output_type": "stream", "name": "stdout", "text": "a b c\n"},
    }


def test_a_progress_bar_costs_its_last_line() -> None:
    cell = a_cell()
    for percent in range(100):
        cell.write_text("stderr", f"\r{percent}%")
    (piece,) = cell.take_pieces()
    assert piece["output"]["text"] == "\r99%"


def test_only_the_last_of_several_updates_is_sent() -> None:
    cell = a_cell()
    entry = cell.add(a_display("0"))
    cell.take_pieces()
    cell.write_text("stdout", "between\n")
    for n in range(1, 10):
        cell.update(entry, a_display(str(n)))
    text, replaced = cell.take_pieces()
    assert text["op"] == "append"
    assert (replaced["op"], replaced["index"]) == ("replace", 0)
    assert replaced["output"] == a_display("9")


def kept_by_the_service(pieces: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the pieces that the service keeps: it forgets those before the last `set`."""
    sets = [number for number, piece in enumerate(pieces) if piece["op"] == "set"]
    return pieces[sets[-1] :] if sets else pieces


@pytest.mark.parametrize("way", ["progress bar", "updates", "clears"])
def test_output_that_changes_for_ever_takes_bounded_room(way: str) -> None:
    cell = a_cell()
    entry = cell.add(a_display("0"))
    pieces: list[dict[str, Any]] = []
    for number in range(1000):
        match way:
            case "progress bar":
                cell.write_text("stderr", f"\r{number / 10:.0f} %")
            case "updates":
                cell.update(entry, a_display(f"plot {number}"))
            case _:
                cell.clear()
                cell.add(a_display(f"plot {number}"))
        assert cell.pending_size > 0
        pieces = kept_by_the_service(pieces + cell.take_pieces())
        assert len(json.dumps(pieces)) < 10_000
    assert as_shown(fold(pieces)["c"]) == as_shown(cell.outputs)


def test_clear_drops_the_outputs_and_pieces_before_it() -> None:
    cell = a_cell()
    for n in range(50):
        cell.clear()
        cell.add(a_display(f"frame {n}"))
    clear, shown = cell.take_pieces()
    assert clear["op"] == "clear"
    assert shown["output"] == a_display("frame 49")


def test_long_text_keeps_its_end_and_says_what_is_missing() -> None:
    cell = a_cell()
    for n in range(40):
        cell.write_text("stdout", f"line {n}\n")
        cell.take_pieces()
    notice, text = cell.outputs
    assert "of text" in notice["data"]["text/plain"]
    assert text["text"].startswith("line ")  # cut at the end of a line
    assert text["text"].endswith("line 39\n")


def test_updates_reach_their_output_after_a_cut() -> None:
    cell = a_cell()
    cell.write_text("stdout", "x" * 150)
    entry = cell.add(a_display("old"))
    pieces = cell.take_pieces()
    cell.write_text("stdout", "y" * 150)
    pieces += cell.take_pieces()
    cell.update(entry, a_display("new"))
    pieces += cell.take_pieces()
    assert fold(pieces)["c"] == cell.outputs
    assert a_display("new") in cell.outputs


def test_many_displays_keep_the_latest() -> None:
    cell = a_cell()
    for n in range(10):
        cell.add(a_display(f"{n:060}"))
    notice, *kept = cell.outputs
    assert "displays" in notice["data"]["text/plain"]
    assert kept[-1] == a_display(f"{9:060}")


def test_an_error_is_shortened_not_replaced() -> None:
    cell = a_cell()
    error = {"output_type": "error", "ename": "E", "evalue": "v", "traceback": ["x" * 500, "last line"]}
    cell.add(error)
    (kept,) = cell.outputs
    assert kept["output_type"] == "error"
    assert kept["traceback"][-1] == "last line"


def test_outputs_of_an_earlier_run_are_sent_again_first() -> None:
    cell = a_cell()
    cell.restore([{"output_type": "stream", "name": "stdout", "text": "run 1\n"}])
    cell.write_text("stdout", "run 2\n")
    (piece,) = cell.take_pieces()
    assert piece["op"] == "set"
    assert [output["text"] for output in piece["outputs"]] == ["run 1\nrun 2\n"]


def nested(levels: int) -> Any:
    document: Any = 1
    for _ in range(levels):
        document = [document]
    return document


CHART = "application/vnd.plotly.v1+json"


@pytest.mark.parametrize(
    ("output", "why"),
    [
        ({"data": {CHART: [[1] * 1000] * 1100}, "metadata": {}}, "it has more than 1048576 values"),
        ({"data": {CHART: nested(120)}, "metadata": {}}, "it is nested more than 90 levels deep"),
        ({"data": {CHART: nested(3000)}, "metadata": {}}, "it is nested more than 90 levels deep"),
        ({"data": {CHART: 1}, "metadata": {"a": nested(120)}}, "it is nested more than 90 levels deep"),
        ({"data": {CHART: "\u20ac" * 12_000_000}, "metadata": {}}, "a job keeps single outputs up to 32.0 MiB"),
        ({"data": {CHART: "\0" * 6_000_000}, "metadata": {}}, "a job keeps single outputs up to 32.0 MiB"),
        ({"data": {CHART: 1}, "metadata": {"a": "x" * 34_000_000}}, "a job keeps single outputs up to 32.0 MiB"),
    ],
    ids=["values", "levels", "very many levels", "levels of metadata", "bytes", "escapes", "bytes of metadata"],
)
def test_a_notice_with_the_bound_replaces_an_output_beyond_it(output: dict[str, Any], why: str) -> None:
    cell = a_cell(OutputBounds())
    cell.add({"output_type": "display_data", **output})
    (kept,) = cell.outputs
    assert kept["data"]["text/plain"].endswith(f"({CHART}) was left out: {why}. Save it to a file instead.")


def test_numbers_and_characters_that_no_reader_takes_are_replaced() -> None:
    cell = a_cell(OutputBounds())
    data = {"text/plain": "chart \ud800", CHART: {"id": 2**63, "x": [float("nan"), 1]}}
    cell.add({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1})
    cell.write_text("stdout", "half \udfff")
    shown, text = cell.outputs
    assert shown["data"] == {"text/plain": "chart \ufffd", CHART: {"id": float(2**63), "x": ["nan", 1]}}
    assert text["text"] == "half \ufffd"


@pytest.mark.parametrize("way", ["many lines", "a long message", "a long name", "a long line"])
def test_an_error_of_any_length_stays_an_error(way: str) -> None:
    lines = {"many lines": [""] * 1_000_000, "a long line": ["x" * 9_000_000]}
    error = {
        "output_type": "error",
        "ename": "E" * (9_000_000 if way == "a long name" else 1),
        "evalue": "v" * (9_000_000 if way == "a long message" else 1),
        "traceback": lines.get(way, ["line"]),
    }
    cell = a_cell(OutputBounds())
    cell.add(error)
    (kept,) = cell.outputs
    assert kept["output_type"] == "error"
    assert measure_output(kept) < 600_000


def test_all_outputs_of_a_cell_fit_into_one_request() -> None:
    """The longest text in JSON is that of control characters; values count as if each had 32 bytes."""
    cell = a_cell(OutputBounds())
    for number in range(4):
        data = {"text/html": "x" * 6_000_000, CHART: [[]] * 45_000}
        cell.add({"output_type": "display_data", "data": data, "metadata": {"number": number}})
    cell.write_text("stdout", "\0" * output_bounds.CELL_TEXT)
    for number in range(3_000):
        cell.write_text(f"stream {number % 2}", "x")
    cell._resend_all = True
    (piece,) = cell.take_pieces()
    ((body,),) = _batches([piece])
    request = b'{"events":[' + body + b"]}"
    assert piece["op"] == "set"
    assert len(request) < output_bounds.REQUEST_SIZE
    assert parse_model(OutputReport, request, output_bounds.REQUEST_VALUES).events == [piece]


def test_a_heat_map_of_a_thousand_by_a_thousand_is_kept_and_fits_into_a_request() -> None:
    """With numbers of full length, as Plotly writes a list of lists."""
    figure = {"data": [{"type": "heatmap", "z": [[0.1234567890123456 + x for x in range(1000)]] * 1000}], "layout": {}}
    output = {"output_type": "display_data", "data": {CHART: figure}, "metadata": {}}
    cell = a_cell(OutputBounds())
    cell.add(output)
    cell.write_text("stdout", "\0" * output_bounds.CELL_TEXT)
    cell._resend_all = True
    (piece,) = cell.take_pieces()
    assert output in piece["outputs"]
    ((body,),) = _batches([piece])
    request = b'{"events":[' + body + b"]}"
    assert len(request) < output_bounds.REQUEST_SIZE
    assert parse_model(OutputReport, request, output_bounds.REQUEST_VALUES).events == [piece]


def test_outputs_of_an_earlier_run_have_the_same_bounds() -> None:
    """An earlier release kept outputs that the service refuses."""
    cell = a_cell(OutputBounds())
    cell.restore([{"output_type": "display_data", "data": {CHART: nested(120)}, "metadata": {}}])
    assert "was left out" in cell.outputs[0]["data"]["text/plain"]
