"""How a cell ended, if it raised no error of its own: by `exit(...)`, or with a failing command or magic. Pure.

A kernel answers `ok` in all these cases. `exit(1)` leaves a trace in the payload of the reply: IPython puts the
argument into `keepkernel`. A failing command leaves its status in the variable `_exit_code`. Magics that run code by
themselves, such as `%run` and `%%capture`, show the error of that code and go on. So a watch in the kernel tells what
the last thing was that ran.
"""

import ast
import json
import re
from dataclasses import dataclass
from typing import Literal

from jupyter_gq.domain.json_types import JsonMapping

#: Values of `exit(...)` and `SystemExit` that mean success.
_SUCCESS = frozenset({"", "0", "None", "False"})


@dataclass(frozen=True, slots=True)
class Exit:
    """The end of a job by its own code."""

    #: The argument of `exit(...)` as text; empty for success.
    argument: str = ""

    @property
    def is_success(self) -> bool:
        """Whether the code said that all went well."""
        return self.argument == ""


def make_exit(argument: object) -> Exit:
    """Return the end of a job by `exit(argument)`.

    None, 0, False and the same as texts mean success, as does an empty text: a reply of the kernel has only texts.
    """
    text = str(argument)
    return Exit("" if text in _SUCCESS else "1" if text == "True" else text)


def read_exit(content: JsonMapping) -> Exit | None:
    """Return how the code of an execution ended the job, from the content of the kernel's reply; None if it did not."""
    if content.get("status") == "error":
        return read_error_exit(content)
    for payload in content.get("payload") or []:
        if isinstance(payload, dict) and payload.get("source") == "ask_exit":
            return make_exit(payload.get("keepkernel"))
    return None


def read_error_exit(content: JsonMapping) -> Exit | None:
    """Return the end of a job from the content of an error; None for an error other than `SystemExit`."""
    return make_exit(content.get("evalue", "")) if content.get("ename") == "SystemExit" else None


@dataclass(frozen=True, slots=True)
class LastThing:
    """The last thing that ran in a cell: a command, a magic, or, with an empty kind, any other code."""

    kind: Literal["command", "magic", ""] = ""
    #: The command or magic, such as "!ls" or "%run part.py".
    text: str = ""
    #: Exit status of the command.
    status: int = 0
    #: Whether a magic has shown an error of the code that it ran.
    has_shown_error: bool = False


def read_last_thing(content: JsonMapping, name: str) -> LastThing:
    """Return what the user expression `name` tells in a reply; any other code if the kernel cannot tell it."""
    found = (content.get("user_expressions") or {}).get(name) or {}
    text = str((found.get("data") or {}).get("text/plain", ""))
    try:
        told = json.loads(ast.literal_eval(text))
        kind, shown, status, failed = told["kind"], str(told["text"]), str(told["status"]), told["has_shown_error"]
    except (ValueError, SyntaxError, TypeError, KeyError):
        return LastThing()
    if kind not in ("command", "magic"):
        return LastThing()
    number = int(status) if re.fullmatch("-?[0-9]{1,9}", status) else 0
    return LastThing(kind=kind, text=shown, status=number, has_shown_error=bool(failed))
