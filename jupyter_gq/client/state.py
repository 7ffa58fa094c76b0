"""The scheduler's whole input at one moment, and what it decided, as a JSON document.

`jupyter-gq snapshot` writes it; `jupyter-gq replay` and `jupyter-gq whatif` read it. Amounts are integers: thousandths
of a GPU and MiB. It names users and their work, so only admins get it; it holds no code and no secret.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass

from pydantic import TypeAdapter, ValidationError

from jupyter_gq.domain import validate
from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.errors import InvalidSnapshot
from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.scheduling.decision import Decision
from jupyter_gq.scheduling.policy import Policy

FORMAT = "jupyter-gq-state/1"
#: An error names at most so many places.
_NAMED = 5


@dataclass(frozen=True, kw_only=True, slots=True)
class LiveState:
    """The input of a cycle."""

    at: Instant
    policy: Policy
    snapshot: Snapshot


@dataclass(frozen=True, kw_only=True, slots=True)
class StateFile:
    """A state, and what was decided then."""

    state: LiveState
    #: See `decision_document`.
    decision: JsonMapping


_STATE = TypeAdapter(LiveState)
_ANYTHING: TypeAdapter[object] = TypeAdapter(JsonValue)


def decision_document(decision: Decision) -> JsonObject:
    """A decision as JSON: `instructions` with their kind in `do`, and `pending`."""
    return {
        "instructions": [{"do": type(each).__name__, **_plain(each)} for each in decision.instructions],
        "pending": [_plain(each) for each in decision.pending],
    }


def state_document(state: LiveState, decision: Decision) -> JsonObject:
    """The whole document."""
    return {"format": FORMAT, **_plain(state), "decision": decision_document(decision)}


def read_state(text: str | bytes) -> StateFile:
    """Read a document; raise `InvalidSnapshot` that names the place and what was expected there."""
    document = _json(text)
    decision = document.pop("decision", {"instructions": [], "pending": []})
    document.pop("format")
    try:
        state = _STATE.validate_python(document)
    except ValidationError as error:
        raise InvalidSnapshot(_sentence(error)) from None
    _refuse_unknown(document, state)
    validate.check(state.snapshot)
    if not isinstance(decision, dict) or not all(
        isinstance(decision.get(k), list) for k in ("instructions", "pending")
    ):
        raise InvalidSnapshot('"decision" must hold the lists "instructions" and "pending".')
    return StateFile(state=state, decision=decision)


def _plain(value: object) -> JsonObject:
    plain: JsonObject = _ANYTHING.dump_python(value, mode="json")
    return plain


def _json(text: str | bytes) -> JsonObject:
    try:
        document = json.loads(text)
    except UnicodeDecodeError as error:
        raise InvalidSnapshot(f"This is no JSON: {error.reason} at byte {error.start}.") from None
    except json.JSONDecodeError as error:
        raise InvalidSnapshot(f"This is no JSON: {error.msg} in line {error.lineno}, column {error.colno}.") from None
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise InvalidSnapshot(
            f'This is no state of a scheduler: an object with "format": "{FORMAT}" was expected. '
            "Write one with `jupyter-gq snapshot`."
        )
    return document


def _sentence(error: ValidationError) -> str:
    found = error.errors(include_url=False)
    places = [f"{_place(each['loc'])}: {each['msg']}" for each in found[:_NAMED]]
    more = f" (and {len(found) - _NAMED} more)" if len(found) > _NAMED else ""
    return "; ".join(places) + more + "."


def _place(path: tuple[int | str, ...]) -> str:
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def _refuse_unknown(document: object, value: object) -> None:
    """A misspelt word would otherwise be a default in silence."""
    unknown = [_place(path) for path in _unknown((), document, value)]
    if unknown:
        raise InvalidSnapshot(f"There is no such word: {', '.join(unknown[:_NAMED])}.")


def _unknown(path: tuple[int | str, ...], document: object, value: object) -> Iterator[tuple[int | str, ...]]:
    if is_dataclass(value) and isinstance(document, dict):
        for key, inner in document.items():
            if not hasattr(value, key):
                yield (*path, key)
            else:
                yield from _unknown((*path, key), inner, getattr(value, key))
    elif isinstance(value, tuple) and isinstance(document, list):
        for index, (inner, each) in enumerate(zip(document, value, strict=True)):
            yield from _unknown((*path, index), inner, each)
