"""The body of a request as a validated model, with errors in plain words."""

import json
import re
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from jupyter_gq.client.strict_model import REFUSED
from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.errors import InvalidJson
from jupyter_gq.domain.json_types import JsonValue
from jupyter_gq.domain.plain_text import strip_controls

from .errors import ApiRefusal, refusal
from .route import QUERY_TEXT, Parameter

Model = TypeVar("Model", bound=BaseModel)

#: Parts of the paths in pydantic's errors that name a branch of a union or a validator, not a field.
_BRANCHES = frozenset({"str", "constrained-str", "int", "float", "bool"})
_MOST_NAMED = 3
_QUERY_TEXT = re.compile(QUERY_TEXT)
_LONGEST_COUNT = 20


def parse_json(body: bytes, max_values: int = bounded_json.MAX_NODES) -> JsonValue:
    """Return the JSON document in a body of at most `max_values` JSON values.

    Raises a refusal of 400 if the body is empty, is not valid JSON in UTF-8, or exceeds a bound of this service. NaN
    and lone surrogates are not valid, as in RFC 8259.
    """
    if not body.strip():
        raise bad_json("the body is empty")
    try:
        text = body.decode("utf-8")
        document = bounded_json.parse(text, max_nodes=max_values)
        if "\\ud" in text.lower():  # an escape may make a lone surrogate, which no file or database takes
            json.dumps(document, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise bad_json("it is not valid Unicode text in UTF-8") from error
    except InvalidJson as error:
        raise bad_json(str(error)) from error
    return document


def parse_count(text: str) -> int | None:
    """Return the whole number that a text of decimal digits stands for; None for other texts and from 2**63 on."""
    if not (text.isascii() and text.isdecimal() and len(text) < _LONGEST_COUNT):
        return None
    number = int(text)
    return number if number < 2**63 else None


def parse_parameter(parameter: Parameter, given: bytes) -> str | int:
    """Return the value of a query parameter, as it was given without its percent signs.

    Raises a refusal of 422 for an integer that is invalid or outside its bounds, and for a text that is too long, is
    not UTF-8, or has control characters.
    """
    text = given.decode("utf-8", "replace")
    if parameter.type == "integer":
        number = parse_count(text)
        if number is None or not parameter.minimum <= number <= parameter.maximum:
            expected = f"a whole number from {parameter.minimum} to {parameter.maximum} was expected"
            raise _invalid_parameter(parameter, f"{expected}, not {_shown(text)}")
        return number
    if len(text) > parameter.max_length:
        raise _invalid_parameter(parameter, f"at most {parameter.max_length} characters were expected, not {len(text)}")
    if text.encode() != given or not _QUERY_TEXT.fullmatch(text):
        raise _invalid_parameter(
            parameter, f"text in UTF-8 without control characters was expected, not {_shown(text)}"
        )
    return text


def _invalid_parameter(parameter: Parameter, why: str) -> ApiRefusal:
    return refusal(422, "invalid_request", f"{parameter.name}: {why}.", field=parameter.name)


def bad_json(why: str) -> ApiRefusal:
    """Return the refusal of 400 for a body that is not JSON; `why` is a clause that goes into the message."""
    return refusal(400, "bad_json", f"The body of this request is not valid JSON: {why}. Send a JSON object.")


def parse_model(model: type[Model], body: bytes, max_values: int = bounded_json.MAX_NODES) -> Model:
    """Return the JSON body as an instance of the model; types are not converted ("3" is not a number).

    `max_values` is how many JSON values the body may have. Raises a refusal of 400 if the body is not JSON within its
    bounds, and of 422 if it does not fit the model.
    """
    document = parse_json(body, max_values)
    try:
        return model.model_validate(document, strict=True)
    except ValidationError as error:
        raise invalid_fields(error) from error


def invalid_fields(error: ValidationError) -> ApiRefusal:
    """Return the refusal of 422 that names the first wrong field and describes the first `_MOST_NAMED` wrong fields."""
    found: dict[str, str] = {}
    for detail in error.errors(include_url=False, include_context=True):
        found.setdefault(_path(detail["loc"]), _in_words(detail))
    sentences = [f"{path or 'The body'}: {words}." for path, words in list(found.items())[:_MOST_NAMED]]
    more = len(found) - len(sentences)
    if more > 0:
        sentences.append(f"And {more} more.")
    return refusal(422, "invalid_request", " ".join(sentences), field=next(iter(found)) or None)


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
        return f"an object was expected, not {_shown(given)}"
    if kind == "string_pattern_mismatch" and "[^" not in detail["ctx"]["pattern"]:
        return f"text of the form {detail['ctx']['pattern']} was expected, not {_shown(given)}"
    if kind == "string_pattern_mismatch":
        return f"control characters are not possible in it; write it without them, not {_shown(given)}"
    if kind == "too_short":
        return f"{detail['ctx']['min_length']} or more entries are needed, not {_shown(given)}"
    if kind == "string_too_short":
        return f"{detail['ctx']['min_length']} or more characters are needed, not {_shown(given)}"
    if kind == REFUSED:
        return detail["msg"]
    if kind.endswith("_type"):
        return f"{_expected(detail)}, not {_shown(given)}"
    message = detail["msg"].removeprefix("Value error, ")
    return f"{message[:1].lower()}{message[1:]}, not {_shown(given)}"


def _expected(detail: ErrorDetails) -> str:
    """Return a clause that says which type pydantic expected, such as "a whole number was expected"."""
    if any(part in _BRANCHES for part in detail["loc"]):
        return "text or a number was expected"
    words = {"string": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}
    kind = detail["type"].removesuffix("_type")
    return f"{words.get(kind, 'a ' + kind)} was expected"


def _shown(value: object) -> str:
    """Return a value of a request as it appears in a message; a long text is cut to 60 characters."""
    if isinstance(value, list):
        return f"a list of {len(value)}" if value else "an empty list"
    if isinstance(value, dict):
        return "an object"
    text = strip_controls(json.dumps(value, ensure_ascii=False, default=str))
    return text if len(text) <= 60 else text[:57] + "..."
