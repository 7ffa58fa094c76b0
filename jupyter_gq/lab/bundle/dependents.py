"""The cells that need what only the chosen cells make, which a job cannot run first. For Python only.

A cell that has run already is sent once more, and cells that ran since have used what it made. Earlier runs of a chosen
cell are not replayed, so these cells would end the job with a `NameError`, before the chosen cell begins.

Rules
-----
- A dependent cell reads, when it runs, a name that only the chosen cells make, and does not catch the `NameError`.
  Functions that it calls count too.
- A cell that reads a name made by a dependent cell is dependent too, unless an earlier cell that runs made the name.
- After code whose names cannot be seen, such as a `%run` whose script is not found, no cell counts as dependent. `from
  library import *` may have made what the chosen cells import.

See docs/decisions/0226-leave-out-cells-that-need-the-chosen-ones.md.
"""

import ast
import builtins
import re
from collections.abc import Sequence

from jupyter_gq.lab.reading.bindings import Function, find_functions
from jupyter_gq.lab.reading.calls import list_calls
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.magics import read_magic
from jupyter_gq.lab.reading.names import find_made_names, find_makers, find_names_of_body, find_names_read_at_once

#: Names that are there without any cell.
_THERE = frozenset([*dir(builtins), "display", "get_ipython", "In", "Out", "_", "__", "___"])
_MAKING_MAGICS = frozenset({"run", "rerun", "store", "macro"})
_NAME = re.compile(r"[A-Za-z_]\w*")
_MAKING_CALLS = frozenset({"exec", "globals", "locals", "vars", "dir"})


def find_dependents(sources: Sequence[str], targets: Sequence[str]) -> list[list[str]]:
    """Return for each of these cells the names that it needs and only the targets make; none for cells that can run."""
    made = set(find_makers(targets))
    reader = _Reader(made - _THERE, imported=made - set(find_made_names(targets)))
    return [reader.read(source) for source in sources]


class _Reader:
    """The names that only the targets make, so far, and the functions of the cells."""

    def __init__(self, lost: set[str], imported: set[str]) -> None:
        self._lost, self._imported = lost, imported
        self._functions: dict[str, Function] = {}
        #: Names that cells before have made.
        self._made: set[str] = set()

    def read(self, source: str) -> list[str]:
        """Return the names that the next cell lacks, sorted."""
        tree = parse_cell(source) if self._lost else None
        if tree is None:
            return []
        magics = [magic for call in list_calls(tree) if (magic := read_magic(call)) is not None]
        inner = [each for magic in magics if magic.script is None for each in magic.trees]
        calls = [call for each in [tree, *inner] for call in list_calls(each)]
        if any(map(_makes_unseen, calls)):
            self._lost = set()
            return []
        self._functions |= find_functions(tree.body)
        made = set(find_makers([source]))
        magics = [magic for call in calls if (magic := read_magic(call)) is not None]
        # Cells of another language name in their first line what they make: `%%bash --out files`, `%%sql rows <<`.
        made.update(name for each in magics if each.body and each.kind != "python" for name in _NAME.findall(each.line))
        if "*" in made or any(each.name == "pylab" for each in magics):
            self._lost -= self._imported
        through = self._follow(calls).union(*map(find_names_read_at_once, inner)) - made
        lacking = self._lost.intersection(through | find_names_read_at_once(tree)) - self._made
        if lacking:
            self._lost |= made - _THERE
        else:
            self._made |= made
        return sorted(lacking)

    def _follow(self, calls: Sequence[ast.Call]) -> set[str]:
        """Return the names that the functions of cells read which these calls lead to."""
        read: set[str] = set()
        waiting = [call.func.id for call in calls if isinstance(call.func, ast.Name)]
        seen: set[str] = set()
        while waiting:
            name = waiting.pop()
            if name in self._functions and name not in seen:
                seen.add(name)
                found = find_names_of_body(self._functions[name])
                read |= found
                waiting += found
        return read


def _makes_unseen(call: ast.Call) -> bool:
    """Return whether a call may make names that are not seen in the code."""
    magic = read_magic(call)
    if magic is not None:
        return magic.name in _MAKING_MAGICS and not magic.trees
    return isinstance(call.func, ast.Name) and call.func.id in _MAKING_CALLS
