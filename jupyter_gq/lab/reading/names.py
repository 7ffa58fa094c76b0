"""The variables that cells make and need, by the syntax trees of their sources. For Python only.

Rules
-----
- Made: what a cell assigns or defines at its top level, or as `global` in a function, and does not delete on all paths.
  Modules are not brought back, nor are names that Python and IPython set, such as `__name__`, `_` and `_12`.
- Needed: what a later cell reads before that cell, or a cell between, has certainly assigned the name. What the body of
  a function reads counts where the function is defined.
- Optional: names in annotations, which newer versions of Python may never read, and names after `$` in commands; names
  in the texts of `eval("x + 1")` and `df.query("a > @x")`.
- A source that is no Python, such as one with a cell magic of another language, makes and needs nothing.

See `name_uses` for how the code is followed.
"""

import ast
import re
from collections.abc import Iterable, Sequence

from .bindings import Function
from .cells import parse_cell
from .name_uses import Uses, UsesAtOnce

#: Names that Python sets in a module, and IPython for what has run.
_OF_KERNEL = re.compile(r"__\w*__|In|Out|_{1,3}|_i{1,3}|_[iod]h|_i?[0-9]+|_exit_code")


def find_made_names(sources: Iterable[str]) -> list[str]:
    """Return the names that these cells make, in the order in which they are first assigned.

    Imported names are left out, and those that Python and IPython set.
    """
    uses = _read(sources)
    imported = uses.find_imported()
    return [name for name in uses.list_made() if name not in imported and not _OF_KERNEL.fullmatch(name)]


def find_deleted_names(sources: Iterable[str]) -> set[str]:
    """Return the names that these cells have deleted at their end, on all paths."""
    return _read(sources).find_deleted()


def find_made_by(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names that these statements make or import."""
    uses = Uses()
    for statement in body:
        uses.visit(statement)
    return set(uses.list_made())


def find_needed_names(made: Sequence[str], later: Iterable[str]) -> list[str]:
    """Return those of the `made` names that the later cells need, in the same order."""
    uses = _read(later)
    return [name for name in made if name in uses.needed or name in uses.optional]


def find_free_names(sources: Iterable[str]) -> list[str]:
    """Return the names that these cells may read before they assign them, sorted; names of builtins are among them."""
    uses = _read(sources)
    return sorted(uses.needed | uses.optional)


def find_names_read_at_once(tree: ast.Module) -> set[str]:
    """Return the names without which a cell fails when it runs: not those that only the bodies of functions read."""
    uses = UsesAtOnce()
    uses.visit(tree)
    return uses.needed


def find_names_of_body(function: Function) -> set[str]:
    """Return the names that a function reads from around it, when it is defined or called."""
    uses = Uses()
    uses.visit(function)
    return uses.needed


def find_names_read_before(source: str, later: set[str]) -> set[str]:
    """Return the free names of a cell and the cells after it; `later` are those of the cells after it."""
    uses = _read([source])
    return uses.needed | uses.optional | (later - uses.find_certain())


def find_optional_names(sources: Iterable[str]) -> list[str]:
    """Return those of the free names without which these cells may run as well, sorted."""
    uses = _read(sources)
    return sorted(uses.optional - uses.needed)


def find_makers(sources: Sequence[str]) -> dict[str, list[int]]:
    """Return for each name which of these cells assign or import it, by their places; "*" for `from x import *`."""
    makers: dict[str, list[int]] = {}
    for place, source in enumerate(sources):
        for name in _read([source]).list_made():
            makers.setdefault(name, []).append(place)
    return makers


def _read(sources: Iterable[str]) -> "Uses":
    """Return the uses of names in these cells, in their order."""
    uses = Uses()
    for source in sources:
        tree = parse_cell(source)
        if tree is not None:
            uses.visit(tree)
    return uses
