"""Tables of commands: columns are aligned, and no cell can falsify a line."""

import json
from pathlib import Path

import pytest

from jupyter_gq.commands.printing.tables import cut_lines, format_estimate, format_table

#: Seconds with their texts; `labextension/src/__tests__/words.spec.ts` reads the same file.
ESTIMATES: list[tuple[float, str]] = json.loads(
    (Path(__file__).parents[2] / "data" / "estimates.json").read_text("utf-8")
)


def test_columns_are_aligned_and_lines_have_no_blanks_at_the_end():
    rows = [["NAME", "GPUS", "WHY"], ["a", "0.5", "x"], ["longer", "12", ""]]
    assert format_table(rows, {1}) == ["NAME    GPUS  WHY", "a        0.5  x", "longer    12"]


def test_a_cell_with_control_characters_stays_one_plain_cell():
    assert format_table([["a\nb\x1b[31m", "c"]]) == ["a b  c"]


def test_lines_fit_the_terminal():
    assert format_table([["abc", "defgh"]], width=7) == ["abc  d…"]
    assert cut_lines(["abc"], 3) == ["abc"]


@pytest.mark.parametrize(("seconds", "text"), ESTIMATES)
def test_an_estimate_is_rounded_up_as_in_the_lab(seconds, text):
    assert format_estimate(seconds) == text
