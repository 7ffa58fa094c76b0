"""Lengths of time as people write them, on the command line and in the line of a magic. Standard library only.

The dialog of the lab reads the same texts in its fields (`labextension/src/times.ts`), but for a number without a unit.
The cases in `tests/data/durations.json` hold for both.
"""

from __future__ import annotations

import argparse
import re

from jupyter_gq.domain.amount import LONGEST_TIME
from jupyter_gq.domain.plain_text import BLANKS, quoted

#: Seconds of each unit, by its first letter.
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_NUMBER = r"\d+(?:\.\d+)?"
_SPACES = f"[{BLANKS}]*"
_PART = re.compile(
    rf"({_NUMBER}){_SPACES}(s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?)(?![a-z])", re.IGNORECASE | re.ASCII
)
#: Most characters of a text, without spaces around it.
_MOST_CHARACTERS = 60


def parse_duration(text: str) -> float:
    """Return a length of time in seconds, from text such as "90m", "1h30m", "2 days" or "3600", which is in seconds.

    Raises `ArgumentTypeError` if the text has another form, or is a time of less than a second or more than 10 years.
    """
    text = text.strip(BLANKS)
    if re.fullmatch(_NUMBER, text, re.ASCII):
        text += "s"
    parts = _PART.findall(text) if len(text) <= _MOST_CHARACTERS else []
    if not parts or _PART.sub("", text).strip(BLANKS):
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no length of time; expected one such as 90m, 1h30m or 2d")
    seconds = sum(float(count) * _UNITS[unit[0].lower()] for count, unit in parts)
    if seconds < 1:
        raise argparse.ArgumentTypeError(f"{text} is too short; expected at least 1s")
    if seconds > LONGEST_TIME:
        raise argparse.ArgumentTypeError(f"{text} is too long; expected at most {LONGEST_TIME // _UNITS['d']:.0f}d")
    return seconds
