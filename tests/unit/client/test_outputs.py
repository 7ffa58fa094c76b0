"""The fold of numbered output pieces into the outputs of cells; the lab extension passes the same cases."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.client.outputs import fold as outputs
from jupyter_gq.client.outputs.fold import Fold, collapse, fold

CASES: list[dict[str, Any]] = json.loads((Path(__file__).parents[2] / "data" / "outputs.json").read_text("utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_shared_case(case):
    assert fold(case["events"]) == case["cells"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_folding_in_two_parts_gives_the_same_as_folding_at_once(case):
    events = case["events"]
    for cut in {0, 1, len(events) // 2, len(events)}:
        assert fold(events[cut:], fold(events[:cut])) == case["cells"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_events_themselves_are_not_changed(case):
    before = copy.deepcopy(case["events"])
    fold(case["events"])
    assert case["events"] == before


def test_text_without_control_characters_is_returned_as_it_is():
    text = "loss 0.1\n" * 1000
    assert collapse(text) is text


def stream(text: str, name: str = "stdout") -> dict[str, Any]:
    return {
        "op": "append",
        "cell": "a",
        "role": "target",
        "output": {"output_type": "stream", "name": name, "text": text},
    }


@given(texts=st.lists(st.text("ab\n\r\b", max_size=6), max_size=12), cuts=st.sets(st.integers(0, 12)))
def test_text_in_pieces_is_what_a_terminal_shows_after_each_of_them(texts: list[str], cuts: set[int]) -> None:
    """Also if somebody looks at the outputs in between."""
    folded, shown = Fold(), ""
    for number, text in enumerate(texts):
        folded.add([stream(text)])
        line = shown.rfind("\n") + 1  # a terminal does not go back into lines that have ended
        shown = shown[:line] + collapse(shown[line:] + text)
        if number in cuts:
            assert folded.outputs["a"][0]["text"] == shown
    assert "".join(output["text"] for output in folded.outputs.get("a", [])) == shown


@pytest.mark.parametrize("text", ["epoch\n", ".", "\r5 %", "\r5 %\nepoch"])
def test_a_piece_costs_no_more_than_its_own_length_and_its_line(monkeypatch, text):
    """Counted in the characters that are looked at once more."""
    looked_at = []
    monkeypatch.setattr(outputs, "collapse", lambda text: looked_at.append(len(text)) or collapse(text))
    fold([stream(text) for _ in range(2_000)])
    assert sum(looked_at) <= 2_000 * 3 * len(text)
