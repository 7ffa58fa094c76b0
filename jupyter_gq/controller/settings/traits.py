"""Trait types of the settings. Each parses its value once, and refuses with the trait, the value and the fix."""

import re
from collections.abc import Mapping
from math import inf
from typing import TYPE_CHECKING, TypeVar

from traitlets import Dict, TraitType
from traitlets.config import Config, Configurable

from jupyter_gq.domain.amount import MilliGpu, parse_request
from jupyter_gq.domain.errors import AdminError, InvalidAmount
from jupyter_gq.domain.json_types import JsonMapping
from jupyter_gq.domain.plain_text import quoted, strip_controls

from .topology import list_levels

if TYPE_CHECKING:
    _GpusByName = Dict[str, MilliGpu]
    _EntriesByName = Dict[str, JsonMapping]
    _TextsByName = Dict[str, str]
else:
    _GpusByName = _EntriesByName = _TextsByName = Dict  # generic only for the type checker


#: The maximum number of characters of a name, as in requests to the API.
LONGEST_NAME = 255
#: The most images, since users choose in a list, and the form of a reference to an image.
_MOST_IMAGES = 100
#: The largest number of seconds, MiB or anything else: far more could not be counted in bytes.
_LARGEST = 1e15
_IMAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,511}")

G = TypeVar("G")
S = TypeVar("S")


class SettingsError(AdminError):
    """A trait of the hub's config file has a value that cannot be used."""

    def __init__(self, trait: str, value: object, problem: str, fix: str, *, path: tuple[str, ...] = ()) -> None:
        keys = "".join(f"[{key!r}]" for key in path)
        end = "" if fix.endswith(("?", ".")) else "."
        super().__init__(f"c.{trait}{keys} = {quoted(value)}: {problem}. {fix[:1].upper()}{fix[1:]}{end}")
        #: `trait` is such as "FixedQuota.groups"; `path` holds the keys inside its dict, for the search of the line.
        self.trait, self.value, self.problem, self.fix, self.path = trait, value, problem, fix, path


def withdraw_config(configurable: Configurable) -> None:
    """Set each trait that the config of a configurable names to its default, and empty the config.

    Only sections of the classes of the configurable count. A value that the code has set for such a trait since is lost
    as well.
    """
    sections = (configurable.config.get(section, {}) for section in configurable.section_names())
    names = {name for section in sections for name in section}
    configurable.config = Config()
    for name in sorted(names.intersection(configurable.trait_names(config=True))):
        setattr(configurable, name, configurable.trait_defaults(name))


def trait_path(obj: object, trait: TraitType[G, S]) -> str:
    """Return the name of a trait as the config file writes it after `c.`, such as "FixedQuota.default"."""
    return f"{type(obj).__name__}.{trait.name}"


class GpuRequest(TraitType[int, object]):
    """A trait for a fraction of one GPU or a whole number of GPUs, as text or number; its value is milli-GPU."""

    info_text = 'a fraction of one GPU such as "0.25", or a whole number of GPUs'

    def validate(self, obj: object, value: object) -> int:
        """Return the value in milli-GPU; raise `SettingsError` for amounts such as 1.5, -1 and 0.0001."""
        return _gpus(trait_path(obj, self), value, ())


class GpuRequestsByName(_GpusByName):
    """A trait for GPU requests by the name of a user or group; its values are milli-GPU."""

    info_text = 'a dict such as {"vision": "0.5"}'

    def validate(self, obj: object, value: object) -> dict[str, MilliGpu]:
        """Return the milli-GPU by name; raise `SettingsError`, with the faulty key, for an invalid name or amount."""
        trait = trait_path(obj, self)
        return {key: _gpus(trait, amount, (key,)) for key, amount in _entries(trait, value, self.info_text).items()}


class DictByName(_EntriesByName):
    """A trait for dicts by name. The contents of the dicts are checked later, once all traits are known."""

    info_text = "a dict whose keys are names and whose values are dicts"

    def validate(self, obj: object, value: object) -> dict[str, JsonMapping]:
        """Return a copy of the dict of dicts; raise `SettingsError` for anything else."""
        trait = trait_path(obj, self)
        entries: dict[str, JsonMapping] = {}
        for key, entry in _entries(trait, value, self.info_text).items():
            if not isinstance(entry, Mapping):
                raise SettingsError(trait, entry, "it is not a dict", "write {...}", path=(key,))
            entries[key] = dict(entry)
        return entries


class ImagesByName(_TextsByName):
    """A trait for references to container images, by the names under which users choose them."""

    info_text = 'a dict such as {"PyTorch 2.9": "registry.example.org/torch:2.9"}'

    def validate(self, obj: object, value: object) -> dict[str, str]:
        """Return the references by name; raise `SettingsError`, with the faulty key, for what is no such dict."""
        trait = trait_path(obj, self)
        entries = _entries(trait, value, self.info_text)
        if len(entries) > _MOST_IMAGES:
            raise SettingsError(trait, value, f"it has {len(entries)} images", f"offer at most {_MOST_IMAGES}")
        images: dict[str, str] = {}
        for name, image in entries.items():
            if name != name.strip():
                raise SettingsError(trait, name, "the name begins or ends with spaces", "write it without them")
            if not isinstance(image, str) or not _IMAGE.fullmatch(image):
                fix = "write a reference such as registry.example.org/torch:2.9"
                raise SettingsError(trait, image, "it is no reference to an image", fix, path=(name,))
            images[name] = image
        return images


class Number(TraitType[float, object]):
    """A trait for a number from `minimum` to `maximum`, and never above 10^15."""

    def __init__(
        self, default: float, *, minimum: float = 0, maximum: float = inf, unit: str = "seconds", help: str = ""
    ) -> None:
        super().__init__(default, help=help)
        self.minimum, self.maximum, self.unit = minimum, maximum, unit
        most = "" if maximum == inf else f" and at most {maximum:g}"
        self.info_text = f"a number of {unit}, at least {minimum:g}{most}"

    def validate(self, obj: object, value: object) -> float:
        """Return the number as a float; raise `SettingsError` for a bool, a text, or a number out of range."""
        fix = f"use {self.info_text}"
        number = as_float(value)
        if number is None:
            raise SettingsError(trait_path(obj, self), value, "it is not a number", fix)
        most = min(self.maximum, _LARGEST)
        if most < number < inf:
            raise SettingsError(trait_path(obj, self), value, f"it is above {most:g}", fix)
        if not self.minimum <= number < inf:
            raise SettingsError(trait_path(obj, self), value, f"it is below {self.minimum:g} or endless", fix)
        return number


def as_float(value: object) -> float | None:
    """Return an int or float as a float, infinite if it is too large for one; None for a bool or another type."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value)
    except OverflowError:
        return inf if value > 0 else -inf


class Flag(TraitType[bool, object]):
    """A trait for True or False, which accepts no other values such as 1 or "yes"."""

    info_text = "True or False"

    def validate(self, obj: object, value: object) -> bool:
        """Return the value if it is True or False; raise `SettingsError` for anything else."""
        if not isinstance(value, bool):
            raise SettingsError(trait_path(obj, self), value, "it is neither True nor False", "use one of them")
        return value


class FlagOrNone(TraitType[bool | None, object]):
    """A trait for True, False, or None, which stands for a default that depends on the machine."""

    info_text = "True, False or None"

    def validate(self, obj: object, value: object) -> bool | None:
        """Return the value if it is True, False or None; raise `SettingsError` for anything else."""
        if value is not None and not isinstance(value, bool):
            problem = "it is neither True nor False nor None"
            raise SettingsError(trait_path(obj, self), value, problem, "use one of them")
        return value


class Word(TraitType[str, object]):
    """A trait for a text."""

    info_text = "text"

    def validate(self, obj: object, value: object) -> str:
        """Return the value unchanged if it is text; raise `SettingsError` otherwise."""
        if not isinstance(value, str):
            raise SettingsError(trait_path(obj, self), value, "it is not text", "write it in quotes")
        return value


class Patterns(TraitType[tuple[str, ...], object]):
    """A trait for a list of names of environment variables, in which `*` stands for any text."""

    info_text = 'a list of names, such as ["HF_TOKEN", "AWS_*"]'

    def validate(self, obj: object, value: object) -> tuple[str, ...]:
        """Return the names as a tuple; raise `SettingsError` for anything else."""
        path = trait_path(obj, self)
        if not isinstance(value, list | tuple):
            raise SettingsError(path, value, "it is not a list", f"write {self.info_text}")
        for name in value:
            if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_*]{1,255}", name):
                raise SettingsError(path, value, f"{name!r} is no name of a variable", f"write {self.info_text}")
        return tuple(value)


class OneOf(TraitType[str, object]):
    """A trait for one of a few words."""

    def __init__(self, choices: tuple[str, ...], default: str, *, help: str = "") -> None:
        super().__init__(default, help=help)
        self.choices = choices
        self.info_text = "one of " + ", ".join(f'"{choice}"' for choice in choices)

    def validate(self, obj: object, value: object) -> str:
        """Return the word; raise `SettingsError` if it is not one of the choices."""
        if value not in self.choices:
            raise SettingsError(trait_path(obj, self), value, "it is not known", f"use {self.info_text}")
        return str(value)


class NodeLabels(TraitType[tuple[str, ...], object]):
    """A list of labels of nodes whose last parts differ, none of which is "node"."""

    info_text = 'a list of labels such as ["topology.kubernetes.io/zone", "example.com/rack"]'

    def validate(self, obj: object, value: object) -> tuple[str, ...]:
        """Return the labels; raise `SettingsError` if they are no such list."""
        trait = trait_path(obj, self)
        if not isinstance(value, list | tuple) or not all(isinstance(label, str) for label in value):
            raise SettingsError(trait, value, "it is not a list of labels", f"write {self.info_text}")
        names = list_levels(value)
        for name in names:
            check_plain(trait, name, ())
        if "" in names or len(set(names)) < len(names):
            problem = f"the last parts of the labels name the levels, here {', '.join(names)}"
            raise SettingsError(trait, value, problem, "use labels with different last parts, none of them 'node'")
        return tuple(value)


def _entries(trait: str, value: object, expected: str) -> dict[str, object]:
    """Return a copy of a dict whose keys are names; raise `SettingsError` for anything else, with what was expected."""
    if not isinstance(value, Mapping):
        raise SettingsError(trait, value, "it is not a dict", f"write {expected}")
    for key in value:
        if not isinstance(key, str) or not key.strip():
            raise SettingsError(trait, key, "a key is not a name", f"write {expected}")
        check_plain(trait, key, ())
    return dict(value)


def check_plain(trait: str, name: str, path: tuple[str, ...]) -> None:
    """Raise `SettingsError` unless a name can be shown: at most 255 characters, none of which steers the display.

    Control characters, bidirectional controls, noncharacters and lone surrogates are refused.
    """
    if strip_controls(name) != name:
        problem = "the name has characters that are not shown, such as control or bidirectional characters"
        raise SettingsError(trait, name, problem, "write the name without them", path=path)
    if len(name) > LONGEST_NAME:
        problem = f"the name has {len(name)} characters"
        raise SettingsError(trait, name, problem, f"use at most {LONGEST_NAME}", path=path)


class _Parsed(int):
    """An amount that is already in milli-GPU.

    Traitlets validates a value again while it loads a config, and 250 milli-GPU must not become 250 GPUs.
    """


def _gpus(trait: str, value: object, path: tuple[str, ...]) -> MilliGpu:
    """Return a GPU request in milli-GPU; raise `SettingsError` if it is invalid."""
    if isinstance(value, _Parsed):
        return MilliGpu(value)
    try:
        return MilliGpu(_Parsed(parse_request(value)))
    except InvalidAmount as error:
        raise SettingsError(trait, value, error.problem, error.fix, path=path) from error
