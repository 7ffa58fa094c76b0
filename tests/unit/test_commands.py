"""The help of the whole command: each command is listed once, in a group."""

import contextlib
import os
import re
import subprocess
import sys
from importlib import import_module

import pytest

from jupyter_gq.app import build_parser, main
from jupyter_gq.command_table import COMMANDS, GROUPS
from tests.patience import PATIENCE, scaled


def test_the_help_lists_each_command_once_below_the_title_of_its_group():
    text = build_parser().format_help()
    assert re.findall(r"^  ([a-z][a-z-]*)(?= )", text, re.MULTILINE) == list(COMMANDS)
    places = [text.index(f"\n{title}:\n") for title in GROUPS]
    assert places == sorted(places)
    assert len(COMMANDS) == sum(map(len, GROUPS.values()))


def test_the_command_without_words_prints_its_help_and_is_refused(capsys):
    assert main([]) == 2
    assert capsys.readouterr().err == build_parser().format_help()


@pytest.mark.parametrize("name", COMMANDS)
def test_the_module_of_each_command_can_run_it(name):
    command = COMMANDS[name]
    module = import_module(command.module)
    assert hasattr(module, command.application) if command.application else module.run and module.add_arguments


def test_what_a_command_does_not_know_is_told_with_its_own_usage(capsys):
    with pytest.raises(SystemExit) as ended:
        main(["queues", "--since", "x"])
    assert ended.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("usage: jupyter-gq queues [-h]")
    assert said.endswith("jupyter-gq queues: error: unknown arguments: --since x\n")


@pytest.mark.parametrize("line", [["submit", "a.py", "--dry-run"], ["check-config", "f.py"]])
def test_a_present_folder_that_is_deleted_is_told_in_a_sentence(tmp_path, monkeypatch, capsys, line):
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "a-token")
    monkeypatch.setenv("JUPYTER_GQ_URL", "http://127.0.0.1:1/services/jupyter-gq")
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    code, err = main(line), capsys.readouterr().err
    assert code == 2
    assert err.startswith("jupyter-gq: the present folder does not exist any more. Go to another one")


@pytest.mark.parametrize("name", ["service", "agent"])
def test_words_that_are_no_settings_start_no_program(tmp_path, name):
    """In a process of its own, whose log it would set up."""
    environment = {**os.environ, "JUPYTER_GQ_STATE_DIR": str(tmp_path), "NODE_NAME": "none"}
    line = [sys.executable, "-m", "jupyter_gq.app", name, "nope", "never"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, env=environment, timeout=scaled(PATIENCE))
    assert done.returncode == 2
    assert f"jupyter-gq {name}: unknown arguments: nope never\n" in done.stderr


def test_the_help_of_change_lists_first_what_can_be_changed():
    text = build_parser(["change"])._subparsers._group_actions[0].choices["change"].format_help()
    options = re.findall(r"^  (?:-\w, |-o .*, )?(--[a-z-]+)", text, re.MULTILINE)
    assert options.index("--priority") < options.index("--max-time") < options.index("--url")


def imported_by(*line):
    """Return the modules of commands that a process imports which reads that command line."""
    code = (
        "import sys\nfrom jupyter_gq.app import main\ntry:\n    main(sys.argv[1:])\nfinally:\n    print(*sys.modules)"
    )
    ended = subprocess.run([sys.executable, "-c", code, *line], capture_output=True, text=True)
    return {each.module for each in COMMANDS.values()} & set(ended.stdout.split())


@pytest.mark.parametrize("line", [["--help"], ["queues", "--help"], ["login", "logout"]])
def test_a_command_imports_no_module_of_another_one(line):
    assert imported_by(*line) == {COMMANDS[name].module for name in line[:1] if name in COMMANDS}


def test_the_script_for_a_shell_knows_the_options_of_all_commands():
    assert len(imported_by("completion", "bash")) > len(COMMANDS) / 2


@pytest.mark.parametrize("line", [["submit", "{}.py"], ["jobs", "--{}"]])
def test_no_error_writes_a_control_character_of_an_argument_to_the_terminal(line, capsys):
    text = "\x1b[31mred\x07"
    with contextlib.suppress(SystemExit):
        main([part.format(text) for part in line])
    err = capsys.readouterr().err
    assert "red" in err
    assert "\x1b" not in err
    assert "\x07" not in err
