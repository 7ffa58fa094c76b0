"""JSON documents of people and programs that are not trusted: requests, and files that user code can write.

Rules
-----
Depth: lists and objects are nested at most `MAX_DEPTH` deep. So no later walk through the document ends the program.
Nodes: a document has at most so many values as its reader allows. They are counted before the document is built, so a
    small text that makes millions of objects takes no memory.
Numbers: every number is finite, and every integer fits into 64 bits, as databases and other languages expect.
"""

import json
import re
from math import isfinite
from typing import NoReturn

from .errors import InvalidJson, TooMuchJson
from .json_types import JsonValue
from .plain_text import shorten

#: Deeper than any notebook or message: those of today nest some twenty levels.
MAX_DEPTH = 100
#: Values of one document, unless its reader allows another number.
MAX_NODES = 1_000_000
_LARGEST_INTEGER = 2**63 - 1
#: Digits and sign of the longest integer of 64 bits.
_LONGEST_INTEGER = 20
_LONGEST_FLOAT = 400
#: A string, up to the end of the document if its end is missing. The quantifiers are possessive: a search never goes
#: back, so it takes time in proportion to the document, and no memory for each character.
_TEXT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)
_HALF = re.compile("[\ud800-\udfff]")


def parse(text: str, *, max_nodes: int = MAX_NODES) -> JsonValue:
    """Return the value of a JSON document.

    Raises `InvalidJson`, with a phrase that says why, if the text is no JSON, has more than `max_nodes` values, or is
    nested deeper than `MAX_DEPTH`. The same error is raised for infinite numbers and integers beyond 64 bits.
    """
    if count_nodes(text, max_nodes) > max_nodes:
        raise _too_many(max_nodes)
    try:
        document = json.loads(text, parse_constant=_refuse_constant, parse_float=_parse_float, parse_int=_parse_integer)
    except RecursionError:
        raise _nested_too_deeply() from None
    except json.JSONDecodeError as error:
        raise InvalidJson(f"{error.msg} at line {error.lineno}, column {error.colno}") from error
    _check_depth(document)
    return document


def count_nodes(text: str, enough: int) -> int:
    """Return an upper bound of the number of values in a JSON text.

    Separators inside strings are counted too, unless that would take the bound above `enough`.
    """
    bound = _count_separators(text)
    return bound if bound <= enough else _count_separators(_TEXT.sub("", text))


def make_readable(document: object, *, max_nodes: int = MAX_NODES, max_depth: int = MAX_DEPTH) -> JsonValue:
    """Return a copy of the document that `parse`, with the same number of nodes, accepts as JSON.

    An integer beyond 64 bits becomes a float, as in a browser. A number that is not finite, or too large for a float,
    becomes text, and so does an object that JSON cannot express. U+FFFD replaces a lone surrogate. Raises
    `InvalidJson` if the document has more than `max_nodes` values or is nested deeper than `max_depth`.
    """
    left = max_nodes - 1

    def copy(value: object, levels: int) -> JsonValue:
        nonlocal left
        if not isinstance(value, dict | list | tuple):
            return _make_plain(value)
        left -= max(1, len(value))
        if left < 0:
            raise _too_many(max_nodes)
        if levels == 0:
            raise _nested_too_deeply(max_depth)
        if isinstance(value, dict):
            return {make_whole(str(name)): copy(inner, levels - 1) for name, inner in value.items()}
        return [copy(inner, levels - 1) for inner in value]

    return copy(document, max_depth)


def make_whole(text: str) -> str:
    """Return the text with U+FFFD in the place of each lone surrogate (U+D800 to U+DFFF), half of a character."""
    return text if text.isascii() else _HALF.sub("\ufffd", text)


def _make_plain(value: object) -> JsonValue:
    """Return a value that is no list or object, as `make_readable` describes it."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -_LARGEST_INTEGER - 1 <= value <= _LARGEST_INTEGER else _make_float(value)
    if isinstance(value, float):
        return value if isfinite(value) else str(value)
    return make_whole(str(value))


def _make_float(number: int) -> float | str:
    try:
        return float(number)
    except OverflowError:
        return hex(number)  # decimal digits would take time with the square of their number


def _count_separators(text: str) -> int:
    # Each value but the first follows a comma or opens a list or an object, unless that is empty; a colon separates a
    # key from its value.
    opened = text.count("[") + text.count("{")
    empty = text.count("[]") + text.count("{}")
    return 1 + text.count(",") + opened - empty


def _check_depth(document: JsonValue) -> None:
    """Raise `InvalidJson` if the document is nested more than `MAX_DEPTH` levels deep."""
    level = [document] if isinstance(document, dict | list) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, dict | list)
        ]
    if level:
        raise _nested_too_deeply()


def _too_many(most: int) -> InvalidJson:
    return TooMuchJson(f"it has more than {most} values")


def _nested_too_deeply(most: int = MAX_DEPTH) -> InvalidJson:
    return TooMuchJson(f"it is nested more than {most} levels deep")


def _refuse_constant(name: str) -> NoReturn:
    raise InvalidJson(f"{name} is not a JSON number")


def _parse_float(text: str) -> float:
    number = float(text) if len(text) <= _LONGEST_FLOAT else float("inf")
    if number in {float("inf"), float("-inf")}:
        raise InvalidJson(f"the number {shorten(text)} is too large")
    return number


def _parse_integer(text: str) -> int:
    number = int(text) if len(text) <= _LONGEST_INTEGER else _LARGEST_INTEGER + 1
    if not -_LARGEST_INTEGER - 1 <= number <= _LARGEST_INTEGER:
        raise InvalidJson(f"the number {shorten(text)} does not fit into 64 bits")
    return number
