"""Texts from outside (names, messages of programs) in a form that can be shown and logged.

Rules
-----
Control characters move the cursor of a terminal, or begin a line that looks like another message.

Bidirectional controls reorder the text around them, so that a name reads as another one.

Noncharacters are for marks of this program (see `mentions`), so no text from outside has any.
"""

import re
import shlex
import sys

#: Bidirectional controls, for character classes of regular expressions.
BIDIRECTIONAL = "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"
#: Spaces around and between numbers and units, for `strip` and for character classes: those of Unicode, and characters
#: without a width, which come along with what is copied from a page. `labextension/src/plain.ts` has the same.
BLANKS = f"\t \u00a0\u1680{''.join(map(chr, range(0x2000, 0x200C)))}\u202f\u205f\u2060\u3000\ufeff"
#: Terminal sequences such as colours; without their first character the rest of them would stay visible.
_SEQUENCES = re.compile("(?:\x1b\\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b(?:\\][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[@-Z\\\\-_])")
_UNSEEN = re.compile(f"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufdd0-\ufdef\ud800-\udfff{BIDIRECTIONAL}]")
_NONCHARACTERS = frozenset(map(chr, range(0xFDD0, 0xFDF0)))
_SEPARATORS = frozenset("\t\n\v\f\r\x1c\x1d\x1e\x85\u2028\u2029")

#: Most characters of a value that a sentence repeats.
_SHOWN = 100


def shorten(text: str, most: int = _SHOWN) -> str:
    """Return a text for a sentence: if it has more than `most` characters, its beginning, "…" and its end.

    Long names of files, variables and jobs often differ in their last letters only.
    """
    if len(text) <= most:
        return text
    end = (most - 1) // 3
    return f"{text[: most - 1 - end]}…{text[len(text) - end :]}"


def join_name(name: str, said: str, most: int) -> str:
    """Return the name of one of many jobs, with what tells it from the others, in at most `most` characters.

    The name is shortened first, so that `said` stays whole as long as possible. Either of them may be empty.
    """
    if not said:
        return shorten(name, most)
    room = max(most // 4, most - len(said) - 1)
    return shorten(f"{shorten(name, room)} {said}".strip(), most)


def hide_urls(text: str) -> str:
    """Return a text of an error as one line of at most 300 characters, without URLs: a URL may hold credentials."""
    return re.sub(r"\w+://\S+", "the address", " ".join(text.split()))[:300]


def quoted(value: object) -> str:
    """Return a value as Python writes it, shortened for a sentence; a phrase if Python cannot write it."""
    try:
        return shorten(repr(value))
    except BaseException:  # noqa: BLE001 - the code of an administrator's class may raise anything, such as SystemExit
        if isinstance(value, int):
            return f"a number of more than {sys.get_int_max_str_digits()} digits"
        return f"a value of the type {shorten(type(value).__name__)}"


def split_options(line: str) -> list[str]:
    """Return the words of a line of options as a shell divides it, but at each of `BLANKS`, not at plain spaces only.

    Raises `ValueError` for a quotation mark that is not closed.
    """
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace += BLANKS
    lexer.whitespace_split = True
    lexer.commenters = ""
    return list(lexer)


def strip_controls(text: str, *, lines: bool = False, marks: bool = False) -> str:
    """Return the text without control and bidirectional characters, terminal sequences and lone surrogates.

    Line ends and tabs become spaces; with `lines`, the text keeps `\\n` and `\\t`. With `marks`, the text is one of
    this program, and keeps its marks.
    """
    if text.isascii() and text.isprintable():
        return text
    text = _SEQUENCES.sub("", text)
    kept = _NONCHARACTERS if marks else frozenset()
    if lines:
        return _UNSEEN.sub(lambda found: found[0] if found[0] in "\n\t" or found[0] in kept else "", text)
    return _UNSEEN.sub(lambda found: found[0] if found[0] in kept else " " if found[0] in _SEPARATORS else "", text)
