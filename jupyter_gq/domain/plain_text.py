"""Texts from outside (names, messages of programs) in a form that can be shown and logged.

Rules
-----
Control characters move the cursor of a terminal, or begin a line that looks like another message.

Bidirectional controls reorder the text around them, so that a name reads as another one.

Noncharacters are for marks of this program (see `mentions`), so no text from outside has any.
"""

import re
import sys

#: Bidirectional controls, for character classes of regular expressions.
BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
#: Terminal sequences such as colours; without their first character the rest of them would stay visible.
_SEQUENCES = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b(?:\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")
_UNSEEN = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ud800-\udfff{BIDIRECTIONAL}]")
_SEPARATORS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")

#: Most characters of a value that a sentence repeats.
_SHOWN = 100


def shorten(text: str) -> str:
    """Return a value for a sentence: its first 99 characters and "…" if it has more than 100."""
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"


def quoted(value: object) -> str:
    """Return a value as Python writes it, shortened for a sentence; a phrase for a number too long for Python."""
    try:
        return shorten(repr(value))
    except ValueError:
        return f"a number of more than {sys.get_int_max_str_digits()} digits"


def strip_controls(text: str, *, lines: bool = False) -> str:
    """Return the text without control and bidirectional characters, terminal sequences and lone surrogates.

    Line ends and tabs become spaces; with `lines`, the text keeps `\\n` and `\\t`.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text)
    if lines:
        return _UNSEEN.sub(lambda found: found[0] if found[0] in "\n\t" else "", text)
    return _UNSEEN.sub(lambda found: " " if found[0] in _SEPARATORS else "", text)
