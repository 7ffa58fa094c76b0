"""The fold of numbered output pieces into the outputs of cells; the lab extension passes the same cases."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from jupyter_gq.client.outputs import collapse, fold

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
