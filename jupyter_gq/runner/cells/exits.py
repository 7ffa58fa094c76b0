"""How a cell ended, if it raised no error of its own: by `exit(...)`, or with a failing command or magic. Pure.

A kernel answers `ok` in all these cases. `exit(1)` leaves a trace in the payload of the reply: IPython puts the
argument into `keepkernel`. A failing command leaves its status in the variable `_exit_code`. Magics that run code by
themselves, such as `%run` and `%%capture`, show the error of that code and go on.
"""

import re
from dataclasses import dataclass

from jupyter_gq.domain.json_types import JsonMapping

#: The expression that tells the exit status of the last command in the kernel.
EXIT_STATUS_EXPRESSION = "_exit_code"
#: Magics that run a command and leave its status as `!` does.
_COMMAND_MAGICS = "pip|conda|mamba|micromamba|uv"
#: One of those magics without its `%`, such as `pip install a`, but no Python such as `uv in a`.
_AUTOMAGIC = rf"(?:{_COMMAND_MAGICS})\s+(?!(?:and|if|in|is|not|or)\b)\w.*"
#: A command in the last line of a cell: after `!`, also if timed, or as one of those magics. `!!` leaves no status.
_COMMAND = re.compile(
    rf"(?:%time\s+)?(?:!(?!!)\s*(?P<shell>.*)|(?P<magic>%(?:{_COMMAND_MAGICS})\b.*))|(?P<automagic>{_AUTOMAGIC})"
)
#: A line that runs code by a magic, also by `run` without its `%`. `%tb` only shows an earlier error once more.
_RUNS_CODE = re.compile(r"%(?!tb\b)|run\s+[\w./~\"'-]")
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
        return read_error_exit(content)
    for payload in content.get("payload") or []:
        if isinstance(payload, dict) and payload.get("source") == "ask_exit":
            return make_exit(payload.get("keepkernel"))
    return None


def read_error_exit(content: JsonMapping) -> Exit | None:
    """Return the end of a job from the content of an error; None for an error other than `SystemExit`."""
    return make_exit(content.get("evalue", "")) if content.get("ename") == "SystemExit" else None


def find_last_command(source: str) -> str | None:
    """Return the command in the last line of a cell, such as "!ls"; None if the cell ends with other code."""
    found = _COMMAND.fullmatch(_find_last_line(source))
    if found is None:
        return None
    return (found["magic"] or found["automagic"] or f"!{found['shell']}").strip()


def ends_with_magic(source: str) -> bool:
    """Return whether a cell is one cell magic, or ends with a line magic other than `%tb` or with `run file`."""
    return source.lstrip().startswith("%%") or _RUNS_CODE.match(_find_last_line(source)) is not None


def _find_last_line(source: str) -> str:
    """Return the last line of a cell that is neither empty nor a comment, with its continuations; "" if none is."""
    lines = source.replace("\\\n", " ").splitlines()
    return next((line for line in reversed(lines) if line.strip() and not line.lstrip().startswith("#")), "")


def read_exit_status(content: JsonMapping, name: str) -> int:
    """Return the exit status that the user expression `name` has in a reply; 0 if the kernel does not know it."""
    found = (content.get("user_expressions") or {}).get(name) or {}
    text = str((found.get("data") or {}).get("text/plain", ""))
    return int(text) if re.fullmatch("-?[0-9]{1,9}", text) else 0
