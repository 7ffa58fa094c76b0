"""How a cell ended, if it raised no error of its own: by `exit(...)`, or with a failing `!command`. Pure.

A kernel answers `ok` in both cases. `exit(1)` leaves a trace in the payload of the reply: IPython puts the argument
into `keepkernel`. A failing command leaves its status in the variable `_exit_code`.
"""

import re
from dataclasses import dataclass

from jupyter_gq.domain.json_types import JsonMapping

#: The expression that tells the exit status of the last command in the kernel.
EXIT_STATUS_EXPRESSION = "_exit_code"
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
    """Return the end of a job by `exit(argument)`, as Python reads the argument: None, 0 and False mean success."""
    text = str(argument)
    return Exit("" if text in _SUCCESS else "1" if text == "True" else text)


def read_exit(content: JsonMapping) -> Exit | None:
    """Return how the code of an execution ended the job, from the content of the kernel's reply; None if it did not."""
    if content.get("status") == "error":
        return make_exit(content.get("evalue", "")) if content.get("ename") == "SystemExit" else None
    for payload in content.get("payload") or []:
        if isinstance(payload, dict) and payload.get("source") == "ask_exit":
            return make_exit(payload.get("keepkernel"))
    return None


def find_last_command(source: str) -> str | None:
    """Return the shell command in the last line of a cell, without its `!`; None if the cell ends with other code."""
    lines = source.replace("\\\n", " ").splitlines()
    ended = next((line for line in reversed(lines) if line.strip() and not line.lstrip().startswith("#")), "")
    return ended.lstrip("!").strip() if ended.startswith("!") else None


def read_exit_status(content: JsonMapping, name: str) -> int:
    """Return the exit status that the user expression `name` has in a reply; 0 if the kernel does not know it."""
    found = (content.get("user_expressions") or {}).get(name) or {}
    text = str((found.get("data") or {}).get("text/plain", ""))
    return int(text) if re.fullmatch("-?[0-9]{1,9}", text) else 0
