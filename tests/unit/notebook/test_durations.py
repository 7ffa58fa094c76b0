"""Lengths of time are read alike on the command line, in the line of a magic and in the fields of the dialog."""

import argparse
import json
from pathlib import Path

import pytest

from jupyter_gq.notebook.durations import parse_duration

#: Texts with their seconds, or None; `labextension/src/__tests__/values.spec.ts` reads the same file.
CASES: list[tuple[str, float | None]] = json.loads(
    (Path(__file__).parents[2] / "data" / "durations.json").read_text("utf-8")
)


@pytest.mark.parametrize(("text", "seconds"), CASES)
def test_a_length_of_time_is_read_as_in_the_dialog(text, seconds):
    try:
        found = parse_duration(text)
    except argparse.ArgumentTypeError:
        found = None
    assert found == (None if seconds is None else pytest.approx(seconds))


def test_a_number_without_a_unit_is_in_seconds_here_only():
    assert parse_duration("90") == 90
    assert parse_duration("1.5") == 1.5
