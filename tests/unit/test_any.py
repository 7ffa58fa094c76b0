"""`Any` switches the type checker off, so only modules at the edge to untyped data may name it, each with a reason."""

import ast
from pathlib import Path

PACKAGE = Path(__file__).parents[2] / "jupyter_gq"

#: Modules that may name `Any`, with the reason.
ALLOWED = {
    "domain/json_types.py": "says once what a value inside of a JSON document is",
}


def names_any(source: str) -> bool:
    """Return True if the module imports `Any` from `typing`, or writes `typing.Any`."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module in {"typing", "typing_extensions"}:
            if any(alias.name in {"Any", "*"} for alias in node.names):
                return True
        elif isinstance(node, ast.Attribute) and node.attr == "Any":
            return True
    return False


def test_only_the_edges_name_any():
    found = {path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py") if names_any(path.read_text())}
    assert found == ALLOWED.keys(), "type it, or add the module here with the reason why that cannot be typed"


def test_the_check_finds_each_way_to_name_it():
    assert names_any("from typing import Any, Protocol")
    assert names_any("from typing import Any as Whatever")
    assert names_any("from typing import *")
    assert names_any("import typing\nx: typing.Any = 1")
    assert not names_any("from traitlets import Any as AnyTrait")
    assert not names_any('"""Any module."""')
