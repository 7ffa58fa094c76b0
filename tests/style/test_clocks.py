"""Only the clock module of a room reads a clock; everybody else takes the time from it, or as an argument.

ruff's `banned-api` finds names of modules. Methods, such as `loop.time()`, and other spellings are found here.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import jupyter_gq
from tests.style.trees import list_nodes, list_nodes_of

PACKAGE = Path(jupyter_gq.__file__).parent
CLOCKS = {
    PACKAGE / name
    for name in (
        "agent/clock.py",
        "backends/kubernetes/clocks.py",
        "commands/clock.py",
        "controller/clock.py",
        "demo/clock.py",
        "hub/clock.py",
        "lab/clock.py",
        "notebook/clock.py",
        "runner/clock.py",
        "store/clock.py",
    )
}
#: Names of the module `time` that read no clock.
_HARMLESS = {"sleep", "struct_time"}
_DATETIME = {"now", "utcnow", "today"}


def clock_reads(nodes: list[ast.AST]) -> Iterator[str]:
    """Yield the line number and the text of each expression of a tree that reads a clock."""
    modules = _names_of_time(nodes)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module == "time":
            read = [alias.name for alias in node.names if alias.name not in _HARMLESS]
        elif isinstance(node, ast.Attribute):
            of_time = isinstance(node.value, ast.Name) and node.value.id in modules
            read = [node.attr] if (of_time and node.attr not in _HARMLESS) or _is_method(node) else []
        else:
            read = []
        if read:
            yield f"{node.lineno}: {ast.unparse(node)}"


def _names_of_time(nodes: list[ast.AST]) -> set[str]:
    return {
        alias.asname or alias.name
        for node in nodes
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "time"
    }


def _is_method(node: ast.Attribute) -> bool:
    """Return whether this is the clock of an event loop, `datetime.now` or the like."""
    if node.attr != "time" and node.attr not in _DATETIME:
        return False
    owner = ast.unparse(node.value)
    if node.attr == "time":
        return owner != "datetime"  # `datetime.time` is the class of a time of day
    return owner.rpartition(".")[2] in {"datetime", "date"}


def test_only_clock_modules_read_a_clock():
    found = [
        f"{path.relative_to(PACKAGE)}:{read}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path not in CLOCKS
        for read in clock_reads(list_nodes_of(path))
    ]
    assert found == []


def test_every_clock_module_is_there_and_reads_a_clock():
    assert all(list(clock_reads(list_nodes_of(path))) for path in CLOCKS)


@pytest.mark.parametrize(
    "code",
    [
        "asyncio.get_running_loop().time()",
        "loop.time()",
        "clock = self._loop.time",
        "import time\ntime.time_ns()",
        "import time as t\nt.perf_counter()",
        "from time import monotonic",
        "datetime.datetime.now(UTC)",
        "datetime.utcnow()",
        "date.today()",
    ],
)
def test_it_finds(code):
    assert list(clock_reads(list_nodes(code)))


@pytest.mark.parametrize(
    "code",
    ["import time\ntime.sleep(1)", "self._clock.now()", "datetime.fromtimestamp(at, UTC)", "clock.elapsed()", "now()"],
)
def test_it_passes_over(code):
    assert list(clock_reads(list_nodes(code))) == []
