"""What a user asks the spawner for, read from `user_options` however they came.

Rules
-----
1. `user_options` are not trusted: the REST API bypasses the form, and old ones are taken from the database.
2. Nothing asked for means CPU only: nobody gets a GPU by accident.
3. A value is text or a number, or a list of one (what forms and query strings give).
4. A body in the form of Hub 6, `{"user_options": {...}}`, reaches a Hub 5 nested: it is unwrapped.
5. An unknown key is an error, not something to ignore: a misspelt `gpu` must not start a server without one.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from jupyter_gq.domain.amount import MilliGpu, format_gpus, parse_request
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonObject

#: The key of `user_options` that is ours.
GPUS = "gpus"
_WRAPPER = frozenset({"user_options", "display_name"})


class BadOptions(UserError):
    """`user_options` that cannot be understood; the message says what to send instead."""

    code = "bad_options"


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareRequest:
    """What one server asks for."""

    #: 0 means CPU only.
    milli: MilliGpu

    @property
    def gpus(self) -> str:
        """The amount as text, such as "0.25"."""
        return format_gpus(self.milli)

    @property
    def wants_gpu(self) -> bool:
        """It asks for a share of a device."""
        return self.milli > 0


def unwrap(user_options: Any) -> JsonObject:
    """The options themselves; raise `BadOptions` when they are not a JSON object."""
    if user_options is None:
        return {}
    if not isinstance(user_options, dict):
        raise BadOptions(f'The options of a server must be a JSON object such as {{"{GPUS}": "0.25"}}.')
    if "user_options" in user_options and user_options.keys() <= _WRAPPER:
        return unwrap(user_options["user_options"])
    return user_options


def read_request(user_options: Any, *, also_known: Collection[str] | None = ()) -> ShareRequest:
    """Read and check the options.

    `also_known` are keys that somebody else handles; None means that every other key is somebody else's.
    Raises `BadOptions` for unknown keys and wrong types, `InvalidAmount` for an amount of GPUs that is none.
    """
    options = unwrap(user_options)
    if also_known is not None:
        unknown = sorted(str(key) for key in options.keys() - {GPUS} - set(also_known))
        if unknown:
            known = ", ".join(sorted({GPUS, *also_known}))
            raise BadOptions(f"Unknown option {', '.join(map(repr, unknown))}; known here: {known}.")
    return ShareRequest(milli=parse_request(_single(options.get(GPUS, "0"))))


def _single(value: Any) -> str | int | float:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadOptions(f'The option {GPUS} must be one number such as "0.25" or 1, or "0" for CPU only.')
    return value
