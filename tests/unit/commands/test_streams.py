"""Streams and arguments of the command that a shell can damage: each gives an exit code and a sentence."""

import os
import subprocess
import sys

import pytest

from jupyter_gq.app import main
from jupyter_gq.commands.connecting.login_file import Login, delete_login, find_login_file, write_login
from tests.patience import scaled

DEEP = "[" * 100_000


@pytest.fixture
def shell(tmp_path):
    """Run a line of bash in which `gq` is the command; return exit code, standard output and standard error."""

    def run(line):
        environment = {
            **os.environ,
            "JUPYTER_CONFIG_DIR": str(tmp_path),
            "JUPYTER_GQ_TOKEN": "token",
            "JUPYTER_GQ_URL": "http://127.0.0.1:1",
        }
        script = f'set -o pipefail; gq() {{ {sys.executable} -m jupyter_gq.app "$@"; }}; {line}'
        ended = subprocess.run(
            ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=scaled(60)
        )
        assert "Traceback" not in ended.stderr + ended.stdout
        assert "Exception ignored" not in ended.stderr
        return ended.returncode, ended.stdout, ended.stderr

    return run


def test_a_full_disk_is_told(shell):
    code, _, err = shell("gq completion bash > /dev/full")
    assert (code, err) == (1, "jupyter-gq: the output cannot be written: No space left on device.\n")


def test_a_reader_that_has_gone_ends_the_command_quietly(shell):
    assert shell("gq completion bash | true") == (1, "", "")


def test_closed_streams_are_no_error_and_errors_never_go_to_standard_output(shell):
    assert shell("gq completion bash >&-") == (0, "", "")
    assert shell("gq jobs --no-wait 2>&-") == (4, "", "")
    code, _, err = shell("gq login http://127.0.0.1:1 <&-")
    assert code == 2
    assert "There was no token" in err


@pytest.mark.parametrize("line", ["explain", "cancel", "jobs --owner", "replay"])
def test_an_argument_that_is_no_text_is_refused(line, capsys):
    with pytest.raises(SystemExit) as ended:
        main([*line.split(), "\udcff"])
    assert ended.value.code == 2
    assert "is not text in UTF-8" in capsys.readouterr().err


@pytest.mark.parametrize(
    "line",
    [["jobs"], ["replay", "deep"], ["whatif", "deep", "--set", "queue.a.quota=1"], ["simulate", "deep"]],
    ids=["login file", "replay", "whatif", "simulate"],
)
def test_a_file_that_is_nested_deeply_is_refused(line, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    (tmp_path / "deep").write_text(DEEP)
    find_login_file().write_text(DEEP)
    if line[0] == "simulate":
        line = [*line, "--gpus", "1", "--quota", "deep"]
    assert main(line) == 2
    told = capsys.readouterr().err
    assert len(told) < 400


def test_a_link_to_nowhere_in_the_place_of_the_login_is_deleted(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    path = write_login(Login(url="http://hub", token="secret"))
    path.unlink()
    path.symlink_to(tmp_path / "nowhere")
    assert delete_login() == path
    assert not path.is_symlink()
