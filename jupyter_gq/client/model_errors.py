"""The errors of pydantic in plain words: what was expected of a field, and what was given."""

import json
from collections.abc import Sequence

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from jupyter_gq.domain.plain_text import strip_controls

from .strict_model import REFUSED

#: Parts of the paths in pydantic's errors that name a branch of a union or a validator, not a field.
_BRANCHES = frozenset({"str", "constrained-str", "int", "float", "bool"})

#: Errors of values out of their bounds: the entry of the context that holds the bound, and the words around it.
_BOUNDS = {
    "too_short": ("min_length", "{} or more entries are needed"),
    "too_long": ("max_length", "at most {} entries are possible"),
    "string_too_short": ("min_length", "{} or more characters are needed"),
    "string_too_long": ("max_length", "at most {} characters are possible"),
    "greater_than_equal": ("ge", "{} or more was expected"),
    "greater_than": ("gt", "more than {} was expected"),
    "less_than_equal": ("le", "at most {} was expected"),
    "less_than": ("lt", "less than {} was expected"),
}


def describe_errors(error: ValidationError) -> dict[str, str]:
    """Return the first error of each wrong field as a clause, by the dotted path of the field; "" is the whole."""
    found: dict[str, str] = {}
    for detail in error.errors(include_url=False, include_context=True):
        found.setdefault(_path(detail["loc"]), _in_words(detail))
    return found


def show_value(value: object) -> str:
    """Return a value of a request as it appears in a message; a long text is cut to 60 characters."""
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        return "an object"
    text = strip_controls(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 60 else text[:57] + "..."


def _path(location: Sequence[int | str]) -> str:
    return ".".join(str(part) for part in location if part not in _BRANCHES)


def _in_words(detail: ErrorDetails) -> str:
    """Return one of pydantic's errors as a clause: what was expected and what was given."""
    kind, given = detail["type"], detail.get("input")
    if kind == "missing":
        return "it is required, and missing"
    if kind == "extra_forbidden":
        return "there is no such field here; check its spelling"
    if kind in {"model_type", "model_attributes_type", "dict_type"}:
        return f"an object was expected, not {show_value(given)}"
    if kind == "string_pattern_mismatch" and "[^" not in detail["ctx"]["pattern"]:
        return f"text of the form {detail['ctx']['pattern']} was expected, not {show_value(given)}"
    if kind == "string_pattern_mismatch":
        return f"control characters are not possible in it; write it without them, not {show_value(given)}"
    if kind in _BOUNDS:
        bound, words = _BOUNDS[kind]
        return f"{words.format(detail['ctx'][bound])}, not {show_value(given)}"
    if kind == REFUSED:
        return detail["msg"]
    if kind.endswith(("_type", "_parsing", "_from_float")):
        return f"{_expected(detail)}, not {show_value(given)}"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}, not {show_value(given)}"


def _expected(detail: ErrorDetails) -> str:
    """Return a clause that says which type pydantic expected, such as "a whole number was expected"."""
    if any(part in _BRANCHES for part in detail["loc"]):
        return "text or a number was expected"
    words = {"string": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
    kind = detail["type"].partition("_")[0]
    return f"{words.get(kind, 'a ' + kind)} was expected"
