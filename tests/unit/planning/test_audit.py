"""Times as the command `jupyter-gq audit` reads them."""

import argparse

import pytest

from jupyter_gq.controller.clock import SystemClock
from jupyter_gq.planning.audit import parse_time


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86_400),
        ("1970-01-01T00:01", 60),
        ("1970-01-01T00:01:30Z", 90),
        ("1970-01-01T01:00+01:00", 0),
        ("1969-01-01", 0),
    ],
)
def test_dates_and_times_without_a_zone_are_utc(text, seconds):
    assert parse_time(text) == seconds


@pytest.mark.parametrize(("text", "ago"), [("90m", 5400), ("36h", 129_600), ("7d", 604_800), ("999999d", None)])
def test_times_ago_count_from_now(text, ago):
    expected = 0 if ago is None else SystemClock().now() - ago
    assert abs(parse_time(text) - expected) < 60


@pytest.mark.parametrize("text", ["", "yesterday", "7w", "2026-13-01", "-7d"])
def test_any_other_text_is_refused_with_what_was_expected(text):
    with pytest.raises(argparse.ArgumentTypeError, match="a date, a time such as"):
        parse_time(text)
