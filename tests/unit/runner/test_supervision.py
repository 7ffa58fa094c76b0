"""The supervisor of a task ends after every process that the task has started."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from jupyter_gq.devices.linux.processes import read_process
from tests.patience import scaled, until
from tests.process_signals import blocked_signals, handled_signals

ROOT = Path(__file__).parents[3]
#: A task that leaves a process without its environment, its session and its parent, and then does `argv[3]`.
LEAVES_A_DAEMON = """
import os, signal, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from jupyter_gq.runner.processes import supervise
supervise()
subprocess.run(["env", "-i", "setsid", "sh", "-c", f"sleep 1000 & echo $! > {sys.argv[2]}/daemon"], check=True)
exec(sys.argv[3])
"""


@pytest.fixture
def start(tmp_path):
    """Start a supervised task that leaves a daemon and then runs this code; return the supervisor."""
    started = []

    def start_task(code):
        command = [sys.executable, "-c", LEAVES_A_DAEMON, str(ROOT), str(tmp_path), code]
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        return started[-1]

    yield start_task
    for process in started:
        process.kill()
        process.wait()
        if daemon_runs(tmp_path):  # it holds the other end of the pipe
            os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)
        process.communicate()


def daemon_runs(tmp_path):
    process = read_process(int((tmp_path / "daemon").read_text()))
    return process is not None and not process.dead


@pytest.mark.parametrize(
    ("code", "exit_code"),
    [
        ("sys.exit(3)", 3),
        ("os.kill(os.getpid(), signal.SIGKILL)", -signal.SIGKILL),
        ("os.kill(os.getpid(), signal.SIGTERM)", -signal.SIGTERM),
    ],
)
def test_daemon_ends_with_its_task_however_that_ends(start, tmp_path, code, exit_code):
    assert start(code).wait(scaled(30)) == exit_code
    assert not daemon_runs(tmp_path)


def test_supervisor_ends_after_a_program_that_forks_and_ends_for_ever(start):
    code = """
until = time.monotonic() + 60  # so that it ends also where the supervisor does not see to that
if os.fork() == 0:
    os.setsid()
    while time.monotonic() < until:
        if os.fork():
            os._exit(0)
    os._exit(0)
sys.exit(3)
"""
    supervisor = start(code)
    assert supervisor.wait(scaled(60)) == 3
    ended, _, _ = select.select([supervisor.stdout], [], [], 0)
    assert ended, "a process of the task still holds the other end"


def test_supervisor_sees_the_end_of_its_task_where_the_signal_of_that_was_ignored(tmp_path):
    code = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from jupyter_gq.runner.processes import supervise
signal.signal(signal.SIGCHLD, signal.SIG_IGN)
supervise()
sys.exit(3)
"""
    assert subprocess.run([sys.executable, "-c", code, str(ROOT)], timeout=scaled(30), check=False).returncode == 3


def test_sigterm_reaches_the_task(start):
    code = """
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
print('ready', flush=True)
while True: time.sleep(0.05)  # one long wait would miss a signal that comes right before it
"""
    supervisor = start(code)
    assert supervisor.stdout.readline() == "ready\n"
    supervisor.terminate()
    assert supervisor.wait(scaled(30)) == 7


def test_no_stop_is_missed_because_it_comes_right_before_a_wait(start):
    supervisor = start("print(os.getpid(), flush=True)\ntime.sleep(1000)")
    task = int(supervisor.stdout.readline())
    assert signal.SIGTERM not in handled_signals(supervisor.pid), "a handler would run after the wait"
    assert blocked_signals(task) == set(), "the task gets each signal as usual"
    os.kill(task, signal.SIGKILL)
    assert supervisor.wait(scaled(30)) == -signal.SIGKILL


def test_task_ends_with_a_killed_supervisor(start, tmp_path):
    supervisor = start("print(os.getpid(), flush=True)\ntime.sleep(1000)")
    task = int(supervisor.stdout.readline())
    supervisor.kill()
    assert supervisor.wait(scaled(30)) == -signal.SIGKILL
    os.kill(int((tmp_path / "daemon").read_text()), signal.SIGKILL)
    assert supervisor.stdout.read() == "", "the task holds the other end until it has ended"
    # Its end of the pipe is closed a moment before its state changes.
    until(lambda: (process := read_process(task)) is None or process.dead)
