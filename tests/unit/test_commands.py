"""The help of the whole command: each command is listed once, in a group."""

import re
from importlib import import_module

import pytest

from jupyter_gq.app import build_parser, main
from jupyter_gq.command_table import COMMANDS, GROUPS


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
