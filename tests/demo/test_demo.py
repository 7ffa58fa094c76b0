"""The demo command plays its story, leaves no process behind, and says what is wrong."""

import argparse
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import psutil
import pytest

from jupyter_gq.app import main
from jupyter_gq.demo.command import _delete_demo, _hold_folder
from jupyter_gq.demo.processes import DemoError, free_port
from jupyter_gq.store.folder_lock import lock_folder
from tests.kept_logs import LOGS
from tests.patience import scaled

COMMAND = [sys.executable, "-m", "jupyter_gq.app", "demo"]


def processes_with(folder) -> list[str]:
    """Return the processes with this folder in their environment or command line."""
    found = []
    for process in psutil.process_iter():
        try:
            command, environment = process.cmdline(), process.environ().values()
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue
        if process.pid != os.getpid() and any(str(folder) in text for text in (*command, *environment)):
            found.append(f"{process.pid} {' '.join(command)}")
    return found


@pytest.fixture
def folder():
    """A folder for a demo, which keeps its log there; the longer `tmp_path` leaves no room for the name of a socket."""
    folder = Path(tempfile.mkdtemp(), "demo")
    LOGS.add("demo", folder, "jupyterhub.log", "state/jobs/*/runs/*/*/log")
    yield folder
    LOGS.release("demo", folder)


def test_all_steps_of_the_story_happen(folder):
    ended = subprocess.run(
        [*COMMAND, "--script", "--dir", str(folder)], capture_output=True, text=True, timeout=scaled(1800)
    )
    print(ended.stdout, ended.stderr)
    assert ended.returncode == 0
    assert re.search(r"All \d+ steps happened as expected", ended.stdout)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_the_story_with_every_process_and_its_options_count(folder, end):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    demo = subprocess.Popen(
        [*COMMAND, "--script", "--port", str(port), "--dir", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        told = demo.stdout.readline()
        while "what happened" not in told:
            line = demo.stdout.readline()
            assert line, f"the story ended early:\n{told}"
            told += line
        assert f"http://127.0.0.1:{port}" in told
        assert processes_with(folder)
        demo.send_signal(end)
        told += demo.stdout.read()
        demo.wait(timeout=scaled(300))
    finally:
        demo.kill()
        demo.stdout.close()
    assert demo.returncode == 1
    assert "A signal ended it." in told
    assert "Traceback" not in told
    assert (folder / "jupyterhub.log").exists()
    assert processes_with(folder) == []


def test_the_story_begins_in_an_empty_folder_and_deletes_nobody_elses_files(tmp_path):
    precious = tmp_path / "thesis.tex"
    precious.write_text("all of it")
    for options, words in ((), "is not empty"), (("--reset",), "is no folder of a demo"):
        ended = subprocess.run(
            [*COMMAND, "--script", "--dir", str(tmp_path), *options],
            capture_output=True,
            text=True,
            timeout=scaled(120),
        )
        assert ended.returncode == 1
        assert words in ended.stderr
        assert precious.exists()
    ended = subprocess.run(
        [*COMMAND, "--reset", "--dir", str(tmp_path), "--port", str(free_port())],
        capture_output=True,
        text=True,
        timeout=scaled(120),
    )
    assert "is no folder of a demo" in ended.stderr


def works_in(folder):
    """The service of a demo whose command was killed works in the folder."""
    return lock_folder(folder / "jupyter-gq-state")


def begins_in(folder):
    """Another demo has begun in the folder, and its service does not run yet."""
    return _hold_folder(argparse.Namespace(dir=folder, script=False))


@pytest.mark.parametrize("options", [[], ["--reset"], ["--script"], ["--script", "--reset"]])
@pytest.mark.parametrize("holds", [works_in, begins_in])
def test_the_folder_of_a_demo_that_runs_is_refused_and_kept(tmp_path, capsys, holds, options):
    (tmp_path / "jupyterhub.log").touch()
    with holds(tmp_path):
        assert main(["demo", "--dir", str(tmp_path), *options]) == 1
    printed = capsys.readouterr()
    assert "another demo runs in it" in printed.err
    assert printed.out == "", "nothing was started"
    assert (tmp_path / "jupyterhub.log").exists()


def test_the_hub_that_a_killed_demo_left_is_named(tmp_path, capsys):
    shell = subprocess.Popen(["sleep", "600"], cwd=tmp_path)
    hub = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", "jupyterhub"], cwd=tmp_path)
    try:
        with works_in(tmp_path):
            assert main(["demo", "--dir", str(tmp_path)]) == 1
    finally:
        for process in (shell, hub):
            process.kill()
            process.wait()
    assert f"another demo runs in it (its Hub is process {hub.pid})" in capsys.readouterr().err


def test_a_reset_deletes_the_files_and_keeps_the_folder_held(tmp_path):
    (tmp_path / "jupyterhub.log").touch()
    (tmp_path / "homes" / "ann").mkdir(parents=True)
    (tmp_path / "link").symlink_to("/etc")
    with begins_in(tmp_path):
        _delete_demo(tmp_path)
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(DemoError, match="another demo runs in it"), begins_in(tmp_path):
            pass
    with begins_in(tmp_path):
        _delete_demo(tmp_path)


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_signal_ends_the_demo_with_all_processes_that_it_started(folder, end):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    demo = subprocess.Popen(
        [*COMMAND, "--port", str(port), "--dir", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        welcome = ""
        while "Ctrl-C ends everything" not in welcome:
            line = demo.stdout.readline()
            assert line, f"the demo ended early:\n{welcome}"
            welcome += line
        assert f"http://127.0.0.1:{port}" in welcome
        assert processes_with(folder)
        demo.send_signal(end)
        demo.wait(timeout=scaled(300))
    finally:
        demo.kill()
        demo.stdout.close()
    assert demo.returncode == 0
    assert processes_with(folder) == []


@pytest.mark.parametrize("script", [(), ("--script",)])
def test_error_for_a_port_in_use_says_what_to_do(tmp_path, script):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ended = subprocess.run(
            [*COMMAND, *script, "--port", str(port), "--dir", str(tmp_path)],
            capture_output=True,
            text=True,
            timeout=scaled(120),
        )
    assert ended.returncode == 1
    assert f"Port {port} is in use" in ended.stderr
    assert "--port" in ended.stderr
    assert "Traceback" not in ended.stderr
