"""Trait types of the settings: each parses its text once and refuses with the trait, the value and the fix."""

from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, TypeVar

from traitlets import Dict, TraitType

from jupyter_gq.domain.amount import MilliGpu, parse_request
from jupyter_gq.domain.errors import AdminError, InvalidAmount
from jupyter_gq.domain.json_types import JsonMapping

if TYPE_CHECKING:
    _GpusByName = Dict[str, MilliGpu]
    _EntriesByName = Dict[str, JsonMapping]
else:
    _GpusByName = _EntriesByName = Dict  # generic only for the type checker


G = TypeVar("G")
S = TypeVar("S")


class SettingsError(AdminError):
    """A trait of the hub's config file has a value that cannot be used."""

    def __init__(self, trait: str, value: object, problem: str, fix: str, *, path: tuple[str, ...] = ()) -> None:
        keys = "".join(f"[{key!r}]" for key in path)
        end = "" if fix.endswith(("?", ".")) else "."
        super().__init__(f"c.{trait}{keys} = {value!r}: {problem}. {fix[:1].upper()}{fix[1:]}{end}")
        #: "FixedQuota.groups"; `path` holds the keys inside a dict, so that its line can be found.
        self.trait, self.value, self.problem, self.fix, self.path = trait, value, problem, fix, path


def trait_path(obj: object, trait: TraitType[G, S]) -> str:
    """How the config file writes it after `c.`: "FixedQuota.default"."""
    return f"{type(obj).__name__}.{trait.name}"


class GpuRequest(TraitType[int, object]):
    """A fraction of one GPU or a whole number of GPUs, as text or number; the value is milli-GPU."""

    info_text = 'a fraction of one GPU such as "0.25", or a whole number of GPUs'

    def validate(self, obj: object, value: object) -> int:
        """Parse; 1.5, negative and finer than 0.001 are refused."""
        return _gpus(trait_path(obj, self), value, ())


class GpuRequestsByName(_GpusByName):
    """GPU requests by the name of a user or group; the values are milli-GPU."""

    info_text = 'a dict such as {"vision": "0.5"}'

    def validate(self, obj: object, value: object) -> dict[str, MilliGpu]:
        """Parse every value; the message names the key."""
        trait = trait_path(obj, self)
        return {key: _gpus(trait, amount, (key,)) for key, amount in _entries(trait, value, self.info_text).items()}


class DictByName(_EntriesByName):
    """Dicts by name; the settings look into them once they are all known."""

    info_text = "a dict whose keys are names and whose values are dicts"

    def validate(self, obj: object, value: object) -> dict[str, JsonMapping]:
        """Check the shape only."""
        trait = trait_path(obj, self)
        entries: dict[str, JsonMapping] = {}
        for key, entry in _entries(trait, value, self.info_text).items():
            if not isinstance(entry, Mapping):
                raise SettingsError(trait, entry, "it is not a dict", "write {...}", path=(key,))
            entries[key] = dict(entry)
        return entries


class Number(TraitType[float, object]):
    """A number that is at least `minimum` and, where that is given, at most `maximum`."""

    def __init__(
        self, default: float, *, minimum: float = 0, maximum: float = inf, unit: str = "seconds", help: str = ""
    ) -> None:
        super().__init__(default, help=help)
        self.minimum, self.maximum, self.unit = minimum, maximum, unit
        most = "" if maximum == inf else f" and at most {maximum:g}"
        self.info_text = f"a number of {unit}, at least {minimum:g}{most}"

    def validate(self, obj: object, value: object) -> float:
        """Accept int and float; a bool or text is not a number."""
        fix = f"use {self.info_text}"
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise SettingsError(trait_path(obj, self), value, "it is not a number", fix)
        if self.maximum < value < inf:
            raise SettingsError(trait_path(obj, self), value, f"it is above {self.maximum:g}", fix)
        if not self.minimum <= value < inf:
            raise SettingsError(trait_path(obj, self), value, f"it is below {self.minimum:g} or endless", fix)
        return float(value)


class Flag(TraitType[bool, object]):
    """True or False, nothing that merely looks like it."""

    info_text = "True or False"

    def validate(self, obj: object, value: object) -> bool:
        """Only a bool."""
        if not isinstance(value, bool):
            raise SettingsError(trait_path(obj, self), value, "it is neither True nor False", "use one of them")
        return value


class Word(TraitType[str, object]):
    """A trait that takes one of a few words."""

    info_text = "text"

    def validate(self, obj: object, value: object) -> str:
        """Only a str."""
        if not isinstance(value, str):
            raise SettingsError(trait_path(obj, self), value, "it is not text", "write it in quotes")
        return value


class OneOf(TraitType[str, object]):
    """A trait that takes one of a few words."""

    def __init__(self, choices: tuple[str, ...], default: str, *, help: str = "") -> None:
        super().__init__(default, help=help)
        self.choices = choices
        self.info_text = "one of " + ", ".join(f'"{choice}"' for choice in choices)

    def validate(self, obj: object, value: object) -> str:
        """Only a known word."""
        if value not in self.choices:
            raise SettingsError(trait_path(obj, self), value, "it is not known", f"use {self.info_text}")
        return str(value)


def _entries(trait: str, value: object, expected: str) -> dict[str, object]:
    if not isinstance(value, Mapping):
        raise SettingsError(trait, value, "it is not a dict", f"write {expected}")
    for key in value:
        if not isinstance(key, str) or not key.strip():
            raise SettingsError(trait, key, "a key is not a name", f"write {expected}")
    return dict(value)


class _Parsed(int):
    """Milli-GPU: traitlets validates a value again while it loads a config, and 250 must not become 250 GPUs."""


def _gpus(trait: str, value: object, path: tuple[str, ...]) -> MilliGpu:
    if isinstance(value, _Parsed):
        return MilliGpu(value)
    try:
        return MilliGpu(_Parsed(parse_request(value)))
    except InvalidAmount as error:
        raise SettingsError(trait, value, error.problem, error.fix, path=path) from error
