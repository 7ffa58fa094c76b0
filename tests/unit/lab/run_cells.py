"""A program that runs each cell from its standard input in IPython, and prints which variables each has changed.

The input is a list of cells as JSON. The first one runs before each of the others.
"""

import json
import random
import sys
import types
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO

from IPython.core.interactiveshell import InteractiveShell

#: Names that Python and IPython set, and that nobody wants back.
_OF_KERNEL = {"_", "_exit_code", "__annotations__"}


def _show(value):
    """Return a text that tells whether the value of a variable has changed."""
    if isinstance(value, types.FunctionType | type):
        return str(id(value))
    return repr(value)


def _run(shell, setup, cell):
    """Return the names that a cell has made, changed and deleted; raise an error if it fails."""
    shell.reset()
    shell.run_cell(setup, silent=True).raise_error()
    before = {name: _show(value) for name, value in shell.user_ns.items()}
    random.seed(0)  # a shuffle that leaves a short list as it was would show no change
    shell.run_cell(cell, silent=True).raise_error()
    after = {name: _show(value) for name, value in shell.user_ns.items()}
    names = {*before, *after} - _OF_KERNEL
    known = {name for name in names if not isinstance(shell.user_ns.get(name), types.ModuleType)}
    return sorted(name for name in known if before.get(name) != after.get(name))


def main():
    """Print a list of lists of names as JSON."""
    setup, *cells = json.load(sys.stdin)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        shell = InteractiveShell.instance()
        found = [_run(shell, setup, cell) for cell in cells]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
