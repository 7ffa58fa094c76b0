"""The table of the benchmarks marks each goal that is missed, and the exit status says so."""

import pytest

from benchmarks.table import Row, show


@pytest.mark.parametrize(
    ("wants", "ours", "goal", "misses"),
    [
        ("less", 2.0, 1.0, True),
        ("less", 1.0, 1.0, False),
        ("less", 0.0, 0.0, False),
        ("more", 2.0, 1.0, False),
        ("more", 0.5, 1.0, True),
        ("less", 9.0, None, False),
        ("less", float("nan"), 1.0, True),
        ("more", float("nan"), 1.0, True),
    ],
)
def test_a_goal_that_is_missed_fails_the_benchmark(capsys, wants, ours, goal, misses) -> None:
    other = Row(case="other", figure="p50", unit="s", ours=1.0)
    one = Row(case="one", figure="p50", unit="s", ours=ours, goal=goal, wants=wants)
    assert show("Title", [other, one], None) == int(misses)
    lines = capsys.readouterr().out.splitlines()[-2:]
    assert [line.endswith("missed") for line in lines] == [False, misses]
