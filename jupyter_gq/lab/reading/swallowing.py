"""Errors that code swallows: by their names, and by the names of context managers. Pure."""

import ast

from .call_parts import get_last_name
from .parsing import list_nodes

#: Context managers that swallow errors. Others may do so as well, but seldom do.
_SWALLOWING = frozenset({"suppress", "raises", "assertRaises", "assertRaisesRegex", "move_on_after", "move_on_at"})
#: Errors by which a missing name is caught.
_OF_MISSING = frozenset({"NameError", "Exception", "BaseException"})


def catches_missing(errors: ast.expr) -> bool:
    """Return whether an expression names an error by which a missing name is caught."""
    return any(isinstance(each, ast.Name) and each.id in _OF_MISSING for each in list_nodes(errors))


def swallows(manager: ast.expr) -> bool:
    """Return whether a context manager swallows errors of its block, by its name; False if the name is not known."""
    return isinstance(manager, ast.Call) and get_last_name(manager) in _SWALLOWING
