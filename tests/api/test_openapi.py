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


#: Parts that only the bytes and the number of JSON values of their request bound: text and outputs of any form.
ANY_FORM = {
    "Bundle.notebook",
    "OutputEvent.cell",
    "OutputEvent.language",
    "OutputEvent.output",
    "OutputEvent.outputs",
    "OutputEvent.outputs[]",
    "OutputEvent.state",
    "ResultsReport.results",
    "put /api/v1/jobs/{job}/log",
}


def parts_without_bound(schema, schemas, path, known):
    """Yield the path of each text, list and object of a schema whose length nothing limits."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        if name not in known:
            known.add(name)
            yield from parts_without_bound(schemas[name], schemas, name, known)
        return
    for choice in (*schema.get("anyOf", []), *schema.get("oneOf", []), *schema.get("allOf", [])):
        yield from parts_without_bound(choice, schemas, path, known)
    kind = schema.get("type")
    closed = "properties" in schema and not schema.get("additionalProperties")  # others are not kept
    bounds = {"string": {"maxLength", "enum", "const"}, "array": {"maxItems"}, "object": {"maxProperties"}}
    if kind in bounds and not (bounds[kind] & set(schema) or closed):
        yield path
    for name, inner in schema.get("properties", {}).items():
        yield from parts_without_bound(inner, schemas, f"{path}.{name}", known)
    further = [*schema.get("patternProperties", {}).values(), schema.get("additionalProperties"), schema.get("items")]
    for inner in further:
        if isinstance(inner, dict):
            yield from parts_without_bound(inner, schemas, f"{path}[]", known)


def test_every_text_and_every_list_of_a_request_has_a_bound(described):
    schemas = described["components"]["schemas"]
    known = set()
    unbounded = set()
    for path, methods in described["paths"].items():
        for method, operation in methods.items():
            for content in operation.get("requestBody", {}).get("content", {}).values():
                unbounded |= set(parts_without_bound(content["schema"], schemas, f"{method} {path}", known))
            for parameter in operation.get("parameters", []):
                if parameter["in"] == "query":
                    unbounded |= set(
                        parts_without_bound(parameter["schema"], schemas, f"{path}?{parameter['name']}", known)
                    )
    assert {"JobSubmission", "Bundle", "JobChange", "TicketRequest", "AgentReport"} - known == set()
    assert unbounded == ANY_FORM


def test_no_list_of_jobs_carries_their_cells(described):
    """Nine jobs of ten thousand cells would make a list of a hundred MiB."""
    schemas = described["components"]["schemas"]
    listed = {
        part["items"]["$ref"].rpartition("/")[2]
        for schema in schemas.values()
        for part in schema.get("properties", {}).values()
        if "$ref" in part.get("items", {})
    }
    assert "JobSummary" in listed
    assert [name for name in listed if {"prefix", "targets"} & set(schemas[name].get("properties", {}))] == []


@pytest.mark.asyncio
async def test_it_is_served_to_everybody(serve):
    served = await serve(Raises(AssertionError()))
    response = await served.ask("GET", "api/v1/openapi.json", token=None)
    served_document = json.loads(response.body)
    assert served_document["openapi"] == "3.1.0"
    assert served_document == json.loads(json.dumps(describe_api()))
