"""The input of the commands of cells in a job: it is at its end, since nobody can answer there.

IPython runs `!command` and `%pip` in a terminal of their own. A command that asks, such as `!unzip` for a file that is
there already, would wait for an answer and keep the GPUs of the job for as long.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

#: Modules whose function `system` runs the commands; which of them does so depends on the version of ipykernel.
_MODULES = ("IPython.utils.process", "ipykernel.zmqshell")


def close_input_of_commands() -> None:
    """Let each command that the cells of this kernel run read the end of its input; do nothing on Windows."""
    if sys.platform == "win32":
        return
    for name in _MODULES:
        names = vars(sys.modules[name]) if name in sys.modules else {}
        if callable(names.get("system")):
            names["system"] = _without_input(names["system"])


def _without_input(system: Callable[[str], int]) -> Callable[[str], int]:
    """Return a function that runs a command of the shell as `system` does, with no input."""

    def run(command: str) -> int:
        return system(f"exec </dev/null; {command}")

    return run
