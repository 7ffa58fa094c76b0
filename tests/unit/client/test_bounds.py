"""The bounds of requests: no text of a request may have control characters where it is shown or logged on one line."""

import inspect
import re

import pytest
from pydantic import TypeAdapter

from jupyter_gq.api.routes import ROUTES
from jupyter_gq.client.strict_model import StrictModel

#: Texts that are cleaned where they are taken in (the name of a job), or that the service only sends.
CLEANED = {("JobRequest", "name"), ("JobSubmission", "name")}
REQUESTS = sorted(
    {route.request for route in ROUTES if inspect.isclass(route.request) and issubclass(route.request, StrictModel)},
    key=lambda model: model.__name__,
)


def texts(schema, path=()):
    """Yield the path and the schema of each text in a JSON schema, with all definitions."""
    if isinstance(schema, list):
        for each in schema:
            yield from texts(each, path)
    if not isinstance(schema, dict):
        return
    if schema.get("type") == "string" and not {"enum", "const"} & schema.keys():
        yield path, schema
    for key, value in schema.items():
        yield from texts(value, (*path, key))


@pytest.mark.parametrize("model", REQUESTS, ids=lambda model: model.__name__)
def test_no_text_of_a_request_may_hold_a_null_character(model):
    schema = TypeAdapter(model).json_schema()
    for path, text in texts(schema):
        if (model.__name__, path[-1]) in CLEANED or "OutputEvent" in path:
            continue
        assert "pattern" in text, path
        assert not re.search(text["pattern"].replace(r"\ud800-\udfff", ""), "a\0b"), path
