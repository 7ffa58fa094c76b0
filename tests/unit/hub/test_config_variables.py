"""Which environment variables of the Hub its service gets: those that the configuration file names."""

import pytest

from jupyter_gq.hub.config_variables import read_variables


@pytest.mark.parametrize(
    "code",
    [
        'import os\nx = os.environ["GQ_SECRET"]',
        'from os import environ\nx = environ["GQ_SECRET"]',
        'import os\nx = os.environ.get("GQ_SECRET", "")',
        'import os\nx = os.getenv("GQ_SECRET")',
        'from os import getenv\ndef login():\n    return [getenv("GQ_SECRET")]',
        'import os\nif "GQ_SECRET" in os.environ:\n    pass',
    ],
)
def test_a_variable_that_the_file_names_is_found_however_it_is_read(tmp_path, monkeypatch, code):
    monkeypatch.setenv("GQ_SECRET", "the-secret")
    monkeypatch.setenv("GQ_OTHER", "no business of the file")
    (tmp_path / "config.py").write_text(code)
    assert read_variables([tmp_path / "config.py"]) == {"GQ_SECRET": "the-secret"}


@pytest.mark.parametrize(
    "code",
    [
        'x = {"GQ_SECRET": 1}["GQ_SECRET"]',
        'x = {}.get("GQ_SECRET")',
        '# os.environ["GQ_SECRET"]',
        'import os\nx = os.environ["JUPYTERHUB_API_TOKEN"]',
        'import os\nx = os.environ["GQ_NOT_SET"]',
        'import os\nx = os.environ.get("XDG_CACHE_HOME", "/tmp")',
        "this is no Python",
        "x = '\0'",
    ],
)
def test_nothing_else_is_passed_on(tmp_path, monkeypatch, code):
    monkeypatch.setenv("GQ_SECRET", "the-secret")
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "the token of another program")
    monkeypatch.setenv("XDG_CACHE_HOME", "/root/.cache")
    (tmp_path / "config.py").write_text(code)
    assert read_variables([tmp_path / "config.py", tmp_path / "missing.py"]) == {}
