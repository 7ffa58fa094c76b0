"""The address of the service and the arguments of a command: what is wrong with them is one sentence."""

import pytest

from jupyter_gq.app import main


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["drain", "--url", "hub.example.org/services/jupyter-gq"], "begins with https://"),
        (["drain", "--url", "ftp://hub.example.org"], "begins with https://"),
        (["audit", "--url", "file:///etc/passwd"], "begins with https://"),
        (["drain", "", "--url", "http://127.0.0.1:1"], "at least 1 character"),
        (["drain", "x" * 10_000, "--url", "http://127.0.0.1:1"], "at most"),
        (["snapshot", "--url", ""], "No service is named."),
    ],
)
def test_a_wrong_argument_is_refused_in_a_sentence(arguments, words, monkeypatch, capsys):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "a token")
    assert main(arguments) == 2
    told = capsys.readouterr()
    assert words in told.err
    assert "Traceback" not in told.err


def test_a_folder_in_which_nothing_can_be_written_is_refused(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    for folder in (tmp_path / "file", tmp_path / "file" / "inside"):
        assert main(["demo", "--dir", str(folder)]) == 1
        assert f"the folder {folder} cannot be used" in capsys.readouterr().err
