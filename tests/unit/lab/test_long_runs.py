"""Long runs of one sign in a cell take a time that grows with their length, not with its square.

Python's `re` gives no other thread a turn: while it reads, the notebook server answers nobody.
"""

import time

import pytest

from jupyter_gq.lab.bundle.assignments import find_assignments
from jupyter_gq.lab.effects.effects import find_effects
from jupyter_gq.lab.reading.cells import parse_cell

#: How much longer the longer run is, and how much longer it may take; a square is 64 times as much.
LONGER, MOST_RATIO = 8, 24
#: Seconds of processor time below which nothing can be told.
LEAST = 0.01


def measure(source):
    """Return the seconds of processor time in which the cell is read, the better of two tries."""
    tries = []
    for _ in range(2):
        began = time.process_time()
        find_assignments(source)
        parse_cell(source)
        find_effects(source)
        tries.append(time.process_time() - began)
    return max(min(tries), LEAST)


@pytest.mark.parametrize(
    ("before", "unit", "after"),
    [
        ("pip x", " ", "\ny z"),
        ("", "\t", "x"),
        ("a", " ", "= %x y"),
        ("a = 1 ", "? ", "b"),
        ("con.execute('''with ", ")drop table ", "if not exists''')"),
        ("con.execute('''with ", ")insert ", "''')"),
        ("con.execute('''/*", "* ", "''')"),
    ],
)
def test_a_run_eight_times_as_long_takes_no_square_of_the_time(before, unit, after):
    short, long = (before + unit * count + after for count in (2000, 2000 * LONGER))
    assert measure(long) <= MOST_RATIO * measure(short)
