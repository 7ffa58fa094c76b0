"""Lengths of time as people write them, on the command line and in the line of a magic. Standard library only."""

from __future__ import annotations

import argparse
import re

#: Seconds of each unit.
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> float:
    """Return a length of time in seconds, from text such as "90m", "12h", "2d" or "3600".

    Raises `ArgumentTypeError` if the text has another form.
    """
    found = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no length of time; expected one such as 90m, 12h or 2d")
    return float(found[1]) * _UNITS[found[2]]
