"""The settings that differ between two policies, as lines for the audit log."""

import json
from collections.abc import Iterator, Mapping
from typing import Final

from jupyter_gq.domain.json_types import JsonMapping, JsonValue

from .sections import can_be_shown

_MOST_LINES: Final = 200
_LONGEST_VALUE: Final = 200
_NOT_SET: Final = "not set"


def describe_changes(before: JsonMapping, after: JsonMapping) -> list[str]:
    """Return a line such as "c.FixedQuota.default: 0.25 -> 0.5" for each setting that differs between two policies.

    `before` and `after` map sections to their settings, as `LastGood.sections` does. A long list is cut off, and its
    last line says how many lines are missing.
    """
    lines = [
        line
        for section in sorted({*before, *after})
        for line in _describe_section(section, before.get(section, {}), after.get(section, {}))
    ]
    missing = len(lines) - _MOST_LINES
    return lines if missing <= 0 else [*lines[:_MOST_LINES], f"... and {missing} more"]


def _describe_section(section: str, before: JsonMapping, after: JsonMapping) -> Iterator[str]:
    if not can_be_shown(section):
        yield from (f"c.{section}.{name}: changed" for name in _differing(before, after))
        return
    old, new = dict(_flatten(before)), dict(_flatten(after))
    yield from (f"c.{section}.{name}: {_describe_change(old, new, name)}" for name in _differing(old, new))


def _describe_change(old: JsonMapping, new: JsonMapping, name: str) -> str:
    """Return what became of a value: the items that a list gained and lost, or else the value before and after."""
    before, after = old.get(name), new.get(name)
    if not isinstance(before, list) or not isinstance(after, list) or set(map(str, before)) == set(map(str, after)):
        return f"{_format(old, name)} -> {_format(new, name)}"
    gained, lost = [each for each in after if each not in before], [each for each in before if each not in after]
    told = {"added": gained, "removed": lost}
    return _cut("; ".join(f"{verb} {', '.join(map(str, items))}" for verb, items in told.items() if items))


def _differing(before: JsonMapping, after: JsonMapping) -> list[str]:
    """Return the sorted names whose values differ, or that only one of the mappings has."""
    return sorted(
        name for name in {*before, *after} if (name in before, before.get(name)) != (name in after, after.get(name))
    )


def _flatten(values: JsonMapping, prefix: str = "") -> Iterator[tuple[str, JsonValue]]:
    """Yield each value with its dotted name; an empty mapping is a value."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


def _format(values: JsonMapping, name: str) -> str:
    if name not in values:
        return _NOT_SET
    return _cut(json.dumps(values[name], ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[:_LONGEST_VALUE]}..."
