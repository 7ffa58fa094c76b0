"""The limit of the work that is done to read one cell.

Python 3.11 reads an f-string such as `f"{x}"` from its beginning again for each field, to find the line of the
field. Python holds its lock meanwhile, so the server would answer nobody, and nothing can interrupt that. So each
source is looked at before Python reads it.

See docs/decisions/0348-count-what-is-read-before-a-cell-is-read.md.
"""

import re

from jupyter_gq.domain.errors import MachineError

#: Most characters that are read for the fields of all f-strings of a source, in about a quarter of a second.
_MOST_FOR_FIELDS = 500_000_000
#: A comment, or a text with its prefix. Nothing is read twice: what has no end goes on to that of the line or source.
_TEXT = re.compile(
    r"""
    \# [^\r\n]*+
    | (?: \b (?P<prefix> [a-zA-Z]{1,2}+ ) )?+
      (?: "{3} (?: [^"\\]++ | \\. | "(?!"") )*+ (?: "{3} )?+
        | '{3} (?: [^'\\]++ | \\. | '(?!'') )*+ (?: '{3} )?+
        | " (?: [^"\\\r\n]++ | \\ (?: \r\n | . ) )*+ "?+
        | ' (?: [^'\\\r\n]++ | \\ (?: \r\n | . ) )*+ '?+
      )
    """,
    re.VERBOSE | re.DOTALL,
)


class TooMuchWork(MachineError):
    """A source that needs too much work to be read."""


def check_fields(source: str | bytes) -> None:
    """Raise `TooMuchWork` if Python would read too many characters for the fields of the f-strings in a source."""
    text = source if isinstance(source, str) else source.decode("latin-1")
    if text.count("{") * len(text) <= _MOST_FOR_FIELDS:
        return
    found = (each[0] for each in _TEXT.finditer(text) if "f" in (each["prefix"] or "").lower())
    if sum(each.count("{") * len(each) for each in found) > _MOST_FOR_FIELDS:
        raise TooMuchWork("the f-strings of this source have too many fields")
