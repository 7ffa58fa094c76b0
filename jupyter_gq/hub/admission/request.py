"""The share that a user requests, read from `user_options`.

Rules
-----
- Untrusted options: the REST API bypasses the form, and old options come from the database.
- No GPU by accident: a request that names no GPUs means CPU only.
- Values: a value is text or a number, or a list of one such value, as forms and query strings give it.
- Nested body: a body in the form of Hub 6, `{"user_options": {...}}`, reaches a Hub 5 nested and is unwrapped.
- Unknown keys are errors: a misspelt `gpu` must not start a server without a GPU.
"""

from collections.abc import Collection
from dataclasses import dataclass

from jupyter_gq.domain.amount import MilliGpu, format_gpus, parse_request
from jupyter_gq.domain.errors import UserError
from jupyter_gq.domain.json_types import JsonObject
from jupyter_gq.domain.plain_text import quoted

#: The key of the share in `user_options`.
GPUS = "gpus"
_WRAPPER = frozenset({"user_options", "display_name"})
#: Most unknown keys that a refusal names.
_MOST_NAMED = 2


class BadOptions(UserError):
    """Invalid `user_options`; the message says what to send instead."""

    code = "bad_options"


@dataclass(frozen=True, kw_only=True, slots=True)
class ShareRequest:
    """The share that one server requests."""

    #: Amount in milli-GPU; 0 means CPU only.
    milli: MilliGpu

    @property
    def gpus(self) -> str:
        """The amount as text, such as "0.25"."""
        return format_gpus(self.milli)

    @property
    def wants_gpu(self) -> bool:
        """Whether the request is for a share of a device."""
        return self.milli > 0


def unwrap_options(user_options: object) -> JsonObject:
    """Return the options as an object, {} for None.

    A body as a client of Hub 6 sends it, `{"user_options": {...}}`, is replaced by what it holds. Raises `BadOptions`
    if the options are no JSON object.
    """
    if user_options is None:
        return {}
    if not isinstance(user_options, dict):
        raise BadOptions(f'The options of a server must be a JSON object such as {{"{GPUS}": "0.25"}}.')
    if "user_options" in user_options and user_options.keys() <= _WRAPPER:
        return unwrap_options(user_options["user_options"])
    return user_options


def read_request(user_options: object, *, also_known: Collection[str] | None = ()) -> ShareRequest:
    """Return the share that the options request.

    `also_known` are keys that other code handles; None means that other code handles all other keys. Raises
    `BadOptions` for unknown keys and wrong types, and `InvalidAmount` for a malformed amount of GPUs.
    """
    options = unwrap_options(user_options)
    if also_known is not None:
        unknown = sorted(str(key) for key in options.keys() - {GPUS} - set(also_known))
        if unknown:
            known = ", ".join(sorted({GPUS, *also_known}))
            more = f" and {len(unknown) - _MOST_NAMED} more" if len(unknown) > _MOST_NAMED else ""
            names = ", ".join(map(quoted, unknown[:_MOST_NAMED]))
            raise BadOptions(f"Unknown option {names}{more}; known here: {known}.")
    return ShareRequest(milli=parse_request(_single(options.get(GPUS, "0"))))


def _single(value: object) -> str | int | float:
    """Return a text or number, or the only one in a list; raise `BadOptions` for any other value."""
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise BadOptions(f'The option {GPUS} must be one number such as "0.25" or 1, or "0" for CPU only.')
    return value
