"""The source of a cell is checked before it runs."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.inputtransformer2 import TransformerManager

from jupyter_gq.lab.bundle.assignments import find_assignments, is_literal
from jupyter_gq.lab.bundle.variable_reads import find_read_variables
from jupyter_gq.lab.effects.effects import find_effects
from jupyter_gq.lab.project.references import find_references
from jupyter_gq.lab.reading import cells, ipython_cells, parsing
from jupyter_gq.lab.reading.ipython_cells import transform
from jupyter_gq.lab.reading.names import find_free_names, find_made_names


@pytest.mark.parametrize(
    "source",
    [
        "x = 1",
        "%time x = 1",
        "%%bash\nfor i in 1 2; do echo $i; done",
        "!ls -l\nfiles = !ls",
        "len?",
        "await fetch()\nasync for x in y():\n    pass",
        "    indented = 1",
        "s = '\\d'",
        "%matplotlib inline\nimport os",
        "pip install -q torch",
        "\ncd data/raw\n",
        "run train.py --epochs 3",
        "time model = fit(x)",
        "",
    ],
)
def test_source_that_ipython_can_run_has_no_fault(source):
    assert cells.find_syntax_error(source) is None


@pytest.mark.parametrize(
    ("source", "line", "text"),
    [
        ("x = 1\nfor\n", 2, "for"),
        ("%time\nprint 'hi'", 2, "print 'hi'"),
        ("def f(:\n    pass", 1, "def f(:"),
        ("x = (1,\n", 1, "x = (1,"),
        ("print 'hi'", 1, "print 'hi'"),
        ("# first\npip install torch", 2, "pip install torch"),  # IPython knows such magics in cells of one line only
        ("env =", 1, "env ="),
        ("s = 'abc", 1, "s = 'abc"),
        ("return 5 +", 1, "return 5 +"),
    ],
)
def test_fault_quotes_the_line_as_it_is_written(source, line, text):
    fault = cells.find_syntax_error(source)
    assert (fault.line, fault.text) == (line, text)
    assert f"in line {line}: {text}" in fault.sentence


def test_a_null_character_is_a_fault_not_a_crash():
    assert cells.find_syntax_error("x = '\0'") is not None


def test_a_long_line_is_cut_in_the_sentence():
    assert len(cells.find_syntax_error("x = (" + "1" * 500).sentence) < 150


@pytest.mark.parametrize(
    ("source", "python", "nothing"),
    [
        ("", True, True),
        ("  \n\t\n", True, True),
        ("# later\n  # more", True, True),
        ("# a comment in Markdown's heading", False, False),
        ("x", True, False),
        ("%%time", True, False),
    ],
)
def test_cell_without_code_is_empty(source, python, nothing):
    assert cells.is_empty(source, python) is nothing


def test_title_is_the_first_line_of_code():
    assert cells.make_title("\n# load\n\nx = 1\ny = 2") == "x = 1"
    assert cells.make_title("# only words") == "# only words"
    assert cells.make_title("") == ""
    assert len(cells.make_title("x" * 500)) == 60


def test_only_a_higher_python_version_is_newer():
    major, minor = sys.version_info[:2]
    assert cells.is_newer_python(f"{major}.{minor + 1}.0")
    assert not cells.is_newer_python(f"{major}.{minor}.99")
    assert not cells.is_newer_python("")


@pytest.mark.parametrize(
    "source",
    [
        "total = " + " + ".join(f"x{number}" for number in range(700)),
        "total = x0" + "".join(f".add(x{number})" for number in range(1, 700)),
        "if x0: pass\n" + "".join(f"elif x{number}: pass\n" for number in range(1, 300)) + "else: total = 1",
        "total = " + "[" * 150 + "x0" + "]" * 150,
    ],
    ids=["a sum", "a chain of calls", "many elifs", "nested lists"],
)
def test_a_deep_cell_is_read_like_any_other(source):
    """Such code comes from generators, such as those of symbolic algebra, and runs in a kernel."""
    assert cells.find_syntax_error(source) is None
    needed = set(find_free_names([source]))
    assert needed == {f"x{number}" for number in range(source.count("x"))}
    assert find_made_names([source]) == ["total"]
    assert find_effects(source) == []
    assert not find_read_variables([source]).read
    tree = cells.parse_cell(source)
    assert tree is not None
    assert not find_references(tree).imports


def test_a_cell_that_is_too_deep_for_this_process_is_not_judged():
    source = "x = " + "-" * 100_000 + "1"
    assert cells.find_syntax_error(source) is None
    assert cells.parse_cell(source) is None


def test_the_tree_of_a_cell_is_made_once_for_many_questions_and_kept_within_bounds(monkeypatch):
    monkeypatch.setattr(parsing, "_MOST_KEPT", 100)
    first = cells.parse_cell("first = 1")
    assert cells.find_syntax_error("first = 1") is None
    assert cells.parse_cell("first = 1") is first
    for number in range(20):
        cells.parse_cell(f"other = {number}")
    assert cells.parse_cell("first = 1") is not first, "the oldest trees are forgotten"


def test_a_cell_with_a_megabyte_of_data_is_not_read_and_its_user_is_told():
    source = "words = [" + "'word', " * 160_000 + "]"
    assert cells.is_unread(source)
    assert (cells.find_syntax_error(source), cells.parse_cell(source)) == (None, None)
    assert find_effects(source) == []


def test_python_is_read_in_one_pass_and_magics_in_as_many_as_there_is_time_for(monkeypatch):
    """IPython's transformer goes through the whole cell once more for each magic that hides lines below it."""
    monkeypatch.setattr(parsing, "_MOST_TRANSFORMED", 10_000)
    plain = "x = 1\n" * 2000
    assert not cells.is_unread(plain)
    assert not cells.is_unread("!echo (\n" * 10)
    assert cells.is_unread("!echo [\n" * 100)


def test_hundreds_of_magics_are_read_together(monkeypatch):
    """IPython itself would read the cell once more for each of them, in nine seconds."""
    monkeypatch.setattr(parsing, "_MOST_TRANSFORMED", 100_000)
    assert not cells.is_unread("if True:\n" + "    !echo 'hello world'\n    %time x = 1\n" * 240)


LINES = [
    *(
        "x = 1",
        "if x:",
        "    y = 2",
        "    !ls -l",
        "!echo 'a' {x}",
        "!echo it's",
        "!echo (",
        "!echo )",
        "%time f(",
        ")",
    ),
    *(
        '!echo """',
        'text = """',
        '"""',
        "files = !ls \\",
        "  -a",
        "x?",
        "x = %pwd",
        "def f():",
        "    %cd ..",
        "?x",
        "/f 1",
    ),
    *(
        "!ls \\",
        "[",
        "]",
        "",
        "# !ls",
        "x = [1,",
        "  2]",
        "!!ls",
        ",f a b",
        "a = b = !ls",
        "%%time",
        "f(x)?",
        "else:",
        "/",
    ),
]


@given(st.lists(st.sampled_from(LINES), max_size=12))
def test_magics_that_are_read_together_become_what_ipython_makes_of_them(lines):
    source = "\n".join(lines)
    assert in_python(lambda: transform(source, 10**9)) == in_python(lambda: TransformerManager().transform_cell(source))


def in_python(transformed):
    """Return the Python of a cell; "" if it has a syntax error."""
    try:
        code = transformed()
        compile(code, "<cell>", "exec")
    except SyntaxError:
        return ""
    return code


def test_a_cell_with_more_commands_than_ipython_runs_is_refused():
    fault = cells.find_syntax_error("!echo\n" * 501)
    assert fault is not None
    assert "500 or more magics and commands" in fault.sentence


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ("  # a comment\n  x = 1\n  y = 2", ["x", "y"]),
        ("In [1]: x = 1\nIn [2]: y = 2", ["x", "y"]),
        ("\n \n  x = 1", ["x"]),
        ("%matplotlib inline\nx = 1", ["x"]),
        ("x = !ls", ["x"]),
    ],
)
def test_a_cell_is_read_as_ipython_runs_it(source, names):
    assert find_made_names([source]) == names


@pytest.mark.parametrize("rest", ["1+" * 400_000 + "1", "$" * 800_000, "\n" * 300_000])
def test_a_cell_with_magics_and_many_signs_is_refused_before_it_is_divided_into_tokens(monkeypatch, rest):
    """A token takes about as long as any other, however short it is."""
    monkeypatch.setattr(ipython_cells, "make_tokens_by_line", read_nothing)
    assert cells.is_unread(f"!ls\n{rest}")


def test_a_line_that_ipython_would_copy_at_each_of_its_quotes_is_refused_before(monkeypatch):
    monkeypatch.setattr(TransformerManager, "transform_cell", read_nothing)
    assert cells.is_unread("!ls\n" + "'''" * 200_000)


def read_nothing(*_):
    raise AssertionError("the cell is read")


def test_the_transformer_reads_no_more_tokens_than_it_may(monkeypatch):
    """Each of these commands hides the others, so the cell is read once more for each."""
    tokens = []
    read = ipython_cells.make_tokens_by_line

    def noted(lines):
        found = read(lines)
        tokens.extend(found)
        return found

    monkeypatch.setattr(ipython_cells, "make_tokens_by_line", noted)
    monkeypatch.setattr(parsing, "_MOST_TRANSFORMED", 30_000)
    assert cells.is_unread("\n".join(f'!echo {{x{number}}} "$(' for number in range(480)))
    assert 0 < sum(map(len, tokens)) <= 30_000


def test_the_lines_that_magics_copy_count_as_well(monkeypatch):
    monkeypatch.setattr(parsing, "_MOST_TRANSFORMED", 90_000)
    assert not cells.is_unread("!ls\n" * 10 + "\n" * 10_000)
    assert cells.is_unread("!ls\n" * 480 + "\n" * 10_000)


@pytest.mark.parametrize(
    "source",
    [
        'f"' + "{x}" * 100_000 + '"',
        "Rf'''" + "{x}\n" * 50_000 + "'''",
        '# "\rx = fr"' + "{x}" * 50_000 + '"',
        "'\\\\' 'it\\'s' + f'" + "{x}\\\n" * 50_000 + "'",
        "!ls 'a\nf'" + "{x}" * 50_000 + "'",
        "f'{f\"" + "{x}" * 50_000 + "\"}'",
        "f'{x:" + "{y}" * 50_000 + "}'",
        "f'" + "{x}" * 50_000,
    ],
)
def test_a_text_with_so_many_fields_that_python_would_stop_the_server_is_not_read(monkeypatch, source):
    monkeypatch.setattr(parsing, "compile", refuse_long, raising=False)
    assert cells.is_unread(source)
    assert find_assignments(source) == []
    assert not is_literal(source)


def refuse_long(source, *others):
    assert len(source) < 1000, "Python reads the whole source again for each field"
    return compile(source, *others)


@pytest.mark.parametrize(
    "source",
    [
        '# f"' + "{x}" * 50_000 + '"',
        'x = "' + "{x}" * 50_000 + '"',
        'x = """f"' + "{x}" * 50_000 + '"""',
        "x = {\n" + '    f"{x}": {"a": 1},\n' * 5_000 + "}",
        "f'''{x}''' + '''" + "{x}\n" * 50_000 + "'''",
        'x = """' + "{'\\\"\n" * 100_000 + '"""',
    ],
)
def test_braces_that_are_no_fields_of_one_text_are_read(source):
    assert cells.parse_cell(source) is not None
