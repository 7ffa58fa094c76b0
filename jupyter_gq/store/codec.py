"""Workloads and their details as JSON documents and back.

Rules
-----
Field names: every field of the domain's dataclasses is written under its own name, except those that `_STORED_NAMES`
    lists; enumerations are written by their value.
Older rows: a field that the document lacks takes the default of the dataclass, so a record of an older release can be
    read.
Newer rows: an unknown key of a workload, or of a part of a detail, is ignored. An unknown key of a detail itself is
    kept and written back. So a record survives going back one release.
Sparse details: a field of a detail that has its default is not written.

See docs/decisions/0065-type-what-a-record-remembers.md.
"""

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Final, Union, cast, get_args, get_origin, get_type_hints

from jupyter_gq.domain.json_types import JsonMapping, JsonObject, JsonValue
from jupyter_gq.domain.workload import Workload
from jupyter_gq.domain.workload_detail import Eviction, WorkloadDetail

#: A function from plain JSON to a value of the domain.
_Decoder = Callable[[JsonValue], JsonValue]

#: The stored names of those fields of `WorkloadDetail` that are stored under another name.
_STORED_NAMES: Final = {
    "place": "where",
    "backoff": "refused",
    "tasks_with_bundle": "taken",
    "consecutive_losses": "lost",
    "owner_groups": "groups",
    "given_back": "closed",
    "named_devices": "named",
}
_UNKNOWN: Final = "unknown"
#: What JSON may hold for each type of a field.
_SCALARS: Final[Mapping[object, type | types.UnionType]] = {str: str, bool: bool, int: int, float: int | float}


def encode_workload(workload: Workload) -> str:
    """Return the JSON document of a workload."""
    return encode_json(_plain(workload))


@lru_cache(maxsize=2048)
def decode_workload(document: str) -> Workload:
    """Return the workload that a JSON document holds; raise `ValueError` or `TypeError` if a field is missing or wrong.

    Workloads are immutable, so equal documents may share one.
    """
    return cast(Workload, _decoder_of(Workload)(json.loads(document)))


def encode_detail(detail: WorkloadDetail) -> str:
    """Return a detail as a JSON document of the fields that differ from their defaults.

    Unknown keys that the detail was read with are written back.
    """
    document = dict(detail.unknown)
    for name, stored_name, default in _detail_fields():
        value = getattr(detail, name)
        if value != default:
            document[stored_name] = _plain(value)
    return encode_json(document)


def decode_detail(document: str) -> WorkloadDetail:
    """Return the detail that a JSON document holds; keys unknown to this release go into its field `unknown`.

    Raises `ValueError` or `TypeError` if a value has a wrong type or lacks a field.
    """
    values: JsonObject = json.loads(document)
    decoders = _detail_decoders()
    known = {decoders[key][0]: decoders[key][1](value) for key, value in values.items() if key in decoders}
    unknown = {key: value for key, value in values.items() if key not in decoders}
    return WorkloadDetail(**known, unknown=unknown)


def encode_eviction(eviction: Eviction) -> JsonObject:
    """Return an eviction as a JSON object."""
    return cast(JsonObject, _plain(eviction))


def decode_eviction(document: JsonMapping) -> Eviction:
    """Return the eviction in a JSON object that `encode_eviction` made; raise `ValueError` if a field is missing."""
    return cast(Eviction, _decoder_of(Eviction)(document))


def encode_json(value: object) -> str:
    """Return a value as compact JSON in ASCII.

    ASCII, because databases refuse lone surrogates and NUL characters, which outputs of users may contain.
    """
    return json.dumps(value, separators=(",", ":"))


def decode_json(document: str) -> JsonValue:
    """Return the value of a JSON document."""
    return json.loads(document)


@cache
def _detail_fields() -> tuple[tuple[str, str, object], ...]:
    """Return name, stored name and default value of each field of `WorkloadDetail` except `unknown`."""
    empty = WorkloadDetail()
    names = [each.name for each in fields(WorkloadDetail) if each.name != _UNKNOWN]
    return tuple((name, _STORED_NAMES.get(name, name), getattr(empty, name)) for name in names)


@cache
def _detail_decoders() -> Mapping[str, tuple[str, _Decoder]]:
    """Return the name and the decoder of each field of a detail, by its stored name."""
    hints = get_type_hints(WorkloadDetail)
    return {stored_name: (name, _decoder_of(hints[name])) for name, stored_name, _ in _detail_fields()}


def _plain(value: object) -> JsonValue:
    """Return a value of the domain as JSON data.

    Dataclasses and mappings become dicts, tuples become lists, and sets sorted lists.
    """
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return value


@cache
def _decoder_of(kind: object) -> _Decoder:
    """Return the function that turns JSON data into a value of the annotated type `kind`."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass_decoder(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind
    origin = get_origin(kind)
    if origin is tuple:
        return _tuple_decoder(get_args(kind)[0])
    if origin is frozenset:
        return frozenset
    if origin is Mapping:
        return _mapping_decoder(*get_args(kind))
    if origin in (Union, types.UnionType):
        return _optional_decoder(kind)
    return _scalar_decoder(getattr(kind, "__supertype__", kind))


def _dataclass_decoder(kind: type) -> _Decoder:
    """Return a decoder of JSON objects that raises `ValueError` if a field without a default is missing."""
    hints = get_type_hints(kind)
    decoders = {field.name: _decoder_of(hints[field.name]) for field in fields(kind)}
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def decode(document: JsonMapping) -> object:
        missing = required - document.keys()
        if missing:
            raise ValueError(f"a stored {kind.__name__} lacks {', '.join(sorted(missing))}")
        return kind(**{name: decoders[name](value) for name, value in document.items() if name in decoders})

    return decode


def _tuple_decoder(item: object) -> _Decoder:
    decoder = _decoder_of(item)
    return lambda values: tuple(decoder(value) for value in values)


def _mapping_decoder(key_kind: Callable[[str], object], value_kind: object) -> _Decoder:
    """Return a decoder of JSON objects: it converts keys, which are always text in JSON, by calling `key_kind`."""
    decoder = _decoder_of(value_kind)
    return lambda values: {key_kind(key): decoder(value) for key, value in values.items()}


def _optional_decoder(kind: object) -> _Decoder:
    """Return a decoder for a union: None stays None, and a value of a single other type is decoded.

    A union of several other types is not decoded: its values stay as they are.
    """
    inner = [part for part in get_args(kind) if part is not type(None)]
    decoder = _decoder_of(inner[0]) if len(inner) == 1 else _unchanged
    return lambda value: None if value is None else decoder(value)


def _scalar_decoder(kind: object) -> _Decoder:
    """Return a decoder that passes a value of the type `kind` on, and raises `TypeError` for any other value.

    Without this check, such a value would fail later, in the middle of a step. A type that JSON does not have is not
    checked.
    """
    if kind not in _SCALARS:
        return _unchanged
    accepted = _SCALARS[kind]

    def decode(value: JsonValue) -> JsonValue:
        if not isinstance(value, accepted) or (isinstance(value, bool) and kind is not bool):
            raise TypeError(f"{value!r} was stored where a value of type {accepted} was expected")
        return value

    return decode


def _unchanged(value: JsonValue) -> JsonValue:
    return value
