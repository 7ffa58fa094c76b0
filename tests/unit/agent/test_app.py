"""The agent starts with settings that it can use, or says why not; devices are read often enough."""

import os
import sys
import threading
from pathlib import Path

import pytest

from jupyter_gq.agent.agent import MAX_INTERVAL
from jupyter_gq.agent.app import NodeAgent
from jupyter_gq.agent.config_file import load_config
from jupyter_gq.agent.service_connection import TokenMissing, _PodTransport
from jupyter_gq.controller.requests.activity import SAMPLE_EVERY
from jupyter_gq.domain.errors import AdminError
from tests.patience import scaled


def test_devices_are_read_every_five_seconds_where_nothing_else_is_set():
    assert NodeAgent().report_every == 5 <= MAX_INTERVAL
    assert SAMPLE_EVERY == 5


WRONG_FILES = {
    "1 / 0\n": "line 1: ZeroDivisionError: division by zero. Mend the file.",
    "\ndef (:\n": "line 2: SyntaxError: ",
    "import sys; sys.exit(3)\n": "line 1: SystemExit: 3. Mend the file.",
    "import no_such_module\n": "line 1: ModuleNotFoundError: No module named 'no_such_module'. Mend the file.",
    "raise KeyboardInterrupt\n": "line 1: KeyboardInterrupt. Mend the file.",
    "c.NodeAgent = 5\n": "line 1: ValueError: ",
    "load_subconfig(__file__)\n": "RecursionError: ",
    "x = '\0'\n": "source code string cannot contain null bytes",
    "class E(Exception):\n    def __str__(self): raise SystemExit\nraise E\n": "line 3: E. Mend the file.",
    "class E(SyntaxError):\n    filename = property(lambda self: 1 / 0)\n"
    "raise E('no')\n": "line 3: E: no. Mend the file.",
    "class M(type):\n    __name__ = property(lambda c: 1 / 0)\n"
    "class E(Exception, metaclass=M): pass\nraise E('no')\n": "line 4: an error: no. Mend the file.",
    "c.NodeAgent.report_every = 900\n": "c.NodeAgent.report_every = 900.0: it must be from 0.2 to 25.0 seconds.",
}


@pytest.mark.parametrize(("text", "told"), WRONG_FILES.items())
def test_a_file_that_cannot_be_used_ends_the_start_with_a_sentence(tmp_path, capfd, text, told):
    path = tmp_path / "agent.py"
    path.write_text(text)
    agent = NodeAgent()
    with pytest.raises(SystemExit) as ended:
        agent.initialize(["--config", str(path)])
    said = capfd.readouterr().err
    assert (ended.value.code, "Traceback" in said) == (1, False)
    assert "The agent cannot start. " in said
    assert told in said


@pytest.mark.parametrize("kind", ["missing", "folder", "pipe"])
def test_what_is_no_file_ends_the_start_with_a_sentence(tmp_path, kind):
    path = tmp_path / "agent.py"
    {"missing": lambda: None, "folder": path.mkdir, "pipe": lambda: os.mkfifo(path)}[kind]()
    with pytest.raises(AdminError, match=r"No such file|no regular file"):
        load_config(path)


def test_a_file_that_waits_is_told_with_a_deadline(tmp_path, monkeypatch):
    answered = threading.Event()
    monkeypatch.setitem(sys.modules, "silent_machine", answered)
    path = tmp_path / "agent.py"
    path.write_text("import sys; sys.modules['silent_machine'].wait()\n")
    try:
        with pytest.raises(AdminError, match=r"has not been read within 0\.2 s"):
            load_config(path, timeout=0.2)
    finally:
        answered.set()


def test_an_error_that_is_slow_to_tell_what_it_is_has_the_deadline_of_its_file(tmp_path, monkeypatch):
    answered = threading.Event()
    monkeypatch.setitem(sys.modules, "silent_machine", answered)
    path = tmp_path / "agent.py"
    path.write_text(
        "import silent_machine\nclass E(Exception):\n    def __str__(self): silent_machine.wait()\nraise E\n"
    )
    try:
        with pytest.raises(AdminError, match=r"has not been read within 0\.2 s"):
            load_config(path, timeout=0.2)
    finally:
        answered.set()


def test_a_file_system_that_does_not_answer_is_told_with_a_deadline(tmp_path, monkeypatch):
    answered, path = threading.Event(), tmp_path / "agent.py"
    path.touch()
    look = Path.stat

    def wait(each, **more):
        if each == path:
            answered.wait(scaled(30))
        return look(each, **more)

    try:
        with monkeypatch.context() as machine:
            machine.setattr(Path, "stat", wait)
            with pytest.raises(AdminError, match=r"has not been read within 0\.2 s"):
                load_config(path, timeout=0.2)
    finally:
        answered.set()


def test_a_syntax_error_in_another_file_is_told_with_the_line_that_reads_that_file(tmp_path, monkeypatch):
    (tmp_path / "other_settings.py").write_text("\n\n\ndef (:\n")
    monkeypatch.syspath_prepend(tmp_path)
    path = tmp_path / "agent.py"
    path.write_text("\nimport other_settings\n")
    with pytest.raises(AdminError, match=r"agent\.py, line 2: SyntaxError: "):
        load_config(path)


def test_the_command_line_counts_before_the_file(tmp_path):
    for name, text in (
        ("agent.py", "c.NodeAgent.node_name, c.NodeAgent.report_every = 'a', 7\n"),
        ("agent.json", '{"NodeAgent": {"node_name": "a", "report_every": 7}}'),
    ):
        (tmp_path / name).write_text(text)
        agent = NodeAgent()
        agent.initialize(["--config", str(tmp_path / name), "--NodeAgent.node_name=b"])
        assert (agent.node_name, agent.report_every) == ("b", 7)


def test_a_token_that_is_no_file_holds_up_no_report(tmp_path):
    os.mkfifo(tmp_path / "token")
    transport = _PodTransport("http://127.0.0.1:1/", tmp_path / "token", 1.0)
    with pytest.raises(TokenMissing, match="is no regular file"):
        transport.authorization()
