"""Which environment variables of the Hub its service gets: those that the configuration file names."""

import pytest
from jupyterhub.objects import Hub
from jupyterhub.spawner import Spawner

from jupyter_gq.hub.config_variables import read_variables


class _Program:
    """A service that the Hub starts, as its spawner sees it."""

    name, url = "gq", "/services/gq/"


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
    monkeypatch.setenv("XDG_CACHE_HOME", "/srv/admin/cache")
    (tmp_path / "config.py").write_text(code)
    assert read_variables([tmp_path / "config.py", tmp_path / "missing.py"]) == {}


@pytest.mark.parametrize("name", ["JUPYTERHUB_CRYPT_KEY", "JUPYTERHUB_USERS_FILE"])
def test_a_variable_of_the_hub_itself_is_passed_on(tmp_path, monkeypatch, name):
    monkeypatch.setenv(name, "the Hub's own")
    (tmp_path / "config.py").write_text(f'import os\nx = os.environ["{name}"]')
    assert read_variables([tmp_path / "config.py"]) == {name: "the Hub's own"}


def test_what_the_hub_sets_for_the_programs_that_it_starts_is_not_passed_on(tmp_path, monkeypatch):
    spawner = Spawner(hub=Hub(), api_token="t", oauth_client_id="service-gq", user=_Program(), debug=True)
    names = [name for name in spawner.get_env() if name.startswith("JUPYTERHUB_")]
    assert "JUPYTERHUB_API_URL" in names
    for name in names:
        monkeypatch.setenv(name, "of another program")
    (tmp_path / "config.py").write_text("import os\n" + "".join(f'x = os.environ["{name}"]\n' for name in names))
    assert read_variables([tmp_path / "config.py"]) == {}
