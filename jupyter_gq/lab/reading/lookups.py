"""Variables that code looks up otherwise than by their names in it: in texts that it evaluates, and among all names."""

import ast
import re
from collections.abc import Iterator

from .calls import list_calls
from .full_names import read_text
from .magics import read_magic
from .parsing import compile_quietly, list_nodes
from .work_limit import TooMuchWork

#: Methods of tables whose texts name variables after `@`.
_TABLE_METHODS = frozenset({"query", "eval"})
_NAMED = re.compile(r"@([A-Za-z_]\w*)")
#: Functions that return all names, if they have no argument, and magics that show them.
_ALL_NAMES = frozenset({"globals", "locals", "vars", "dir"})
_LISTING_MAGICS = frozenset({"who", "whos", "who_ls"})


def find_names_in_text(call: ast.Call) -> set[str]:
    """Return the names in the literal text that this call evaluates, none if it is another call."""
    text = read_text(call.args[0]) if call.args else ""
    if isinstance(call.func, ast.Attribute) and call.func.attr in _TABLE_METHODS:
        return set(_NAMED.findall(text))
    if not (isinstance(call.func, ast.Name) and call.func.id == "eval" and text):
        return set()
    try:
        tree = compile_quietly(text.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError, TooMuchWork):
        return set()
    return {node.id for node in list_nodes(tree) if isinstance(node, ast.Name)}


def find_lookups(tree: ast.Module) -> list[str]:
    """Return how a cell looks for variables among all of them, each way once."""
    imported = [alias.name for node in list_nodes(tree) if isinstance(node, ast.Import) for alias in node.names]
    found = [way for call in list_calls(tree) for way in _find_in_call(call)]
    return list(dict.fromkeys([*found, *(name for name in imported if name == "__main__")]))


def _find_in_call(call: ast.Call) -> Iterator[str]:
    magic = read_magic(call)
    if magic is not None:
        for tree in magic.trees:
            yield from find_lookups(tree)
        if magic.name in _LISTING_MAGICS or (magic.name == "run" and not magic.trees and "-i" in magic.line.split()):
            yield f"%{magic.name}"
    elif isinstance(call.func, ast.Name) and call.func.id in _ALL_NAMES and not call.args:
        yield f"{call.func.id}()"
    elif isinstance(call.func, ast.Attribute) and call.func.attr == "__subclasses__":
        yield "__subclasses__()"
