"""A cell is gone through once for all questions about it, and nothing of it is kept when it is not needed any more."""

import ast
import gc
import weakref

import pytest

from jupyter_gq.lab import bodies, parsing
from jupyter_gq.lab.calls import list_calls
from jupyter_gq.lab.effects import find_effects
from jupyter_gq.lab.full_names import Names
from jupyter_gq.lab.hidden_inputs import find_hidden_inputs
from jupyter_gq.lab.parsing import list_nodes
from jupyter_gq.lab.process_state import find_process_state

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


def test_a_cell_that_nobody_needs_is_freed_with_its_nodes() -> None:
    tree = ast.parse(SOURCE)
    list_nodes(tree), list_calls(tree), Names.read(tree)
    watched, node = weakref.ref(tree), weakref.ref(tree.body[0])
    del tree
    gc.collect()
    assert (watched(), node()) == (None, None)
