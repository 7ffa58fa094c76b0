"""`jupyter-gq secret` stores values that it never shows."""

import io
import sys

import pytest

from jupyter_gq.app import main
from jupyter_gq.client.environment.user_secrets import read_secret


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    return str(tmp_path)


def pipe(monkeypatch, text):
    monkeypatch.setattr(sys, "stdin", io.StringIO(text))


def test_a_value_from_a_pipe_is_stored_without_its_line_break_and_never_printed(home, monkeypatch, capsys):
    pipe(monkeypatch, "hunter2\n")
    assert main(["secret", "set", "HF_TOKEN"]) == 0
    assert read_secret(home, "HF_TOKEN") == "hunter2"
    assert main(["secret", "list"]) == 0
    said = capsys.readouterr()
    assert "HF_TOKEN is stored" in said.out
    assert said.out.endswith("\nHF_TOKEN\n")
    assert "hunter2" not in said.out + said.err


def test_a_secret_is_removed_once(home, monkeypatch):
    pipe(monkeypatch, "x")
    main(["secret", "set", "HF_TOKEN"])
    assert [main(["secret", "remove", "HF_TOKEN"]) for _ in range(2)] == [0, 1]


@pytest.mark.parametrize(
    ("arguments", "value", "sentence"),
    [
        (["set", "../x"], "v", "is no name of a secret"),
        (["remove"], "", "is no name of a secret"),
        (["set", "A"], "\n", "is empty"),
        (["set", "A"], b"\xff\xfekey".decode(errors="surrogateescape"), "is no text in UTF-8"),
        (["set", "A"], "x" * 40_000, "larger than 32 KiB"),
    ],
)
def test_what_cannot_be_stored_is_refused(home, monkeypatch, capsys, arguments, value, sentence):
    pipe(monkeypatch, value)
    assert main(["secret", *arguments]) == 2
    assert sentence in capsys.readouterr().err
