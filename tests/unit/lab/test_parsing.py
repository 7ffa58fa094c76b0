"""A cell is gone through once for all questions about it, and nothing of it is kept when it is not needed any more."""

import ast
import gc
import sys
import weakref

import pytest

from jupyter_gq.lab.effects.effects import find_effects
from jupyter_gq.lab.effects.process_state import find_process_state
from jupyter_gq.lab.plan.hidden_inputs import find_hidden_inputs
from jupyter_gq.lab.reading import bodies, parsing
from jupyter_gq.lab.reading.calls import list_calls
from jupyter_gq.lab.reading.full_names import Names
from jupyter_gq.lab.reading.parsing import list_nodes

from .test_hidden_inputs import steps

SOURCE = (
    "import numpy as np\n\ndef load(path):\n    return np.load(path)\n\nrows = [load(f'{n}.npy') for n in range(3)]\n"
)


@pytest.fixture
def looked_at(monkeypatch: pytest.MonkeyPatch) -> list[ast.AST]:
    """The nodes below which something has looked."""
    nodes: list[ast.AST] = []
    look = parsing.list_children

    def watched(node: ast.AST) -> list[ast.AST]:
        nodes.append(node)
        return look(node)

    for module in (parsing, bodies):
        monkeypatch.setattr(module, "list_children", watched)
    return nodes


def test_questions_about_a_cell_that_are_asked_again_go_through_its_nodes_no_more(looked_at: list[ast.AST]) -> None:
    source = f"{SOURCE}# a cell that no other test has"
    counts = []
    for _ in range(3):
        find_effects(source)
        list(find_hidden_inputs(steps(source, "1"), searches=True))
        list(find_process_state([source]))
        counts.append(len(looked_at))
    assert counts == [counts[0]] * 3 != [0] * 3
    assert max(looked_at.count(node) for node in looked_at) <= 5


def test_nodes_are_those_of_the_syntax_tree_without_empty_ones() -> None:
    tree = ast.parse(SOURCE)
    expected = {node for node in ast.walk(tree) if node._fields}
    for _ in range(2):
        found = list_nodes(tree)
        assert found[0] is tree
        assert len(found) == len(set(found))
        assert set(found) == expected
    function = tree.body[1]
    assert set(list_nodes(function)) == {node for node in ast.walk(function) if node._fields}


def test_each_field_that_may_hold_nodes_is_looked_at() -> None:
    source = """
async def f[T](a, /, b: int = 1, *c, d=2, **e) -> T:
    global g
    async with x as y, z: await w
    async for i in j: yield i
    try: raise k from l
    except* m as n: assert o, p
    match q:
        case {"a": r, **s} | [t, *u] | v(w, x=1) if y: del z
    return lambda h=1, *, i: {**j, "k": [l for m in n if not o < p < q]}
@decorated
class g(h, metaclass=i):
    j: k = f"{l!r:{m}}"
    n += o[p:q:r] if s else t @ u
"""
    source = source if sys.version_info >= (3, 12) else source.replace("[T]", "")
    tree = ast.parse(source)
    assert set(list_nodes(tree)) == {node for node in ast.walk(tree) if node._fields}


@pytest.mark.parametrize("levels", [98, 99, 100, 101, 102])
@pytest.mark.parametrize("source", ["{}x.y", "f({}{{}})", "if a:\n    b = {}x\nelse:\n    pass"])
def test_only_what_is_too_deep_is_replaced(source: str, levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = source.format("-" * levels)
    found = ast.dump(parsing.limit_depth(ast.parse(source)))
    monkeypatch.setattr(parsing, "_is_too_deep", lambda tree: True)
    assert found == ast.dump(parsing.limit_depth(ast.parse(source)))
    assert (found == ast.dump(ast.parse(source))) == (max(map(len, _list_paths(ast.parse(source)))) <= 101)


def _list_paths(tree: ast.AST) -> list[list[ast.AST]]:
    """Return the nodes on the way from the root to each expression that is neither a name nor a literal."""
    found, ahead = [], [[tree]]
    while ahead:
        path = ahead.pop()
        if not isinstance(path[-1], ast.Name | ast.Constant):
            found.append(path)
        ahead += [[*path, child] for child in parsing.list_children(path[-1])]
    return found


def test_a_cell_that_nobody_needs_is_freed_with_its_nodes() -> None:
    tree = ast.parse(SOURCE)
    list_nodes(tree), list_calls(tree), Names.read(tree)
    watched, node = weakref.ref(tree), weakref.ref(tree.body[0])
    del tree
    gc.collect()
    assert (watched(), node()) == (None, None)
