"""The pages on the HTTP API, made from the OpenAPI document of the service."""

import importlib
import json
from collections.abc import Iterator
from typing import Any

Json = dict[str, Any]

#: Names of the tokens that are not Hub tokens.
_TOKENS = {"jobToken": "the job's own token", "podToken": "the pod's own token"}


def openapi_document() -> Json:
    """Return the OpenAPI document that the service answers with."""
    document: Json = importlib.import_module("jupyter_gq.api.routes").describe_api()
    return document


def openapi_json() -> str:
    """Return the OpenAPI document as indented JSON."""
    return json.dumps(openapi_document(), indent=1) + "\n"


def routes() -> str:
    """Return the page on all routes, with a table for each kind of object."""
    lines = [
        "# Routes of the service\n\nAll paths are relative to `/services/jupyter-gq/`. Each service answers ",
        "`GET /api/v1/openapi.json` with its OpenAPI document; [the document of this version](openapi.json) can be ",
        "downloaded. The page [Models](models.md) describes the bodies of requests and responses.\n",
    ]
    kinds: dict[str, list[str]] = {"General": []}
    for path, verbs in openapi_document()["paths"].items():
        for verb, operation in verbs.items():
            kinds.setdefault(operation["tags"][0], []).append(_route_row(verb, path, operation))
    for kind in [kind for kind, rows in kinds.items() if len(rows) == 1]:
        kinds["General"] += kinds.pop(kind)
    for kind, rows in kinds.items():
        lines += [f"\n## {kind}\n\n| Route | Scope | Effect | Bodies |\n|---|---|---|---|\n", *rows]
    return "".join([*lines, *_problems()])


def _route_row(verb: str, path: str, operation: Json) -> str:
    scope = ", ".join(_access(needed) for needed in operation["security"]) or "public"
    request = _content(operation.get("requestBody", {}))
    response = _content(next(iter(operation["responses"].values())))
    bodies = "; ".join(f"{name}: {body}" for name, body in (("request", request), ("response", response)) if body)
    return f"| `{verb.upper()} {path}` | {scope} | {operation['summary']} | {bodies} |\n"


def models() -> str:
    """Return the page with the fields of all models."""
    lines = [
        '# Models of the API\n\nGPU amounts are decimal text such as `"0.25"`. Times are seconds since the epoch, ',
        "UTC. A field without a default is required in requests.\n",
    ]
    for name, schema in sorted(openapi_document()["components"]["schemas"].items()):
        lines.append(f"\n## {name}\n\n{_one_line(schema.get('description', ''))}\n")
        if "enum" in schema:
            lines.append(f"\nOne of {_choices(schema)}.\n")
        if schema.get("properties"):
            lines += ["\n| Field | Type | Default | Meaning |\n|---|---|---|---|\n", *_field_rows(schema)]
    return "".join(lines)


def _problems() -> Iterator[str]:
    """Yield the table of refusals, whose bodies are all alike."""
    meanings = {
        status: answer["description"]
        for verbs in openapi_document()["paths"].values()
        for operation in verbs.values()
        for status, answer in operation["responses"].items()
        if int(status) >= 400 and _content(answer) == "[`Problem`](models.md#problem)"
    }
    yield "\n## Refusals\n\nThe body of each refusal is a [`Problem`](models.md#problem).\n"
    yield "\n| Status | Meaning |\n|---|---|\n"
    yield from (f"| {status} | {meaning} |\n" for status, meaning in sorted(meanings.items()))


def _field_rows(schema: Json) -> Iterator[str]:
    required = schema.get("required", ())
    for name, field in schema["properties"].items():
        default = "" if name in required or "default" not in field else f"`{json.dumps(field['default'])}`"
        yield f"| `{name}` | {_type(field)} | {default} | {_one_line(field.get('description', ''))} |\n"


def _type(schema: Json) -> str:
    """Return the type of a schema in a few words, with links to models."""
    if "$ref" in schema:
        return _model_link(schema["$ref"])
    if "anyOf" in schema:
        return " or ".join(_type(choice) for choice in schema["anyOf"])
    if "enum" in schema or "const" in schema:
        return _choices(schema)
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if schema.get("type") == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"map of text to {_type(schema['additionalProperties'])}"
    return {"string": "text", "null": "null", None: "any"}.get(schema.get("type"), str(schema.get("type")))


def _choices(schema: Json) -> str:
    values = schema.get("enum", [schema.get("const")])
    return ", ".join(f"`{json.dumps(value)}`" for value in values)


def _content(answer: Json) -> str:
    """Return the model or media type of a request or response; "" if it has no body."""
    for media, content in answer.get("content", {}).items():
        reference = content["schema"].get("$ref")
        return _model_link(reference) if reference else f"`{media}`"
    return ""


def _model_link(reference: str) -> str:
    name = reference.rpartition("/")[2]
    return f"[`{name}`](models.md#{name.lower()})"


def _access(needed: dict[str, list[str]]) -> str:
    if not needed:
        return "public"
    (scheme, scopes), *_ = needed.items()
    return f"`{scopes[0]}`" if scopes else _TOKENS[scheme]


def _one_line(text: str) -> str:
    """Return a text as one line that can stand in a cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")
