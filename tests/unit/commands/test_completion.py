"""Completion in a real bash: commands, options, values of options and ids of jobs.

Runs the script of docs/how-to/use-the-command-line.md.
"""

import argparse
import shutil
import subprocess

import pytest

from jupyter_gq.app import build_parser, main
from jupyter_gq.commands.completion import make_script

pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash")

#: In place of the command: its list of jobs.
FAKE = "jupyter-gq() { printf 'JOB NAME\\njob-1 a\\njob-2 b\\n'; }\n"


def complete(*words: str, parser: argparse.ArgumentParser | None = None) -> list[str]:
    """Return what bash offers for the last word of a line."""
    script = make_script(parser or build_parser(), "bash")
    line = " ".join(f"'{word}'" for word in ("jupyter-gq", *words))
    ask = f"COMP_WORDS=({line}); COMP_CWORD={len(words)}; _jupyter_gq; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    done = subprocess.run(["bash", "-c", script + FAKE + ask], capture_output=True, text=True, check=True)
    return done.stdout.split()


def test_commands_options_values_and_jobs_are_offered():
    assert complete("ca") == ["cancel"]
    assert complete("jobs", "--st") == ["--state"]
    assert complete("jobs", "--state", "wait") == ["waiting"]
    assert complete("queues", "-o", "") == ["table", "json"]
    assert complete("logs", "job-") == ["job-1", "job-2"]
    assert complete("cancel", "job-1", "l") == ["last"]
    assert complete("logs", "--fo") == ["--follow"]
    assert complete("completion", "") == ["bash", "zsh"]
    assert complete("submit", "x") == [], "bash offers names of files then"


def test_the_command_prints_the_script_of_each_shell(capsys):
    assert main(["completion", "bash"]) == 0
    bash = capsys.readouterr().out
    assert main(["completion", "zsh"]) == 0
    assert capsys.readouterr().out.endswith(bash)
    assert bash == make_script(build_parser(), "bash")
