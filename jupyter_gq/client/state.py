"""The state document: the whole input of a scheduling cycle at one moment, and its decision, as JSON.

`jupyter-gq snapshot` writes such a document, and `jupyter-gq replay` and `jupyter-gq whatif` read it. Amounts are
integers: thousandths of a GPU and MiB. The document names users and their work, so only admins get it; it holds no code
and no secret. Documents of older releases can be read: an input that they do not name has its default.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, is_dataclass

from pydantic import TypeAdapter, ValidationError

from jupyter_gq.domain import validate
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.cluster import Node
from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue
from jupyter_gq.domain.mentions import reveal
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.policy import Policy

FORMAT = "jupyter-gq-state/1"
#: An error lists at most so many places of the document.
_MOST_LISTED = 5
#: Fields of nodes that older releases wrote under another name, with their present name.
_RENAMED_IN_NODES = {"emptying": "draining"}


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveState:
    """The input of a cycle: `run_cycle(snapshot, policy, at)`, and the settings that it follows from."""

    at: Instant
    policy: Policy
    snapshot: Snapshot
    #: The settings in force: traits by section, as the config file writes them.
    settings: JsonObject = field(default_factory=dict)
    #: The groups of each user who has a server or a job.
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    #: The nodes with all their devices, also those that are in no pool.
    offered_nodes: tuple[Node, ...] = ()


@dataclass(frozen=True, kw_only=True, slots=True)
class StateFile:
    """The contents of a state document."""

    state: LiveState
    #: The decision of that time, in the form of `decision_document`.
    decision: JsonMapping


_STATE = TypeAdapter(LiveState)
_ANYTHING: TypeAdapter[object] = TypeAdapter(JsonValue)


def decision_document(decision: Decision) -> JsonObject:
    """Return a decision as JSON: `instructions`, each with the name of its kind in `do`, and `pending`."""
    return {
        "instructions": [{"do": type(each).__name__, **_revealed(each)} for each in decision.instructions],
        "pending": [_revealed(each) for each in decision.pending],
    }


def state_document(state: LiveState, decision: Decision) -> JsonObject:
    """Return the state document, as JSON, of a scheduling input and of the decision on it."""
    return {"format": FORMAT, **_to_json(state), "decision": decision_document(decision)}


def read_state(text: str | bytes) -> StateFile:
    """Return the contents of a state document, given as JSON text.

    Raises `InvalidSnapshot`, which names the place in the document and what was expected there.
    """
    document = _load_document(text)
    decision = document.pop("decision", {"instructions": [], "pending": []})
    document.pop("format")
    _rename_old_fields(document)
    try:
        state = _STATE.validate_python(document)
    except ValidationError as error:
        raise InvalidSnapshot(_describe_error(error)) from None
    _refuse_unknown(document, state)
    validate.check(state.snapshot)
    if not isinstance(decision, dict) or not all(
        isinstance(decision.get(k), list) for k in ("instructions", "pending")
    ):
        raise InvalidSnapshot('"decision" must hold the lists "instructions" and "pending".')
    return StateFile(state=state, decision=decision)


def _to_json(value: object) -> JsonObject:
    plain: JsonObject = _ANYTHING.dump_python(value, mode="json")
    return plain


def _revealed(value: object) -> JsonObject:
    """Return the JSON of a part of a decision, with all names in its sentences."""
    plain: JsonObject = json.loads(reveal(json.dumps(_to_json(value), ensure_ascii=False)))
    return plain


def _load_document(text: str | bytes) -> JsonObject:
    """Return the parsed document; raise `InvalidSnapshot` if the text is not JSON or not a state document."""
    try:
        document = json.loads(text)
    except RecursionError:
        raise InvalidSnapshot("This is not a state document: it is nested too deeply.") from None
    except UnicodeDecodeError as error:
        raise InvalidSnapshot(f"This is not JSON: {error.reason} at byte {error.start}.") from None
    except json.JSONDecodeError as error:
        raise InvalidSnapshot(f"This is not JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from None
    except ValueError:
        raise InvalidSnapshot("This is not a state document: a number in it has thousands of digits.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidSnapshot(
            f'This is not a state document: an object with "format": "{FORMAT}" was expected. '
            "Write one with `jupyter-gq snapshot`."
        )
    return document


def _describe_error(error: ValidationError) -> str:
    """Return a sentence with the first `_MOST_LISTED` faulty places and their faults, and how many more there are."""
    found = error.errors(include_url=False)
    places = [f"{_write_path(each['loc'])}: {each['msg']}" for each in found[:_MOST_LISTED]]
    more = f" (and {len(found) - _MOST_LISTED} more)" if len(found) > _MOST_LISTED else ""
    return "; ".join(places) + more + "."


def _write_path(path: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _refuse_unknown(document: object, value: object) -> None:
    """Raise `InvalidSnapshot` if the document has fields that `value`, which was read from it, does not have.

    Without this check a misspelt field would silently have its default.
    """
    unknown = [_write_path(path) for path in _find_unknown((), document, value)]
    if unknown:
        raise InvalidSnapshot(f"There is no such field: {', '.join(unknown[:_MOST_LISTED])}.")


def _rename_old_fields(document: JsonObject) -> None:
    """Rename the fields of nodes that older releases wrote under another name, in the document itself."""
    snapshot = _as_object(document.get("snapshot"))
    new_nodes = [_as_object(new).get("like") for new in snapshot.get("new_nodes") or ()]
    for node in map(_as_object, [*(snapshot.get("nodes") or ()), *new_nodes]):
        for old, new in _RENAMED_IN_NODES.items():
            if old in node:
                node.setdefault(new, node.pop(old))


def _as_object(value: JsonValue) -> JsonObject:
    """Return the value if it is a JSON object, and an empty object otherwise."""
    return value if isinstance(value, dict) else {}


def _find_unknown(path: tuple[int | str, ...], document: object, value: object) -> Iterator[tuple[int | str, ...]]:
    """Yield the paths of all fields of the document that `value`, which was read from it, does not have."""
    if is_dataclass(value) and isinstance(document, dict):
        for key, inner in document.items():
            if not hasattr(value, key):
                yield (*path, key)
            else:
                yield from _find_unknown((*path, key), inner, getattr(value, key))
    elif isinstance(value, tuple) and isinstance(document, list):
        for index, (inner, each) in enumerate(zip(document, value, strict=True)):
            yield from _find_unknown((*path, index), inner, each)
