"""Errors and values that an administrator's code made, told as a sentence whatever that code does.

See docs/decisions/0398-guard-every-use-of-values-of-the-file.md.
"""

import copy
import re
from collections.abc import Collection

from traitlets import TraitError
from traitlets.config import Config

from jupyter_gq.domain.errors import AdminError
from jupyter_gq.domain.plain_text import shorten, strip_controls

from .last_good import to_plain
from .sections import can_be_shown
from .traits import SettingsError

#: The name of a trait in our sentences, and in those of traitlets.
_TRAIT = re.compile(r"\bc\.([A-Z]\w*\.\w+)|The '(\w+)' trait of an? (\w+) instance")
#: Most characters of an error's text: sentences of this product with their fix are shorter.
_LONGEST = 1000


def describe_error(error: BaseException) -> str:
    """Return the type of an error and its text as one line without the last full stop, shortened.

    An error that cannot tell its text, or its type, is described without it.
    """
    try:
        text = str.__str__(str(error))
    except BaseException:  # noqa: BLE001 - the code of an administrator's class may raise anything
        text = "it does not tell why"
    try:
        name = str.__str__(type(error).__name__)
    except BaseException:  # noqa: BLE001 - as above
        name = "an error"
    return shorten(strip_controls(": ".join(filter(None, [name, text]))).rstrip("."), _LONGEST)


def describe_refusal(error: Exception) -> str:
    """Return the sentence of an error of a trait as one line, shortened: it may repeat a value of any length."""
    return shorten(strip_controls(str(error)), _LONGEST)


def find_trait(told: str) -> str:
    """Return the trait that the sentence of an error names first, such as "LocalBackend.cpus"; "" if it names none."""
    found = _TRAIT.search(told)
    return "" if found is None else found[1] or f"{found[3]}.{found[2]}"


def as_trait_error(error: BaseException, file: str) -> TraitError:
    """Return an error of a trait that says what `error` says, behind the name of the file, in one line, shortened."""
    if isinstance(error, AdminError | TraitError):
        return TraitError(f"{file}: {describe_refusal(error)}")
    return TraitError(f"{file}: a value cannot be used ({describe_error(error)}).")


def check_values(config: Config, names: Collection[str]) -> None:
    """Raise `SettingsError` for the first value in the sections `names` that cannot be copied and kept as JSON.

    The error names the setting and the keys inside its value. Raises `RecursionError` for a value that contains itself.
    """
    for section in sorted(names):
        if section in config:
            for trait, value in config[section].items():
                _check(f"{section}.{trait}", value, ())


def _check(trait: str, value: object, path: tuple[str, ...]) -> None:
    """Raise `SettingsError` for the innermost value that cannot be used; `path` are the keys of `value`."""
    try:
        to_plain(copy.deepcopy(value))
    except RecursionError:
        raise
    except BaseException as error:  # noqa: BLE001 - the code of an administrator's class may raise anything
        why = describe_error(error)
    else:
        return
    if type(value) is dict:
        for key, inner in value.items():
            if type(key) is str:
                _check(trait, inner, (*path, key))
    problem = f"a value of the type {type(value).__name__} cannot be used ({why})"
    shown = value if can_be_shown(trait.partition(".")[0]) else "…"
    raise SettingsError(trait, shown, problem, "write a number, a text, a list or a dict", path=path)
