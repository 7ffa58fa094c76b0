"""Lengths of time as people write them on the command line."""

import argparse
import re
from typing import Final

from jupyter_gq.domain.plain_text import quoted

#: Seconds of each unit.
_UNITS: Final = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def parse_duration(text: str) -> float:
    """Return a length of time in seconds, from text such as "90m", "12h", "2d" or "3600".

    Raises `ArgumentTypeError` if the text has another form.
    """
    found = re.fullmatch(r"(\d{1,7}(?:\.\d{1,3})?)([smhd]?)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{quoted(text)} is no length of time; expected one such as 90m, 12h or 2d")
    return float(found[1]) * _UNITS[found[2]]
