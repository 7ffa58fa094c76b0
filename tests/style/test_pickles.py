"""Pickles of users are loaded by the room that runs in their own kernels, and by no service, hub or notebook server."""

import ast
from collections.abc import Iterator
from pathlib import Path

import jupyter_gq
from tests.style.trees import list_nodes, list_nodes_of

PACKAGE = Path(jupyter_gq.__file__).parent
#: Modules that load a pickle.
LOADING = {"pickle", "cloudpickle", "dill", "joblib", "marshal", "shelve", "_pickle"}
#: The room of the kernels: also what checks pickles, in a new process of the user.
ROOM = PACKAGE / "notebook"
UNPICKLER = "jupyter_gq.notebook.unpickler"


def list_imports(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the full names of the modules that a module imports, also inside of functions."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names))
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in _IMPORTERS:
            yield from (str(each.value) for each in node.args[:1] if isinstance(each, ast.Constant))


_IMPORTERS = {"import_module", "__import__"}


def test_imports_of_each_kind_are_found():
    code = "import pickle\ndef f():\n    from dill import loads\n    import_module('joblib')"
    assert LOADING.intersection(list_imports(list_nodes(code))) == {"pickle", "dill", "joblib"}


def test_only_the_room_of_the_kernels_loads_pickles():
    found = {
        str(file.relative_to(PACKAGE)): sorted(loaded)
        for file in PACKAGE.rglob("*.py")
        if ROOM not in file.parents
        if (loaded := {*LOADING, UNPICKLER}.intersection(list_imports(list_nodes_of(file))))
    }
    assert found == {}
