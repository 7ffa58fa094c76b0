"""The OpenAPI document describes every route, and nothing else."""

import json
import re

import jsonschema
import pytest

from jupyter_gq.api.access import Access
from jupyter_gq.api.routes import ROUTES, describe_api

from .fakes import Raises


@pytest.fixture
def described() -> dict:
    return describe_api()


def test_every_route_is_described_with_all_of_its_statuses(described):
    operations = {
        (method.upper(), path.removeprefix("/api/v1/")): operation
        for path, methods in described["paths"].items()
        for method, operation in methods.items()
    }
    assert set(operations) == {(route.method, route.path) for route in ROUTES}
    assert len({operation["operationId"] for operation in operations.values()}) == len(ROUTES)
    for route in ROUTES:
        operation = operations[route.method, route.path]
        assert operation["summary"].endswith(".")
        statuses = {int(status) for status in operation["responses"]}
        assert set(route.statuses) <= statuses
        assert ({401} <= statuses) == (route.access not in {Access.PUBLIC, Access.OPEN})
        assert bool(operation["security"]) == (route.access is not Access.PUBLIC)
        declared = {parameter["name"] for parameter in operation.get("parameters", [])}
        assert set(re.findall(r"{(\w+)}", route.path)) <= declared


def test_every_reference_leads_somewhere(described):
    text = json.dumps(described)
    names = set(re.findall(r'"#/components/schemas/([^"]+)"', text))
    assert names <= set(described["components"]["schemas"])
    assert {"Problem", "ServiceEvent", "JobView"} <= names | set(described["components"]["schemas"])


def test_every_schema_is_a_valid_one(described):
    for schema in described["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_field_of_a_schema_that_is_a_number_of_gpus_is_text(described):
    job = described["components"]["schemas"]["JobView"]["properties"]
    assert job["gpus"]["type"] == "string"


@pytest.mark.asyncio
async def test_it_is_served_to_everybody(serve):
    served = await serve(Raises(AssertionError()))
    response = await served.ask("GET", "api/v1/openapi.json", token=None)
    served_document = json.loads(response.body)
    assert served_document["openapi"] == "3.1.0"
    assert served_document == json.loads(json.dumps(describe_api()))
