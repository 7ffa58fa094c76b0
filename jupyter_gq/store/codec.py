"""Workloads as JSON documents and back.

Rules
-----
1. Every field of the domain's dataclasses is written under its own name; enumerations by their value.
2. A field that the document lacks takes the default of the dataclass, so a record of an older release can be read.
3. A key that the dataclass lacks is ignored, so a record survives going back one release.
"""

import json
import types
from collections.abc import Callable
from dataclasses import MISSING, fields, is_dataclass
from enum import StrEnum
from functools import cache, lru_cache
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from jupyter_gq.domain.workload import Workload

_Decoder = Callable[[Any], Any]


def encode_workload(workload: Workload) -> str:
    """The JSON document of a workload."""
    return encode_json(_plain(workload))


@lru_cache(maxsize=2048)
def decode_workload(document: str) -> Workload:
    """The workload of a document. Workloads are immutable, so equal documents may share one."""
    return cast(Workload, _decoder_of(Workload)(json.loads(document)))


def encode_json(value: Any) -> str:
    """Compact JSON in ASCII: lone surrogates and NUL characters of a user's output survive any database."""
    return json.dumps(value, separators=(",", ":"))


def decode_json(document: str) -> Any:
    """The value of a JSON document."""
    return json.loads(document)


def _plain(value: Any) -> Any:
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple):
        return [_plain(item) for item in value]
    return value


@cache
def _decoder_of(kind: Any) -> _Decoder:
    if isinstance(kind, type) and is_dataclass(kind):
        return _dataclass_decoder(kind)
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        return kind
    if get_origin(kind) is tuple:
        return _tuple_decoder(get_args(kind)[0])
    if get_origin(kind) in (Union, types.UnionType):
        return _optional_decoder(kind)
    return _same


def _dataclass_decoder(kind: type) -> _Decoder:
    hints = get_type_hints(kind)
    decoders = {field.name: _decoder_of(hints[field.name]) for field in fields(kind)}
    required = {f.name for f in fields(kind) if f.default is MISSING and f.default_factory is MISSING}

    def decode(document: dict[str, Any]) -> Any:
        missing = required - document.keys()
        if missing:
            raise ValueError(f"a stored {kind.__name__} lacks {', '.join(sorted(missing))}")
        return kind(**{name: decoders[name](value) for name, value in document.items() if name in decoders})

    return decode


def _tuple_decoder(item: Any) -> _Decoder:
    decoder = _decoder_of(item)
    return lambda values: tuple(decoder(value) for value in values)


def _optional_decoder(kind: Any) -> _Decoder:
    inner = [part for part in get_args(kind) if part is not type(None)]
    decoder = _decoder_of(inner[0]) if len(inner) == 1 else _same
    return lambda value: None if value is None else decoder(value)


def _same(value: Any) -> Any:
    return value
