"""Claims that module docstrings make about their own code are true."""

import ast
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.style.english import ROOT
from tests.style.trees import list_nodes_of

PACKAGE = ROOT / "jupyter_gq"
#: Modules that do, or wait for, something outside of the program.
_OUTSIDE = frozenset(
    {"asyncio", "logging", "random", "secrets", "selectors", "shutil", "signal", "socket", "subprocess", "tempfile"}
    | {"threading", "time", "tornado", "sqlalchemy", "kubernetes", "psutil", "httpx", "grpc"}
)
#: A citation by number says nothing without the list at hand, and is wrong after a change of the list.
_BY_NUMBER = re.compile(r"\brules? \d", re.IGNORECASE)


@cache
def modules() -> tuple[tuple[str, list[ast.AST], str], ...]:
    """Return the path, the nodes and the docstring of each module of the package."""
    return tuple(
        (str(path.relative_to(ROOT)), nodes, ast.get_docstring(nodes[0]) or "")  # type: ignore[arg-type]
        for path in sorted(PACKAGE.rglob("*.py"))
        for nodes in [list_nodes_of(path)]
    )


def imports(tree: ast.Module, path: str) -> Iterator[str]:
    """Yield the dotted names that a module imports when it is itself imported."""
    waiting: list[ast.AST] = list(tree.body)
    package = list(Path(path).with_suffix("").parts)[:-1]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            continue
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = ".".join([*package[: len(package) - node.level + 1], *([node.module] if node.module else [])])
            base = base if node.level else node.module or ""
            yield from (f"{base}.{alias.name}" for alias in node.names)
        waiting.extend(ast.iter_child_nodes(node))


def file_of(name: str) -> Path | None:
    """Return the file of a module of the package, or of the module that a name stands in."""
    parts = name.split(".")
    for length in (len(parts), len(parts) - 1):
        base = ROOT.joinpath(*parts[:length])
        for path in (base.with_suffix(".py"), base / "__init__.py"):
            if length and path.is_file():
                return path
    return None


def outside_standard_library(path: str, seen: set[str]) -> Iterator[str]:
    """Yield what a module needs at its import, by itself or by modules of ours, beyond the standard library."""
    if path in seen:
        return
    seen.add(path)
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for name in imports(tree, path):
        top = name.partition(".")[0]
        if top == "jupyter_gq":
            found = file_of(name)
            assert found is not None, f"{path} imports {name}"
            yield from outside_standard_library(str(found.relative_to(ROOT)), seen)
        elif top not in sys.stdlib_module_names and top != "__future__":
            yield f"{path}: {name}"


def claiming(words: str) -> list[str]:
    """Return the modules whose docstring says these words."""
    pattern = re.compile(words, re.IGNORECASE)
    return [path for path, _, text in modules() if pattern.search(text)]


@pytest.mark.parametrize("path", claiming(r"\bstandard[- ]library[- ]only\b|uses the standard library only"))
def test_a_module_that_says_standard_library_only_imports_nothing_else(path: str) -> None:
    assert not list(outside_standard_library(path, set()))


@pytest.mark.parametrize("path", claiming(r"\bPure[.:;,]|A pure function|\bPure functions"))
def test_a_module_that_says_pure_touches_nothing_outside(path: str) -> None:
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    assert not {name.partition(".")[0] for name in imports(tree, path)} & _OUTSIDE
    calls = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert not calls & {"open", "print", "input"}


def test_one_function_assigns_the_state_of_a_workload() -> None:
    """`records.changes.apply_change`, as the docstrings of `domain.states` and `records.records` say."""
    found = set()
    for path, nodes, _ in modules():
        if not path.startswith(
            ("jupyter_gq/controller/", "jupyter_gq/backends/", "jupyter_gq/store/", "jupyter_gq/api/")
        ):
            continue
        for function in nodes:
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                for call in ast.walk(function):
                    named = isinstance(call, ast.Call) and ast.unparse(call.func) == "replace"
                    if named and any(word.arg == "state" for word in call.keywords):
                        found.add(f"{path}:{function.name}")
    assert {each for each in found if "/kubernetes/" not in each} == {
        "jupyter_gq/controller/records/changes.py:apply_change"
    }


def calls_of(pattern: str, folder: str) -> set[str]:
    """Return path and function of each call in a folder of the package whose text matches the pattern."""
    found = set()
    for path, nodes, _ in modules():
        for function in nodes if path.startswith(f"jupyter_gq/{folder}/") else ():
            if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
                calls = (node for node in ast.walk(function) if isinstance(node, ast.Call))
                if any(re.match(pattern, ast.unparse(call)) for call in calls):
                    found.add(f"{path}:{function.name}")
    return found


def test_one_function_saves_the_records_of_workloads() -> None:
    """As the docstring of `records.records` says: there is one way to change a stored record."""
    assert calls_of(r"[\w.]*store\.save\(", "controller") == {"jupyter_gq/controller/records/records.py:_save"}


def test_one_function_deletes_entries_of_the_audit_log_and_none_changes_one() -> None:
    """As the docstring of `store.protocol` says."""
    assert calls_of(r"sa\.(update|delete)\(audit_entries", "store") == {
        "jupyter_gq/store/statements.py:delete_oldest_audit_entries"
    }


def test_rules_are_cited_by_name() -> None:
    cited = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if _BY_NUMBER.search(line)
    ]
    assert not cited


def test_paths_of_decisions_in_the_code_exist() -> None:
    found = [
        (str(path.relative_to(ROOT)), cited)
        for path in sorted(PACKAGE.rglob("*.py"))
        for cited in re.findall(r"docs/decisions/[\w-]+\.md", path.read_text(encoding="utf-8"))
    ]
    assert found
    assert not [entry for entry in found if not (ROOT / entry[1]).is_file()]
