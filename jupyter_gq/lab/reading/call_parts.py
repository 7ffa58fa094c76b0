"""The parts of a call in a syntax tree: arguments, the object of a method, and the literal texts in these."""

import ast

from .full_names import read_text


def get_argument(call: ast.Call, place: int, keyword: str = "") -> ast.expr | None:
    """Return the argument named `keyword`, or else the one at `place`, from 0; None if not given or behind a `*`."""
    for given in call.keywords:
        if keyword and given.arg == keyword:
            return given.value
    known = call.args[: place + 1]
    return known[place] if len(known) > place and not any(isinstance(a, ast.Starred) for a in known) else None


def get_method(call: ast.Call) -> str:
    """Return the last name of a dotted call, such as "save" for `np.save(x)` and `df.save(x)`; "" for a plain name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else ""


def get_last_name(call: ast.Call) -> str:
    """Return the last name of what a call calls, such as `save` for `np.save`; "" if that has no name."""
    return call.func.attr if isinstance(call.func, ast.Attribute) else str(getattr(call.func, "id", ""))


def get_receiver(call: ast.Call) -> ast.expr | None:
    """Return what stands before the last name of a dotted call, such as `np` for `np.save(x)`; None if nothing does."""
    return call.func.value if isinstance(call.func, ast.Attribute) else None


def list_receivers(call: ast.Call) -> list[ast.expr]:
    """Return the calls and attributes before a method, the nearest first.

    For `df.write.mode("x").csv("a")` these are `df.write.mode("x")` and `df.write`.
    """
    found: list[ast.expr] = []
    node: ast.expr | None = call
    while node is not None:
        node = get_receiver(node) if isinstance(node, ast.Call) else getattr(node, "value", None)
        if isinstance(node, ast.Attribute | ast.Call):
            found.append(node)
        else:
            break
    return found


def is_text(node: ast.expr | None) -> bool:
    """Return whether an expression is a text or an f-string."""
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def read_path(node: ast.expr | None) -> str:
    """Return the literal path in an expression such as `"a.csv"` or `Path("a.csv")`; otherwise ""."""
    return "" if isinstance(node, ast.JoinedStr) else read_text(node)
