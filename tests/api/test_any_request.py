"""Requests that Schemathesis makes from the served OpenAPI document: never a status of 500, never an unknown answer.

Every role sends each request, to every route, valid ones and invalid ones, on each database. `make soak-api CASES=N`
sends about N requests on each database; the tier sends a few to each route. `JUPYTER_GQ_API_SEED` makes other requests.
"""

import math
import os
from typing import Any

import hypothesis
import pytest
import requests
import schemathesis
from hypothesis import HealthCheck, Phase
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from jupyter_gq.api.routes import ROUTES, describe_api
from tests.patience import scaled

from .fuzzed import ROLES

MODES = (GenerationMode.POSITIVE, GenerationMode.NEGATIVE)
CASES = int(os.environ.get("JUPYTER_GQ_API_CASES", "0"))
SEED = int(os.environ.get("JUPYTER_GQ_API_SEED", "20"))
#: Requests of each role to each route in each mode.
EXAMPLES = max(2, CASES // (len(ROUTES) * len(MODES) * len(ROLES)))
HEAD_CHECKS = [not_a_server_error, status_code_conformance]
CHECKS = [*HEAD_CHECKS, content_type_conformance, response_schema_conformance]


@pytest.fixture(scope="module")
def schema() -> Any:
    return schemathesis.openapi.from_dict(describe_api())


@pytest.mark.parametrize("mode", MODES, ids=lambda mode: mode.value)
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_every_answer_is_one_that_the_document_names(fuzzed, schema, route, mode):
    operation = schema[f"/api/v1/{route.path}"][route.method]
    session, seen = requests.Session(), set()

    @hypothesis.seed(SEED)
    @hypothesis.settings(
        max_examples=EXAMPLES,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @hypothesis.given(case=operation.as_strategy(mode), known=st.booleans())
    def ask(case: Any, known: bool) -> None:
        fuzzed.renew()
        prepare(case, fuzzed.parts if known or mode is GenerationMode.POSITIVE else {})
        for role in ROLES:
            response = case.call(
                base_url=fuzzed.url.rstrip("/"), headers=fuzzed.headers(role), timeout=scaled(60), session=session
            )
            fuzzed.answers[f"{route.method} {route.path}", response.status_code] += 1
            answer = (response.status_code, response.content)
            if answer not in seen:  # the same answer needs no second check
                case.validate_response(response, checks=HEAD_CHECKS if case.method == "HEAD" else CHECKS)
                check_numbers(response)
                seen.add(answer)

    try:
        ask()
    except hypothesis.errors.Unsatisfiable:
        assert mode is GenerationMode.NEGATIVE  # nothing about this request can be wrong


def prepare(case: Any, parts: dict[str, str]) -> None:
    """Put existing objects in the place of those that were made up, so that the request gets past the first check."""
    case.path_parameters = {name: parts.get(name, part) for name, part in (case.path_parameters or {}).items()}
    if case.query:
        case.query.pop("wait", None)  # a long wait is no error
    if parts and isinstance(case.body, dict) and "queue" in case.body:
        case.body |= {"queue": "vision", "gpus": "0.5"}
    if case.path.endswith("/events"):
        case.method = "HEAD"  # the stream itself never ends


def check_numbers(response: Any) -> None:
    """Raise an error unless all numbers of a JSON answer are finite."""
    if response.content and response.headers.get("content-type", [""])[0].startswith("application/json"):
        assert finite(response.json())


def finite(value: object) -> bool:
    if isinstance(value, dict):
        return all(map(finite, value.values()))
    if isinstance(value, list):
        return all(map(finite, value))
    return not isinstance(value, float) or math.isfinite(value)
