"""The process that keeps the service running ends with it, starts it again, and hands a stop on."""

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path

import pytest

from jupyter_gq.hub import keep_running
from tests.patience import scaled
from tests.process_signals import blocked_signals, handled_signals

#: A command that tells its id, and ends when its input does.
WAITS = "import os; print(os.getpid(), flush=True); input()"


@pytest.fixture
def start():
    """Keep a command of Python running; return the process that does, and the id of the command's process."""
    started = []

    def start_command(code, **how):
        program = subprocess.Popen(
            [sys.executable, Path(keep_running.__file__), "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            **how,
        )
        started.append(program)
        return program, int(program.stdout.readline())

    yield start_command
    for program in started:
        program.kill()  # the command ends with it
        program.communicate()


@pytest.mark.parametrize("stop", [signal.SIGTERM, signal.SIGINT])
def test_a_stop_reaches_the_command_and_ends_both(start, stop):
    program, command = start(WAITS)
    program.send_signal(stop)
    assert program.wait(scaled(30)) == 0
    assert not Path(f"/proc/{command}").exists()


def test_a_command_that_ends_by_itself_is_not_started_again(start):
    program, _ = start("import os, sys; print(os.getpid(), flush=True); sys.exit(3)")
    assert program.wait(scaled(30)) == 3
    assert program.stdout.read() == ""


def test_a_command_ends_also_where_the_signal_of_that_was_ignored(start):
    ignore = partial(signal.signal, signal.SIGCHLD, signal.SIG_IGN)
    program, _ = start("import os, sys; print(os.getpid(), flush=True); sys.exit(3)", preexec_fn=ignore)
    assert program.wait(scaled(30)) == 3


def test_a_command_takes_a_stop_also_where_that_was_ignored(start):
    program, _ = start(WAITS, preexec_fn=partial(signal.signal, signal.SIGTERM, signal.SIG_IGN))
    program.terminate()
    assert program.wait(scaled(30)) == 0


def test_a_command_that_ends_in_silence_is_told_by_its_exit_code(start):
    program, _ = start("import os; print(os.getpid(), flush=True); os._exit(4)", stderr=subprocess.PIPE)
    assert program.wait(scaled(30)) == 4
    assert program.stderr.read().startswith(
        "The scheduler service has ended with exit code 4. If no line above says why"
    )


def test_what_kills_a_command_again_and_again_is_told_once(start):
    dies = "import os; print(os.getpid(), flush=True); os.kill(os.getpid(), 9)"
    program, _ = start(dies, stderr=subprocess.PIPE)
    program.stdout.readline()
    program.stdout.readline()
    program.terminate()
    assert program.wait(scaled(30)) == 0
    said = program.stderr.read()
    assert said.startswith("The scheduler service was ended by SIGKILL, and is started again.")
    assert said.count("SIGKILL") == 1


def test_a_killed_command_is_started_again(start):
    program, command = start(WAITS)
    os.kill(command, signal.SIGKILL)
    assert int(program.stdout.readline()) != command
    assert program.poll() is None


def test_no_stop_is_missed_because_it_comes_right_before_a_wait(start):
    program, command = start(WAITS)
    assert signal.SIGTERM not in handled_signals(program.pid), "a handler would run after the wait"
    assert blocked_signals(command) == set(), "the command gets each signal as usual"
