"""Files stay short enough to be read at once, and functions short enough to be seen at once."""

import ast
from statistics import quantiles

import pytest

from tests.style.english import ROOT, tracked
from tests.style.trees import list_nodes, list_nodes_of

#: The most lines of a file that people write.
MOST_LINES = 500
WRITTEN = (".py", ".ts", ".tsx", ".mjs", ".js", ".sh", ".html", ".tpl", ".Dockerfile")
#: Made by `make docs`.
GENERATED = {"labextension/src/wire.ts"}
#: Lines that 95 of 100 functions do not exceed, docstrings included.
USUAL_FUNCTION = 40
#: The most lines of any function.
LONGEST_FUNCTION = 100


def lines_of_functions(nodes: list[ast.AST]) -> list[int]:
    """Return the number of lines of each function of a module."""
    found = (node for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return [(node.end_lineno or node.lineno) - node.lineno + 1 for node in found]


def test_no_file_is_long():
    lengths = {
        name: len((ROOT / name).read_text(encoding="utf-8").splitlines())
        for name in tracked([])
        if name.endswith(WRITTEN) and name not in GENERATED
    }
    assert {name: length for name, length in lengths.items() if length > MOST_LINES} == {}


def test_functions_of_the_product_are_short():
    product = [name for name in tracked(["jupyter_gq"]) if name.endswith(".py")]
    lengths = [length for name in product for length in lines_of_functions(list_nodes_of(ROOT / name))]
    assert quantiles(lengths, n=20)[-1] <= USUAL_FUNCTION
    assert max(lengths) <= LONGEST_FUNCTION


@pytest.mark.parametrize(("source", "lengths"), [("def f():\n    pass\n\nasync def g(): ...\n", [2, 1])])
def test_the_lines_of_functions_are_counted(source, lengths):
    assert lines_of_functions(list_nodes(source)) == lengths
