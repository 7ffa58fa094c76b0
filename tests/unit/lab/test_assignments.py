"""Only the literals that a sweep varies change in a cell; each cell stays Python, with its formatting and comments."""

import ast
import io
import tokenize

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jupyter_gq.lab.bundle.assignments import (
    MAX_JOBS,
    find_assignments,
    is_literal,
    list_points,
    plan_assignments,
    replace_literals,
)
from jupyter_gq.lab.bundle.bundle import Step
from jupyter_gq.lab.refusal import RefusedRequest

CELL = '''\
# Größe
%matplotlib inline
!ls
out = !ls
lr: float=  (0.1)  # the step
depth=-2; name = "é" ; flag = True
a = b = 1
total = 1 + 1
if depth:
    inner = 3
def train(lr=5):
    lr = 7
text = """
two = 2
"""
f = f"{lr}"
obj.size = 4
nothing = None
what = "é"; last = 0x10\\
'''


def found(source):
    return [(each.name, each.text, each.line) for each in find_assignments(source)]


def test_top_level_assignments_of_a_literal_can_vary() -> None:
    assert found(CELL.replace("\\\n", "\n")) == [
        ("lr", "0.1", 5),
        ("depth", "-2", 6),
        ("name", '"é"', 6),
        ("flag", "True", 6),
        ("nothing", "None", 18),
        ("what", '"é"', 19),
        ("last", "0x10", 19),
    ]


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("lr, depth = 0.1, 3", [("lr", "0.1"), ("depth", "3")]),
        ("(lr, depth) = [0.1, n]", [("lr", "0.1")]),
        ("lr, *rest = 0.1, 3", []),
        ("lr, depth = *a, 3", []),
        ("lr, depth = 0.1, 3, 4", []),
        ("lr, depth = pair", []),
    ],
)
def test_names_that_are_assigned_together_vary_one_by_one(source, names) -> None:
    assert [(name, text) for name, text, _ in found(source)] == names


def test_one_of_two_names_that_are_assigned_together_is_replaced() -> None:
    assert replace_literals("lr, depth = 0.1, 3", {"depth": "5"}) == "lr, depth = 0.1, 5"


@pytest.mark.parametrize(
    "source", ["%%bash\nlr = 0.1", "lr = ", "lr = (\n0.1,)", "\0", "lr = 1j", "lr = b'1'", "del lr"]
)
def test_what_is_no_python_or_no_literal_cannot_vary(source) -> None:
    assert found(source) == []


def test_only_the_literal_is_replaced() -> None:
    assert (
        replace_literals("é = 1; lr = (0.1) # lr = 0.1\r\nlr=2\r\nn = lr", {"lr": "-3e-4", "n": "5"})
        == "é = 1; lr = (-3e-4) # lr = 0.1\r\nlr=-3e-4\r\nn = lr"
    )


NAMES = st.sampled_from(["lr", "depth", "größe"])
TEXTS = st.one_of(
    st.integers(-(10**6), 10**6).map(str),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=8).map(repr),
    st.sampled_from(["True", "False", "None", "1_000", "'#'", '"""x"""', "0b1", "+1."]),
).filter(is_literal)
OTHER = st.sampled_from(
    [
        "",
        "# lr = 1",
        "if lr:\n    lr = 1",
        "x = [\n  1,\n]",
        "größe += 1",
        "s = '''\nlr = 1\n'''",
        "lr.x = 1",
        "\x0cy = 0",
    ]
)
FORMS = st.sampled_from(
    ["{} = {}", "{}={}", "{}  =\t({})", "{}: int = {}  # why", "x = 1; {} = {} ; y = 'é'", "é = 'ü'; {} = \\\n  {}"]
)
LINES = st.one_of(OTHER, st.builds(lambda form, name, text: form.format(name, text), FORMS, NAMES, TEXTS))


@given(st.lists(LINES, max_size=6), st.dictionaries(NAMES, TEXTS), st.sampled_from(["\n", "\r\n"]))
def test_the_replaced_cell_is_python_that_differs_in_these_literals_only(lines, values, newline) -> None:
    source = newline.join(lines).replace("\r\n", "\n").replace("\n", newline)
    new = replace_literals(source, values)
    before, after = ast.parse(source), ast.parse(new)
    for tree in (before, after):
        for node in (each for each in tree.body if isinstance(each, (ast.Assign, ast.AnnAssign))):
            for target in getattr(node, "targets", [getattr(node, "target", None)]):
                if isinstance(target, ast.Name) and target.id in values and is_literal(ast.unparse(node.value)):
                    if tree is after:
                        assert ast.literal_eval(node.value) == ast.literal_eval(values[target.id])
                    node.value = ast.Constant(0)
    assert ast.dump(before) == ast.dump(after)
    assert comments(source) == comments(new)
    assert replace_literals(source, {}) == source


def comments(source):
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    return [token.string for token in tokens if token.type == tokenize.COMMENT]


@pytest.mark.parametrize(
    "text", ["0.1 # no", " 1", "1 ", "1\n", "(1)", "x", "1, 2", "1; x = 2", "f'x'", "", "[1]", "1j", "not 1"]
)
def test_what_is_more_than_a_literal_takes_no_part(text) -> None:
    assert not is_literal(text)


@pytest.mark.parametrize(
    ("source", "proposed"),
    [
        ("optimizer = 'adam'", True),
        ("model_name = 'google/bert-base-uncased'", True),
        ("backbone = 'resnet50.a1_in1k'", True),
        ("output_layer = 'softmax'", True),
        ("size = 'größer'", True),
        ("flag = None", True),
        ("data_path = 5", True),
        ("DATA = 'data/train.csv'", False),
        ("DATA = 'train.csv'", False),
        ("DATA = 'data/train'", False),
        ("DATA = '/data'", False),
        ("DATA = '../data'", False),
        ("DATA = '.'", False),
        ("DATA = 'C:\\\\data'", False),
        ("data_dir = 'images'", False),
        ("OUT = 'results'", False),
        ("model_path = 'best'", False),
        ("model = './checkpoints/last'", False),
        ("url = 'https://example.org/a'", False),
        ("api_key = 'abc'", False),
        ("title = 'Loss of each epoch'", False),
        ("fmt = '{:.3f}'", False),
        ("empty = ''", False),
        ("__version__ = '1.0'", False),
    ],
)
def test_texts_are_proposed_if_they_choose_something(source, proposed) -> None:
    """A request may vary each of them."""
    steps = [Step(id="a", cell_id="a", source=source, seconds=None, why="target")]
    assert bool(plan_assignments(steps)) == proposed
    [[name, *_]] = found(source)
    assert len(list_points({name: ["1", "2"]}, steps)) == 2


STEPS = [Step(id="a", cell_id="a", source="lr = 0.1\ndepth = 2", seconds=None, why="target")]


def test_a_grid_is_all_combinations_in_order() -> None:
    points = list_points({"lr": ["0.1", "0.2"], "depth": ["1", "2"]}, STEPS)
    assert points == [{"lr": lr, "depth": depth} for lr in ("0.1", "0.2") for depth in ("1", "2")]
    assert len(list_points({"lr": ["1", "1.0", "-1", "True", "'1'", "None", "0.0", "-0.0"]}, STEPS)) == 8


@pytest.mark.parametrize(
    ("grid", "words"),
    [
        ({}, "make 0 jobs"),
        ({"lr": []}, "make 0 jobs"),
        ({"lr": list(map(str, range(MAX_JOBS + 1)))}, f"make {MAX_JOBS + 1} jobs, and a sweep has 1 to {MAX_JOBS}"),
        ({"lr": ["fast"] * 100_000}, "make 100000 jobs"),
        ({"rate": ["1"]}, "rate cannot vary: no cell assigns"),
        ({"lr": ["fast"]}, "lr: 'fast' is not a number, a text in quotes"),
        ({"depth": ["1"], "lr": ["0.1", "1", "1e-1"]}, "lr: '1e-1' is written twice, and the jobs would be the same"),
        ({"lr": ["'a'", '"a"']}, "lr: '\"a\"' is written twice"),
        ({"lr": ["0x10", "16"]}, "lr: '16' is written twice"),
    ],
)
def test_a_grid_that_is_none_says_what_is_wrong(grid, words) -> None:
    with pytest.raises(RefusedRequest, match=words):
        list_points(grid, STEPS)
