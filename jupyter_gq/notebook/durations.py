"""Lengths of time as people write them, on the command line and in the line of a magic. Standard library only."""

from __future__ import annotations

import argparse
import re

from jupyter_gq.domain.amount import LONGEST_TIME

#: Seconds of each unit.
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> float:
    """Return a length of time in seconds, from text such as "90m", "12h", "2d" or "3600".

    Raises `ArgumentTypeError` if the text has another form, or is a time of less than a second or more than 10 years.
    """
    found = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text[:60]!r} is no length of time; expected one such as 90m, 12h or 2d")
    seconds = float(found[1]) * _UNITS[found[2]]
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"{text} is too short; expected at least 1s")
    if seconds > LONGEST_TIME:
        raise argparse.ArgumentTypeError(f"{text} is too long; expected at most {LONGEST_TIME // _UNITS['d']:.0f}d")
    return seconds
