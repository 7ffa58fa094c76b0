"""The body of a request as a validated model, with errors in plain words."""

import json
import re
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from jupyter_gq.client.model_errors import describe_errors, show_value
from jupyter_gq.domain import bounded_json
from jupyter_gq.domain.errors import InvalidJson, TooMuchJson
from jupyter_gq.domain.json_types import JsonValue

from .errors import ApiRefusal, refusal
from .route import QUERY_TEXT, Parameter

Model = TypeVar("Model", bound=BaseModel)

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
    except TooMuchJson as error:
        raise refusal(400, "bad_json", f"The body of this request is too much: {error}. Send less at once.") from error
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
            raise _invalid_parameter(parameter, f"{expected}, not {show_value(text)}")
        return number
    if len(text) > parameter.max_length:
        raise _invalid_parameter(parameter, f"at most {parameter.max_length} characters were expected, not {len(text)}")
    if text.encode() != given or not _QUERY_TEXT.fullmatch(text):
        raise _invalid_parameter(
            parameter, f"text in UTF-8 without control characters was expected, not {show_value(text)}"
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
    found = describe_errors(error)
    sentences = [f"{path or 'The body'}: {words}." for path, words in list(found.items())[:_MOST_NAMED]]
    more = len(found) - len(sentences)
    if more > 0:
        sentences.append(f"And {more} more.")
    return refusal(422, "invalid_request", " ".join(sentences), field=next(iter(found)) or None)
