"""The script that a cell runs by `%run` is read like the cell itself."""

import ast
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from jupyter_gq.lab.bundle.dependents import find_dependents
from jupyter_gq.lab.bundle.job_senders import leave_out_senders
from jupyter_gq.lab.bundle.variable_reads import find_read_variables
from jupyter_gq.lab.effects import effects
from jupyter_gq.lab.effects.effects import find_effects, find_effects_in_order
from jupyter_gq.lab.effects.process_state import find_process_state
from jupyter_gq.lab.project.needed import Caps, Code, find_needed
from jupyter_gq.lab.reading.cells import parse_cell
from jupyter_gq.lab.reading.lookups import find_lookups
from jupyter_gq.lab.reading.magics import list_trees, read_magic
from jupyter_gq.lab.reading.names import find_free_names, find_made_names
from jupyter_gq.lab.reading.scripts import find_script, reading_scripts

SCRIPT = """
import os, numpy as np
np.random.seed(3)
rate = float(os.environ["RATE"]) * factor
def keep(table):
    table.to_csv("kept.csv")
if __name__ == "__main__":
    open("log.txt", "w")
    name = input()
    print(__file__)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path):
    (tmp_path / "other.py").write_text(SCRIPT)
    with reading_scripts(tmp_path):
        yield tmp_path


def kinds(source):
    return {(each.kind, each.what) for each in find_effects(source)}


@pytest.mark.parametrize(
    "line",
    ["%run other.py", "%run other", "run other.py", "%run -i other.py --lr 0.1", "%run -m other", "%run 'other.py'"],
)
def test_the_script_has_the_effects_of_its_cell(line):
    assert kinds(line) == {("writes_files", "log.txt"), ("asks_for_input", "")}
    assert kinds(f"if True:\n    {line}" if line.startswith("%") else line) == kinds(line)


def test_what_the_script_defines_is_known_to_later_cells():
    later = find_effects_in_order(["%run other.py", "keep(1)"])[1]
    assert [each.what for each in later] == ["kept.csv"]
    assert find_made_names(["%run other.py"]) == ["rate", "keep", "name"]
    assert "keep" not in find_free_names(["%run other.py", "keep(1)"])
    assert find_dependents(["%run other.py\nprint(rate)", "print(net)"], ["net = rate = 1"]) == [[], ["net"]]


def test_the_script_deletes_names_of_the_notebook_only_if_it_shares_them(folder):
    (folder / "less.py").write_text("import rate\nrate = 1\nname = 1\ndel name, other\n")
    cells = "name = other = 1\n"
    assert find_made_names([cells + "%run less.py"]) == ["name", "other", "rate"]
    assert find_made_names([cells + "%run -i less.py"]) == ["rate"]
    assert find_made_names([cells + "exec(open('less.py').read())"]) == ["rate"]
    assert find_made_names([cells + "if small:\n    %run -i less.py"]) == ["name", "other", "rate"]


def test_the_script_reads_names_of_the_notebook_only_if_it_shares_them():
    assert "factor" not in find_free_names(["%run other.py"])
    assert "factor" in find_free_names(["%run -i other.py"])
    assert not {"__file__", "__name__"}.intersection(find_free_names(["%run -i other.py"]))
    assert "lr" in find_free_names(["%run other.py --lr {lr}"])
    assert find_lookups(parse_cell("%run -i other.py")) == []
    assert find_lookups(parse_cell("%run -i unknown.py")) == ["%run"]


def test_variables_and_the_state_of_the_process_are_found_in_the_script():
    assert find_read_variables(["%run other.py"]).read == {"RATE": True}
    assert find_process_state(["%run other.py"]) == [["numpy.random.seed"]]


def test_a_cell_whose_script_sends_jobs_is_left_out(folder):
    (folder / "sends.py").write_text("import jupyter_gq as gq\njob = gq.submit(len)\n")
    kept, lost = leave_out_senders(["x = 1\n%run sends.py"])
    assert ("sends.py" in kept[0], lost) == (False, {"gq", "job"})


@pytest.mark.parametrize("source", ["%run 'my script.py'", "%time x = 1\n%run 'my script.py'", "%run -m pack"])
def test_the_script_and_what_it_reads_go_along(folder, source):
    for path in ("my script.py", "pack/__main__.py"):
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text("import nets\nopen('data.csv').read()\nopen('out.csv', 'w')")
    for name in ("nets.py", "data.csv", "out.csv"):
        (folder / name).write_text("1")
    found = find_needed(folder, Code(trees=[parse_cell(source)]), (), Caps(file=1000, job=1000))
    assert {"nets.py", "data.csv"} < set(found.going)
    assert {"my script.py", "pack/__main__.py"}.intersection(found.going)
    assert found.written == ["out.csv"]


def test_the_cells_of_a_notebook_are_read(folder):
    cells = [
        {"cell_type": "markdown", "source": "input()"},
        {"cell_type": "code", "source": ["%pip install torch\n", "a = 1"]},
        {"cell_type": "code", "source": "%%time\nb = 2"},
    ]
    (folder / "nets.ipynb").write_text(json.dumps({"cells": cells}))
    assert kinds("%run nets.ipynb") == {("installs_packages", "")}
    assert find_made_names(["%run nets.ipynb"]) == ["a", "b"]


@pytest.mark.parametrize("name", ["cells.ipy", "cells.ipynb"])
def test_a_file_of_ipython_always_reads_names_of_the_notebook(folder, name):
    source = "y = rate + 1"
    cells = [{"cell_type": "code", "source": source}]
    (folder / name).write_text(json.dumps({"cells": cells}) if name.endswith(".ipynb") else source)
    assert "rate" in find_free_names([f"%run {name}"])


@pytest.mark.parametrize(
    "run",
    [
        "%run {}",
        "%time %run {}",
        "%time run {}",
        "%%time\n%run {}",
        "%%time\nget_ipython().run_line_magic('r' 'un', '{}')",
        "get_ipython().run_line_magic(f'run', f'{}')",
    ],
)
def test_scripts_that_run_each_other_are_read_once(folder, run):
    cells = [{"cell_type": "code", "source": source} for source in (run.format("a.ipynb"), "x = input()")]
    (folder / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert kinds("%run a.ipynb") == {("asks_for_input", "")}
    assert find_made_names(["%run a.ipynb"]) == ["x"]


COMMANDS = [
    *("!python other.py", "!python3 -u other.py --lr 0.1", "!python -m other", "!cd . && python other.py"),
    *("!RATE=1 python other.py", "!nohup /opt/bin/python3.12 ./other.py &", "!torchrun --nproc_per_node 2 other.py"),
    *("%%bash\nexport A=1\npython other.py", "%%time\n!accelerate launch other.py", "out = !python 'other.py'"),
    "import subprocess, sys\nsubprocess.run([sys.executable, 'other.py'])",
    "import os\nos.system('python other.py')",
]


@pytest.mark.parametrize("source", [*COMMANDS, "import runpy\nrunpy.run_path('other.py')"])
def test_a_script_in_a_process_or_namespace_of_its_own_has_effects_and_gives_no_names(source):
    assert kinds(source) == {("writes_files", "log.txt"), ("asks_for_input", "")}
    assert not {"rate", "keep", "name"}.intersection(find_made_names([source]))
    assert "factor" not in find_free_names([source])
    later = find_effects_in_order([source, "keep(1)"])[1]
    assert later == [], "the function of the script is not in the notebook"


def test_a_command_reads_the_variables_of_its_script():
    assert find_read_variables(["!python other.py"]).read == {"RATE": True}
    assert find_read_variables(["import os\nos.environ['RATE'] = '1'\n!python other.py"]).read == {}
    assert find_process_state(["!python other.py"]) == [[]], "it sets nothing in the kernel"
    assert find_process_state(["import runpy\nrunpy.run_path('other.py')"]) == [["numpy.random.seed"]]


EXECUTED = [
    "exec(open('other.py').read())",
    "from pathlib import Path\nexec(Path('other.py').read_text())",
    "exec(compile(open('other.py').read(), 'other.py', 'exec'), globals())",
]


@pytest.mark.parametrize("source", EXECUTED)
def test_code_of_a_file_that_is_executed_counts_as_that_of_the_cell(source):
    assert kinds(source) == {("writes_files", "log.txt"), ("asks_for_input", "")}
    assert {"rate", "keep", "name"} <= set(find_made_names([source]))
    assert "factor" in find_free_names([source])
    assert [each.what for each in find_effects_in_order([source, "keep(1)"])[1]] == ["kept.csv"]
    needs = [] if "globals" in source else ["net"]
    assert find_dependents([source, "print(net)"], ["net = rate = 1"]) == [[], needs]


def test_code_in_a_namespace_of_its_own_gives_no_names():
    source = "exec(open('other.py').read(), {'factor': 1})"
    assert ("writes_files", "log.txt") in kinds(source)
    assert "rate" not in find_made_names([source])
    assert "factor" not in find_free_names([source])


@pytest.mark.parametrize(
    "source", ["exec(text)", "exec(open(name).read())", "exec('x = 1')", "my.exec(open('other.py').read())", "exec()"]
)
def test_other_code_that_is_executed_is_not_known(source):
    assert kinds(source) == set()


def test_a_command_without_a_known_script_or_effect_is_still_a_command(folder):
    (folder / "quiet.py").write_text("import nets\nnets.fit()")
    assert kinds("!python quiet.py") == kinds("!python unknown.py") == {("runs_commands", "python")}
    assert kinds("!pytest other.py") == {("runs_commands", "pytest")}
    assert kinds("!cat other.py; echo other.py") == set()
    assert kinds("%%bash\nfor f in a b; do\n  echo $f\ndone") == set()


def test_a_command_in_another_folder_runs_the_script_there(folder):
    (folder / "part").mkdir()
    (folder / "part/other.py").write_text("open('part.txt', 'w')")
    assert kinds("!cd part && python other.py") == {("writes_files", "part.txt")}


@pytest.mark.parametrize(
    "run",
    [
        *("!python {}", "exec(open('{}').read())", "import runpy\nrunpy.run_path('{}')", "%time !python {}"),
        *("%time exec(open('{}').read())", "import os\nos.system('python {}')"),
    ],
)
def test_scripts_that_run_each_other_in_any_way_are_read_once(folder, run):
    (folder / "a.ipy").write_text(f"{run.format('b.ipy')}\n{run.format('a.ipy')}\nx = input()")
    (folder / "b.ipy").write_text(run.format("a.ipy"))
    found = kinds(run.format("a.ipy"))
    assert found - {("runs_commands", "python")} == {("asks_for_input", "")}
    assert find_read_variables([run.format("a.ipy")]).read == {}


@pytest.mark.parametrize("run", ["%%bash\npython b.py", "%%time\nexec(open('b.py').read())", "%%time\n!python b.py"])
def test_cells_of_a_notebook_run_no_other_script(folder, run):
    (folder / "b.py").write_text(f"{run}\n")
    cells = [{"cell_type": "code", "source": source} for source in (run, "x = input()")]
    (folder / "a.ipynb").write_text(json.dumps({"cells": cells}))
    assert kinds("%run a.ipynb") - {("runs_commands", "python")} == {("asks_for_input", "")}


def test_many_cells_that_run_a_long_script_read_it_once(folder, monkeypatch):
    (folder / "long.py").write_text("def f(): open('a.txt', 'w')\n" + "f()\n" * 100)
    asked = []
    monkeypatch.setattr(effects, "find_destinations", lambda call, names: asked.append(call) or [])
    find_effects_in_order(["!python long.py"] * 50)
    assert 0 < len(asked) < 500


def test_commands_of_a_script_stay_if_a_word_of_them_is_run(folder):
    (folder / "a.ipy").write_text("%%bash\nmake run > run.log\npip install torch")
    assert kinds("%run a.ipy") == {("writes_files", "run.log"), ("installs_packages", "")}


@pytest.mark.parametrize("source", ["exec(open('sends.py').read())", "import runpy\nrunpy.run_path('sends.py')"])
def test_a_cell_that_executes_a_file_which_sends_jobs_is_left_out(folder, source):
    (folder / "sends.py").write_text("import jupyter_gq as gq\njob = gq.submit(len)\n")
    kept, _ = leave_out_senders([f"x = 1\n{source}"])
    assert ("sends.py" in kept[0], "x = 1" in kept[0]) == (False, True)


def test_a_file_that_is_executed_goes_along_with_what_it_reads(folder):
    (folder / "part.py").write_text("import nets\nopen('data.csv').read()\nopen('out.csv', 'w')")
    for name in ("nets.py", "data.csv", "out.csv"):
        (folder / name).write_text("1")
    for source in ("exec(open('part.py').read())", "import runpy\nrunpy.run_path('part.py')"):
        found = find_needed(folder, Code(trees=[parse_cell(source)]), (), Caps(file=1000, job=1000))
        assert {"part.py", "nets.py", "data.csv"} == set(found.going)
        assert found.written == ["out.csv"]


def test_an_argument_called_run_stays(folder):
    (folder / "named.py").write_text("open('run', 'w')")
    assert kinds("%run named.py") == {("writes_files", "run")}


def test_a_script_that_a_script_runs_is_not_read(folder):
    (folder / "a.ipy").write_text("%run b.ipy\n%run a.ipy\nx = input()")
    (folder / "b.ipy").write_text("%run a.ipy")
    assert kinds("%run a.ipy") == {("asks_for_input", "")}


@pytest.mark.parametrize("content", [b"x = " + b"1" * 2**20, b"for", b"\xff\xfe = 1", b"{", b"[]", b'{"cells": [1]}'])
def test_a_script_that_cannot_be_read_has_no_effect(folder, content):
    for name in ("bad.py", "bad.ipynb"):
        (folder / name).write_bytes(content)
        assert kinds(f"%run {name}") == set()


@pytest.mark.parametrize(
    "line",
    [
        *(
            "",
            "-x y",
            "'",
            "none.py",
            "\0.py",
            "~\0.py",
            "~\ud800/a.py",
            "pack",
            "-m",
            "{name}.py",
            "../other.py",
            "~no",
        ),
        "a" * 2**20,
    ],
    ids=ascii,
)
def test_a_line_without_a_script_has_none(folder, line):
    (folder / "pack").mkdir()
    assert find_script(line) is None


def test_scripts_are_read_for_one_request_only_and_not_endlessly_many(folder):
    for number in range(30):
        (folder / f"s{number}.py").write_text("input()")
    assert sum(bool(kinds(f"%run s{number}.py")) for number in range(30)) == 20
    (folder / "other.py").write_text("")
    with reading_scripts(folder):
        assert kinds("%run other.py") == set()


def test_all_scripts_together_are_no_larger_than_a_cell(folder):
    for number in range(4):
        (folder / f"s{number}.py").write_text(f"input()\n{'# a' * 2**17}")
    assert [bool(kinds(f"%run s{number}.py")) for number in range(4)] == [True, True, False, False]


def count_calls(work: Callable[[], object]) -> int:
    """Return how many functions of Python are called by this work, in place of the time that it takes."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(note)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize(
    "run", ["exec(open('long.py').read())", "%run long.py", "import runpy\nrunpy.run_path('long.py')"]
)
def test_a_script_that_many_lines_run_is_read_for_the_first_ones(folder, run):
    (folder / "long.py").write_text("open('log.txt', 'w')\n" + "y = g(1)\n" * 1000)
    tree = parse_cell(f"{run}\n" * 60)
    assert 1 < len(list_trees(tree)) < 10
    assert len(list_trees(tree)) == len(list_trees(tree))
    sources = [f"{run}  # {number}" for number in range(60)]
    assert sum(len(list_trees(parse_cell(source))) for source in sources) < 60 + 10
    assert kinds(f"{run}\n" * 60) == {("writes_files", "log.txt")}


def test_a_script_larger_than_that_is_read_once(folder):
    (folder / "long.py").write_text("y = g(1)\n" * 10_000)
    assert len(list_trees(parse_cell("exec(open('long.py').read())\n" * 5))) == 2


def test_a_script_that_many_commands_run_is_read_once(folder):
    (folder / "long.py").write_text("import os\nos.environ['RATE']\n" + "y = g(1)\n" * 300)

    def read(times: int) -> None:
        assert find_read_variables(["%%bash\n" + "python long.py\n" * times]).read == {"RATE": True}

    read(1)  # the first time, modules may be imported
    assert count_calls(lambda: read(50)) < 3 * count_calls(lambda: read(1))


def test_a_long_chain_of_calls_costs_no_more_than_its_length():
    def count(length: int) -> int:
        calls = [node for node in ast.walk(parse_cell("x" + ".run_path('a')" * length)) if isinstance(node, ast.Call)]
        assert len(calls) == length
        return count_calls(lambda: [read_magic(call) for call in calls])

    assert count(48) < 5 * count(12)


@pytest.mark.parametrize(
    ("source", "is_read"), [("runpy.run_path", True), ("run_path", True), ("x.runpy.run_path", False)]
)
def test_only_the_function_of_runpy_runs_a_script(source, is_read):
    assert (len(list_trees(parse_cell(f"{source}('other.py')"))) == 2) == is_read


@pytest.mark.parametrize(
    ("command", "asks"),
    [
        ("python ask.py", True),
        ("python ask.py < in.txt", False),
        ("python ask.py <<< yes", False),
        ("yes | python ask.py", False),
        ("ls |& sudo -n python ask.py", False),
        ("yes |\n  python ask.py", False),
        ("false || python ask.py", True),
        ("ls | head; python ask.py", True),
        ("python ask.py <(ls)", True),
    ],
)
def test_a_script_that_is_given_its_input_asks_nobody(folder, command, asks):
    (folder / "ask.py").write_text("x = input()\nopen('a.txt', 'w')")
    found = kinds(f"%%bash\n{command}")
    assert (("asks_for_input", "") in found, ("writes_files", "a.txt") in found) == (asks, True)


def test_a_script_that_only_reads_what_it_is_given_is_still_a_command(folder):
    (folder / "ask.py").write_text("x = input()")
    assert kinds("!python ask.py < in.txt") == {("runs_commands", "python")}
