"""The environment variables that a configuration file reads: the service executes the same file, and needs them too.

The Hub starts the service with few of its own variables. Found are the names that are written in the file itself, as in
`os.environ["NAME"]`, not those that other modules read.

See docs/decisions/0264-give-the-service-the-variables-that-the-file-names.md.
"""

import ast
import os
from collections.abc import Iterable, Iterator
from pathlib import Path

#: Names that are not passed on, because the Hub sets them for each program that it starts; others that begin with
#: `JUPYTERHUB_`, such as `JUPYTERHUB_CRYPT_KEY`, are the Hub's own, and a service does not get them by itself.
_OF_STARTED_PROGRAMS = frozenset(
    f"JUPYTERHUB_{name}"
    for name in (
        "ACTIVITY_URL",
        "ADMIN_ACCESS",
        "API_TOKEN",
        "API_URL",
        "BASE_URL",
        "CLIENT_ID",
        "DEBUG",
        "DEFAULT_URL",
        "DISABLE_USER_CONFIG",
        "HOST",
        "ROOT_DIR",
        "SERVER_NAME",
        "USER",
    )
)
#: Beginnings of names that are not passed on: the Hub sets the first ones too, and jobs would inherit the others from
#: the service by default, which name folders of the administrator.
_LEFT_OUT = (
    *(f"JUPYTERHUB_{group}_" for group in ("COOKIE", "OAUTH", "PUBLIC", "SERVICE", "SSL")),
    *("XDG_", "JUPYTER_PATH", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "TMPDIR"),
)


def read_variables(files: Iterable[Path]) -> dict[str, str]:
    """Return the variables of this process that the files name, without those that are not passed on.

    A file that cannot be read or parsed names none.
    """
    names = {name for file in files for name in _names_in(_parse(file))} - _OF_STARTED_PROGRAMS
    return {name: os.environ[name] for name in sorted(names) if name in os.environ and not name.startswith(_LEFT_OUT)}


def _parse(file: Path) -> ast.Module:
    try:
        return ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return ast.Module(body=[], type_ignores=[])


def _names_in(tree: ast.Module) -> Iterator[str]:
    """Yield the names in `environ["NAME"]`, `environ.get("NAME")`, `getenv("NAME")` and `"NAME" in environ`."""
    for node in ast.walk(tree):
        match node:
            case ast.Subscript(value=source, slice=ast.Constant(value=str(name))) if _is_called(source, "environ"):
                yield name
            case ast.Call(func=ast.Attribute(value=source), args=[ast.Constant(value=str(name)), *_]) if _is_called(
                source, "environ"
            ):
                yield name
            case ast.Call(func=function, args=[ast.Constant(value=str(name)), *_]) if _is_called(function, "getenv"):
                yield name
            case ast.Compare(left=ast.Constant(value=str(name)), comparators=[source]) if _is_called(source, "environ"):
                yield name


def _is_called(expression: ast.expr, name: str) -> bool:
    """Tell whether an expression is this name, alone or as an attribute."""
    match expression:
        case ast.Name(id=found) | ast.Attribute(attr=found):
            return found == name
    return False
