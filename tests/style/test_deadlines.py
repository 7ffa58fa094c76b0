"""Deadlines of tests follow the speed of the machine: no call that waits gets a number of seconds as it is.

See `tests/patience.py`. Numbers below a second are no deadlines: such a call looks whether something happens at once.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.style.trees import list_nodes

TESTS = Path(__file__).parents[1]
#: Functions, with the position of the seconds, if they may be there.
_WAITS = {
    "asyncio.timeout": 0,
    "asyncio.wait_for": 1,
    "subprocess.run": None,
    "urllib.request.urlopen": None,
    "httpx.get": None,
    "httpx.AsyncClient": None,
}
#: Methods of processes, threads, events, clients.
_METHODS = {
    "communicate": None,
    "execute_interactive": None,
    "fetch": None,
    "join": 0,
    "result": 0,
    "set_default_timeout": 0,
    "wait": 0,
    "wait_for_ready": None,
}
_KEYWORDS = {"timeout", "request_timeout"}


def constant_deadlines(code: str) -> Iterator[str]:
    """Yield the line number and the text of each call with a constant deadline."""
    for node in list_nodes(code):
        if isinstance(node, ast.Call) and any(_is_deadline(value) for value in _deadlines(node)):
            yield f"{node.lineno}: {ast.unparse(node)}"


def _deadlines(call: ast.Call) -> Iterator[ast.expr]:
    name = ast.unparse(call.func)
    method = name.rpartition(".")[2]
    if name in _WAITS:
        position = _WAITS[name]
    elif method in _METHODS and isinstance(call.func, ast.Attribute):
        position = _METHODS[method]
    else:
        return
    yield from (keyword.value for keyword in call.keywords if keyword.arg in _KEYWORDS)
    if position is not None:
        yield from call.args[position : position + 1]


def _is_deadline(value: ast.expr) -> bool:
    """Return whether the value is a number of seconds, or a constant such as `PATIENCE`."""
    if isinstance(value, ast.Name):
        return any(word in value.id for word in ("PATIENCE", "TIMEOUT", "DEADLINE"))
    return isinstance(value, ast.Constant) and isinstance(value.value, int | float) and value.value >= 1


def test_no_deadline_is_a_constant():
    found = [
        f"{path.relative_to(TESTS)}:{call}"
        for path in sorted(TESTS.rglob("*.py"))
        for call in constant_deadlines(path.read_text(encoding="utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "asyncio.timeout(60)",
        "asyncio.wait_for(event.wait(), 60)",
        "asyncio.wait_for(event.wait(), timeout=60)",
        "subprocess.run(command, timeout=PATIENCE)",
        "process.wait(30)",
        "self.process.communicate(timeout=120)",
        "page.set_default_timeout(240_000)",
        "client.fetch(url, request_timeout=20.0)",
    ],
)
def test_it_finds(code):
    assert list(constant_deadlines(code))


@pytest.mark.parametrize(
    "code",
    [
        "asyncio.timeout(scaled(60))",
        "thread.join(0.2)",
        "subprocess.run(command, timeout=scaled(PATIENCE))",
        "a.wait()",
    ],
)
def test_it_passes_over(code):
    assert not list(constant_deadlines(code))
