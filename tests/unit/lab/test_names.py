"""The names that a cell makes, and those of them that later cells need, follow the order of evaluation."""

import inspect
import sys
import time

import pytest

from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.names import (
    find_free_names,
    find_made_names,
    find_makers,
    find_needed_names,
    find_optional_names,
)


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("model = train()", ["model"]),
        ("import numpy as np\nfrom math import pi\nx = 1", ["x"]),
        ("_private = 1\n__mangled = 2\n__dunder__ = 3\n_input = _10x = 4", ["_private", "__mangled", "_input", "_10x"]),
        ("for _ in x:\n    _i = __ = ___ = _1 = _i1 = _ih = _oh = _dh = _exit_code = In = Out = 1", []),
        ("def f():\n    inner = 1\nclass C:\n    field = 1", ["f", "C"]),
        ("a, (b, *c) = 1, (2, 3)", ["a", "b", "c"]),
        (
            "for step in range(3):\n    loss = step\nwith open('x') as file:\n    text = file.read()",
            ["step", "loss", "file", "text"],
        ),
        ("squares = [n * n for n in range(3)]", ["squares"]),
        ("if (found := search()):\n    pass", ["found"]),
        ("%time x = 1\n!ls", ["x"]),
        ("%timeit -n 3 x = 1", []),
        ("obj.field = 1\nlist[0] = 2", []),
        ("this is no python", []),
        ("model = fit()\naccuracy = 1\nmodel = best(model)", ["model", "accuracy"]),
        ("try:\n    z = 1\nexcept OSError as e:\n    a = 1", ["z", "a"]),
        ("e = 2\ntry:\n    z = 1\nexcept OSError as e:\n    a = 1", ["e", "z", "a"]),
        ("x = 1\ndel x", []),
        ("x = 1\nif small:\n    del x", ["x"]),
        ("x = 1\nif small:\n    del x\nelse:\n    del x", []),
        ("x = 1\nfor y in ys:\n    z = y\n    del z", ["x", "y"]),
        ("x = 1\ny = 2\nif small:\n    del x", ["x", "y"]),
        ("x = 1\ntry:\n    del x\nexcept NameError:\n    pass", []),
        ("if small:\n    x = 1\nelse:\n    del x", ["x"]),
        ("x = 1\nif small:\n    if smaller:\n        del x\n    else:\n        del x", ["x"]),
        ("x = 1\nif small:\n    del x\n    y = 1\n    x = 2\nelse:\n    del x", ["x", "y"]),
        ("x = 1\ntry:\n    del x\nexcept E:\n    del x\n    if small:\n        x = 2\n    del x", []),
        ("x = 1\nmatch small:\n    case 1:\n        del x\n    case _:\n        del x", []),
        ("x = 1\nfor y in ys:\n    if y:\n        break\n    del x", ["x", "y"]),
        ("for y in ys:\n    x = 1\n    if y:\n        continue\n    del x", ["y", "x"]),
        ("x = 1\nif small:\n    raise E\nelse:\n    del x", []),
        ("x = 1\ntry:\n    f()\n    del x\nexcept E:\n    pass", ["x"]),
        ("x = 1\ntry:\n    f()\n    del x\nexcept E:\n    raise", []),
        ("x = 1\ntry:\n    f()\nfinally:\n    del x", []),
        ("x = y = 1\ntry:\n    del x, y\nexcept NameError:\n    pass", ["x", "y"]),
        ("x = 1\nwith suppress(NameError):\n    del x", []),
        ("x = 1\nwith suppress(E):\n    f()\n    del x", ["x"]),
        ("x = 1\nwith file:\n    f()\n    del x", ["x"]),
        ("for path in paths:\n    try:\n        x = 1\n    except E as e:\n        continue", ["path", "x"]),
        ("while (x := f()):\n    del x", ["x"]),
        ("x = 1\nclass C:\n    global x\n    del x", ["C"]),
        ("def f():\n    global x\n    x = 1\nf()\ndel x", ["f", "x"]),
        ("import x\nx = 1", ["x"]),
        ("x = 1\nimport x", []),
        ("try:\n    import x\nexcept ImportError:\n    x = None", []),
        ("x = 1\nraise E", ["x"]),
    ],
)
def test_made_names_are_what_the_cell_assigns_in_the_order_of_assignment(source, made):
    assert find_made_names([source]) == made


@pytest.mark.parametrize(
    ("later", "needed"),
    [
        (["model.predict(x)"], ["model"]),
        (["model = load()", "model.predict()"], []),
        (["model += 1"], ["model"]),
        (["model = model.eval()"], ["model"]),
        (["for loss in losses:\n    print(loss)"], []),
        (["print([model for model in models])"], []),
        (["print([m for m in model])"], ["model"]),
        (["def show():\n    return model"], ["model"]),
        (["def show(model):\n    return model"], []),
        (["f = lambda model: model"], []),
        (["f'{loss:.3f}'"], ["loss"]),
        (["%%bash\necho model"], []),
        (["# model"], []),
        (["import model", "model.run()"], []),
        ([], []),
    ],
)
def test_needed_is_what_a_later_cell_reads_before_it_assigns(later, needed):
    assert find_needed_names(["loss", "model"], later) == needed


@pytest.mark.parametrize(
    ("source", "free"),
    [
        ("print(len(data))", ["data", "len", "print"]),
        ("data = 1\nuse(data)", ["use"]),
        ("x = 1\r\nif x:\r\n    y = scale(x)\r\n", ["scale"]),
        ("%%time\nfit(net)", ["fit", "get_ipython", "net"]),
        ("%timeit -n 10 -r 3 fit(net)", ["fit", "get_ipython", "net"]),
        ("!ls {folder} $name", ["folder", "get_ipython", "name"]),
        ("del net", ["net"]),
        ("net = 1\ndel net\nprint(net)", ["net", "print"]),
        ("%%bash\necho $net", ["get_ipython"]),
        ("for\n", []),
    ],
    ids=["read", "own", "Windows line ends", "cell magic", "timeit", "command", "del", "gone", "bash", "no Python"],
)
def test_free_names_are_read_before_the_cells_assign_them(source, free):
    assert find_free_names([source]) == free


def test_makers_are_the_cells_that_assign_or_import_a_name():
    cells = ["import math", "x = 1", "x += 1\ndef f(): y = 2", "from nets import *"]
    assert find_makers(cells) == {"math": [0], "x": [1, 2], "f": [2], "*": [3]}


def test_a_cell_runs_although_the_one_before_ends_with_an_error():
    assert find_makers(["x = 1\nraise E", "y = 1", "if small:\n    raise E\nx = 1"]) == {"x": [0, 2], "y": [1]}
    assert find_free_names(["raise E", "E = 1", "if small:\n    x = E\nelse:\n    x = 1\nx"]) == ["E", "small"]


@pytest.mark.parametrize(
    "source",
    [
        "if c: a = 1\n" + "".join(f"elif c{n}: a = 1\n" for n in range(200)),
        "".join(" " * n + "while c:\n" for n in range(95)) + " " * 95 + "a = 1",
        "a = " + "lambda: " * 150 + "b",
        "a = " + "(b and " * 150 + "c" + ")" * 150,
    ],
    ids=["elif", "while", "lambda", "and"],
)
def test_the_deepest_cell_leaves_half_of_the_stack_of_python_to_the_server(source):
    parse_cell(source)
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(len(inspect.stack()) + 500)
    try:
        assert find_made_names([source]) == ["a"]
    finally:
        sys.setrecursionlimit(limit)


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python has no type parameters")
def test_type_parameters_are_no_names_of_the_notebook():
    check_free("class C[T](Base[T]):\n    x: T\n    def f[U: Bound](self, a: U) -> T: return T, U, C", "Base", "Bound")
    check_free("def f[T](a: T = b) -> T:\n    return T\ntype X[T] = Pair[T]\nX", "Pair", "b")
    assert find_made_names(["type X[T] = Pair[T]"]) == ["X"]


#: How much longer the longer cell is, and how much longer it may take; a square is 64 times as much.
LONGER, MOST_RATIO = 8, 24
#: Seconds of processor time below which nothing can be told.
LEAST = 0.01


def measure(source):
    """Return the seconds of processor time in which the names of a cell are found, the better of two tries."""
    parse_cell(source)
    tries = []
    for _ in range(2):
        began = time.process_time()
        find_made_names([source])
        find_free_names([source])
        tries.append(time.process_time() - began)
    return max(min(tries), LEAST)


@pytest.mark.parametrize(
    ("before", "line", "after"),
    [
        ("", "if c{n}: a{n} = 1", ""),
        ("", "with open(p) as f{n}: a{n} = f{n}", ""),
        ("for x in y:", "    if c{n}: break\n    a{n} = 1", ""),
        ("match x:", "    case a{n} if c{n}: b{n} = 1", ""),
        ("try: pass", "except E{n} as e{n}: a{n} = 1", ""),
        ("try: pass", "except* E{n} as e{n}: a{n} = 1", ""),
        ("try:", "    a{n} = 1\n    del a{n}", "except E: pass"),
        ("", "def f{n}():\n    global a{n}\n    if c: a{n} = 1", ""),
        ("x = (1", "and (a{n} := 1)", ")"),
        ("", "import a{n}\na{n} = 1", ""),
    ],
    ids=["if", "with", "for", "match", "try", "except*", "del", "def", "and", "import"],
)
def test_a_cell_eight_times_as_long_takes_no_square_of_the_time(before, line, after):
    short, long = (
        "\n".join([before, *(line.format(n=n) for n in range(count)), after]) for count in (500, 500 * LONGER)
    )
    assert measure(long) <= MOST_RATIO * measure(short)


def check_free(source, *names):
    builtins = {"print", "get_ipython", "len", "range", "Exception"}
    assert [name for name in find_free_names([source]) if name not in builtins] == sorted(names)


@pytest.mark.parametrize(
    ("source", "free"),
    [
        ("def step(b: Batch, *c: Rest, d: Key = 1) -> Loss: pass", ["Batch", "Key", "Loss", "Rest"]),
        ("x: Batch = 3", ["Batch"]),
        ("x: Batch", ["Batch"]),
        ("@dataclass\nclass C:\n    net: NetConfig", ["NetConfig", "dataclass"]),
        ("def f():\n    x: Batch = 3", []),
    ],
)
def test_annotations_are_read_where_they_are_defined_and_may_lack(source, free):
    check_free(source, *free)
    assert set(free) - {"dataclass"} == set(find_optional_names([source]))


@pytest.mark.parametrize(
    ("source", "free"),
    [
        ("class Trainer:\n    def evaluate(self):\n        return evaluate(self)", ["evaluate"]),
        ("class C:\n    lr = .1\n    def f(self): return lr", ["lr"]),
        ("class C:\n    lr = .1\n    half = lr / 2", []),
        ("class C:\n    net = net", ["net"]),
        ("class C:\n    def copy(self): return C()", []),
        ("class C:\n    copy = C()", ["C"]),
        ("class C:\n    class D:\n        def copy(self): return D()", ["D"]),
        ("class C:\n    sizes = [lr for n in (lr,)]\n    lr = 1", ["lr"]),
        ("class C:\n    def f(self): return __class__", []),
        ("def f():\n    net = 1\n    def g(): return net\n    return g", []),
        ("def f():\n    return net\n    net = 1", []),
        ("def f():\n    n = 0\n    def g():\n        nonlocal n\n        n += 1", []),
        ("def f():\n    net = 1\n    def g():\n        global net\n        return net", ["net"]),
    ],
)
def test_scopes_are_those_of_python(source, free):
    check_free(source, *free)


@pytest.mark.parametrize(
    ("before", "needed"),
    [
        ("if fresh:\n    model = Net()", True),
        ("if fresh:\n    model = Net()\nelse:\n    model = load()", False),
        ("for model in models:\n    pass", True),
        ("while fresh:\n    model = Net()", True),
        ("try:\n    model = Net()\nexcept OSError:\n    pass", True),
        ("try:\n    model = Net()\nexcept OSError:\n    raise", False),
        ("try:\n    model = Net()\nfinally:\n    stop()", False),
        ("match fresh:\n    case 1:\n        model = Net()", True),
        ("match fresh:\n    case 1:\n        model = Net()\n    case _:\n        model = 1", False),
        ("fresh and (model := Net())", True),
        ("with fresh:\n    model = Net()", False),
        ("with suppress(E):\n    model = Net()", True),
        ("with open(x) as file, contextlib.suppress(E), open(y) as model:\n    pass", True),
        ("with open(x) as model, contextlib.suppress(E):\n    pass", False),
        ("with suppress(E) as model:\n    raise E", False),
        ("model = 1\nwith suppress(E):\n    fit()\n    del model", True),
        ("for x in y:\n    pass\nelse:\n    model = 1", False),
        ("for x in y:\n    if x:\n        break\nelse:\n    model = 1", True),
        ("while (model := fresh()):\n    pass", False),
        ("a < (model := 1)", False),
        ("a < b < (model := 1)", True),
        ("try:\n    assert fresh, (model := 1)\nexcept E:\n    pass", True),
        ("[x for x in y if (model := x)]", True),
        ("match fresh:\n    case model if fresh:\n        pass", True),
        ("match fresh:\n    case 1:\n        model = 1\n    case _:\n        raise E", False),
        ("try:\n    model = Net()\nexcept* E:\n    model = 1\nexcept* F:\n    del model", True),
        ("def f():\n    global model\n    model = Net()", True),
    ],
)
def test_only_a_certain_assignment_ends_a_need(before, needed):
    assert ("model" in find_free_names([f"{before}\nfit(model)"])) is needed
    assert "model" in find_makers([before])


@pytest.mark.parametrize(
    ("source", "free"),
    [
        ("try:\n    pass\nexcept Exception as e:\n    print(e)", []),
        ("match 1:\n    case [a, *b]:\n        print(a, b)\n    case {'x': c, **d}:\n        print(c, d)", []),
        ("match 1:\n    case Point(x=a) as b:\n        print(a, b)", ["Point"]),
        ("[y for x in range(3) if (y := x)]", []),
        ("%%capture out\nprint(1)", []),
        ("%%capture --no-stderr out\nprint(x)", ["x"]),
        ("%memit f(x)", ["f", "x"]),
        ("%lprun -f g g(x)", ["g", "x"]),
        ("%lprun -f net.fit -u 1e-3 run(x)", ["net", "run", "x"]),
        ("%prun -s cumulative -l 10 f(x)", ["f", "x"]),
        ("%%timeit -n10 y = 1\nf(y)", ["f"]),
        ("%run t.py --lr {lr}", ["lr"]),
        ("%cd {folder / 'a'}", ["folder"]),
        ("!{expr(x)}", ["expr", "x"]),
        ("!echo {x!r} {(lambda y: x)(1)}", ["x"]),
        ("!echo {x} {y:>{width}}", []),  # IPython knows no formats, and leaves the whole line as it is
        ("!echo " + "{x:" * 2000 + "}" * 2000, []),
        ("files = !ls {folder}", ["folder"]),
        ("!awk '{print $1}' {folder}", []),
        ("!find . -exec rm {} \\;", []),
        ("%debug {x}", []),
        ("%%bash -s {x}\necho {y} $z", ["x"]),
        ("%%sx\necho {y}", ["y"]),
    ],
    ids=lambda value: str(value)[:40],
)
def test_names_are_read_as_python_and_ipython_read_them(source, free):
    check_free(source, *free)


@pytest.mark.parametrize("source", ["!ls $HOME", "!for f in *; do echo ${f}; done", "%cd $folder"])
def test_a_name_after_a_dollar_may_lack(source):
    name = find_optional_names([source])
    check_free(source, *name)
    assert len(name) == 1
    assert find_optional_names([source, f"!ls {{{name[0]}}}"]) == []
    assert find_optional_names(["!echo $$HOME"]) == []


@pytest.mark.parametrize(
    ("source", "made"),
    [
        ("exec('x = 1')", ["x"]),
        ("%%bash --out a --err=b --bg\nls", ["a", "b"]),
        ("%%script --proc p bash\nls", ["p"]),
        ("%%sql sqlite:// rows <<\nselect 1", ["rows"]),
        ("%%bigquery df --project x\nselect 1", ["df"]),
        ("def f():\n    global x\n    x = 1", ["f", "x"]),
        ("print(y := 3)", ["y"]),
        ("[y := x for x in range(3)]", ["y"]),
        ("match 1:\n    case [a, *b]:\n        pass", ["a", "b"]),
        ("%%memit\nx = f()", ["x"]),
        ("%memit -r1 x = f()", ["x"]),
        ("%%capture out\nx = 1", ["out", "x"]),
        ("try:\n    x = 1\nexcept OSError as e:\n    pass", ["x"]),
    ],
)
def test_what_makes_a_name_is_known(source, made):
    assert sorted(find_makers([source])) == sorted(find_made_names([source])) == made


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("eval('rate * 2')", ["rate"]),
        ("table.query('a > @limit and b < @other.size')", ["limit", "other"]),
        ("table.eval(f'c = a * @rate + {x}')", ["rate"]),
        ("rate = 1\neval('rate * 2')", []),
        ("eval(text)", []),
        ("eval('no python at')", []),
        ("query('@limit')", []),
    ],
)
def test_names_in_texts_that_are_evaluated_go_along_if_the_kernel_has_them(source, names):
    assert [name for name in find_optional_names([source])] == names
