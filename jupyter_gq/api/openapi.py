"""The OpenAPI 3.1 document of a table of routes and of the wire models."""

import re
from collections.abc import Sequence

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue, models_json_schema
from pydantic_core.core_schema import DataclassField, ModelField, TypedDictField, WithDefaultSchema

from jupyter_gq import __version__
from jupyter_gq.client import models
from jupyter_gq.domain.json_types import JsonObject

from .access import ADMIN_SCOPE, CHANGE_SCOPE, DELETE_SCOPE, READ_SCOPE, SUBMIT_SCOPE, Access
from .route import PATH_PARTS, QUERY_TEXT, Media, Parameter, Route

_PODS = frozenset({Access.POD, Access.AGENT})

MEANINGS = {
    400: "The body is not JSON.",
    401: "No token, or one that is not valid.",
    403: "The token lacks a scope or is another pod's, or a quota or membership forbids it.",
    404: "There is no such object, or it is not yours.",
    408: "The body was not complete within its time-out.",
    409: "The object is not in a state in which that can be done.",
    413: "The body is larger than the limit.",
    422: "A value is wrong; `field` says which.",
    429: "The user or the queue has as many of these as the settings allow, or too many requests are under way.",
    503: "JupyterHub (or the cluster, for pods) cannot be asked who you are, the database does not answer, another "
    "service leads, or all connections are in use.",
    507: "The disk of the service is full; nothing was kept.",
}
#: The data of events: models that no route has as its request or response.
EVENT_MODELS: tuple[type[BaseModel], ...] = (
    models.ServiceEvent,
    models.JobView,
    models.NotebookView,
    models.OutputNotice,
)


class SchemaOfWire(GenerateJsonSchema):
    """JSON schemas that say which fields of an answer are always there: all but those with a rule for leaving them out.

    A model that is both sent and received has two schemas, `<name>-Input` and `<name>-Output`.
    """

    def field_is_required(self, field: ModelField | DataclassField | TypedDictField, total: bool) -> bool:
        """Return whether an answer always has this field; pydantic decides for requests and for typed dictionaries."""
        if self.mode == "serialization" and field["type"] != "typed-dict-field":
            return field.get("serialization_exclude_if") is None
        return super().field_is_required(field, total)

    def default_schema(self, schema: WithDefaultSchema) -> JsonSchemaValue:
        """Return the schema of a field that has a default; schemas of answers do not show the default."""
        if self.mode == "serialization":
            return self.generate_inner(schema["schema"])
        return super().default_schema(schema)

    def field_title_should_be_set(self, schema: object) -> bool:
        """Return False: pydantic's titles of fields only repeat their names."""
        return False


def build_document(routes: Sequence[Route]) -> JsonObject:
    """Return the OpenAPI 3.1 document of these routes as JSON."""
    paths: dict[str, JsonObject] = {}
    for route in routes:
        paths.setdefault(f"/api/v1/{route.path}", {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "jupyter-gq scheduler service",
            "version": __version__,
            "description": "GPU shares for notebooks and a training queue for cells. Every error is a `Problem`. "
            "GPU amounts are decimal text; times are seconds since the epoch, UTC.",
        },
        "servers": [{"url": ".", "description": "The service's prefix, such as /services/jupyter-gq"}],
        "paths": paths,
        "components": {"schemas": _schemas(routes), "securitySchemes": _security_schemes()},
    }


def refusal_statuses(route: Route) -> list[int]:
    """Return the HTTP statuses of all refusals that this route can answer with, in ascending order."""
    found = {422, *route.refusals}  # 422: every route refuses query parameters that it does not have
    if route.access not in {Access.PUBLIC, Access.OPEN}:
        found |= {401, 429}
    if route.access.scope is not None or route.access in _PODS:
        found |= {403, 503}
    if "{" in route.path:
        found |= {404}
    if route.request is not None:
        found |= {400, 408, 413}
    return sorted(found)


def _operation(route: Route) -> JsonObject:
    """Return the operation object of a route: id, summary, security, parameters, body and responses."""
    operation: JsonObject = {
        "operationId": re.sub(r"\W+", "_", f"{route.method.lower()}_{route.path}").strip("_"),
        "summary": route.summary,
        "tags": [route.path.partition("/")[0].removesuffix(".json")],
        "security": _security(route.access),
        "responses": _responses(route),
    }
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", route.path)]
    parameters += [_parameter(parameter, "query") for parameter in route.query]
    parameters += [_parameter(parameter, "header") for parameter in route.headers]
    if parameters:
        operation["parameters"] = parameters
    if route.request is not None:
        operation["requestBody"] = {"required": True, **_content(route.request)}
    return operation


def _responses(route: Route) -> JsonObject:
    """Return the response objects of a route by status: its successes, and a `Problem` for each refusal."""
    responses: JsonObject = {}
    for status, meaning in sorted(route.statuses.items()):
        responses[str(status)] = {"description": meaning, **_content(route.response)}
    for status in refusal_statuses(route):
        responses[str(status)] = {"description": MEANINGS[status], **_content(models.Problem)}
    return responses


def _content(response: type[BaseModel] | Media | None) -> JsonObject:
    """Return the content object of a body or answer of this model or media type; {} if there is no body."""
    if response is None:
        return {}
    if isinstance(response, Media):
        schema: JsonObject = {"type": "object"} if response is Media.JSON else {"type": "string"}
        return {"content": {response.value: {"schema": schema}}}
    return {"content": {"application/json": {"schema": _ref(response)}}}


def _security(access: Access) -> list[JsonObject]:
    """Return the security requirements of a kind of access: the kind of token, and the scope of a Hub token."""
    if access is Access.PUBLIC:
        return []
    if access is Access.OPEN:
        return [{}, {"hubToken": [READ_SCOPE]}]
    if access is Access.JOB_TOKEN:
        return [{"jobToken": []}]
    if access in _PODS:
        return [{"podToken": []}]
    return [{"hubToken": [access.scope]}]


def _security_schemes() -> JsonObject:
    """Return the descriptions of the three kinds of tokens, by the name that `_security` uses."""
    return {
        "hubToken": {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`token <JupyterHub token>`, with the access scope of this service and one of "
            f"`{READ_SCOPE}` < `{CHANGE_SCOPE}`, `{DELETE_SCOPE}` < `{SUBMIT_SCOPE}` < `{ADMIN_SCOPE}`.",
        },
        "jobToken": {
            "type": "apiKey",
            "in": "header",
            "name": "Authorization",
            "description": "`token <token of the job>`, which only the job's own runner knows.",
        },
        "podToken": {
            "type": "http",
            "scheme": "bearer",
            "description": "A service-account token that Kubernetes projects into a pod of ours, for the audience "
            "`jupyter-gq`. On Kubernetes only.",
        },
    }


def _path_parameter(name: str) -> JsonObject:
    schema: JsonObject = {"type": "string", "pattern": f"^{PATH_PARTS[name]}$"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _parameter(parameter: Parameter, where: str) -> JsonObject:
    """Return the parameter object of a parameter in `where`: "query" or "header"."""
    schema: JsonObject = {"type": parameter.type}
    if parameter.type == "integer":
        schema |= {"minimum": parameter.minimum, "maximum": parameter.maximum}
    else:
        schema |= {"maxLength": parameter.max_length}
        schema |= {"pattern": QUERY_TEXT} if where == "query" else {}
    if parameter.default is not None:
        schema["default"] = parameter.default
    return {"name": parameter.name, "in": where, "description": parameter.help, "schema": schema}


def _ref(model: type[BaseModel]) -> JsonObject:
    return {"$ref": f"#/components/schemas/{model.__name__}"}


def _schemas(routes: Sequence[Route]) -> JsonObject:
    """Return the JSON schemas of all models that the routes send and receive, of events and of `Problem`, by name."""
    requests = {route.request for route in routes if isinstance(route.request, type)}
    answers = {route.response for route in routes if isinstance(route.response, type)}
    answers |= {models.Problem, *EVENT_MODELS}
    wanted = [(model, "validation") for model in requests] + [(model, "serialization") for model in answers]
    wanted.sort(key=lambda entry: entry[0].__name__)
    _, definitions = models_json_schema(
        wanted,  # type: ignore[arg-type]
        ref_template="#/components/schemas/{model}",
        schema_generator=SchemaOfWire,
    )
    schemas: JsonObject = definitions["$defs"]
    return schemas
