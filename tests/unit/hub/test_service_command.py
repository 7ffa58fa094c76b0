"""Tests of the command with which the Hub starts the service."""

import subprocess
import sys
from pathlib import Path

import jupyterhub
import pytest
from traitlets.config import Config

from jupyter_gq.client.connection.early_answer import DELAY_VARIABLE
from jupyter_gq.client.connection.service_address import SocketPlace
from jupyter_gq.hub import config as hub_config
from tests.patience import scaled


@pytest.fixture
def entry(tmp_path, monkeypatch):
    """The entry of the service, from a Hub that is started in a folder with a module of a standard name."""
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    c = Config()
    place = SocketPlace(path=tmp_path / "gq.sock", account=0)
    hub_config._set_service(c, 8089, tmp_path / "state", place)
    return c.JupyterHub.services[0]


def test_neither_process_of_the_service_imports_from_the_folder_of_the_start(entry):
    before_the_module = entry["command"][: entry["command"].index("-m")]
    command = [*before_the_module, "-c", "import json; json.dumps(1)"]
    assert subprocess.run(command, cwd=entry["cwd"], check=False, timeout=scaled(60)).returncode == 0


def test_no_process_of_the_proxy_imports_from_the_folder_of_the_start(entry, tmp_path):
    c = Config()
    hub_config.configure(c, state_dir=str(tmp_path / "state"), proxy="python")
    command = c.ConfigurableHTTPProxy.command
    started = [place for place, word in enumerate(command) if word == "-m"]
    assert len(started) == 2, "the holder of the port, and the proxy"
    for place in started:
        begin = max(before for before in range(place) if command[before] == sys.executable)
        interpreter = [*command[begin:place], "-c", "import json; json.dumps(1)"]
        assert subprocess.run(interpreter, cwd=tmp_path, check=False, timeout=scaled(60)).returncode == 0, interpreter


def test_the_working_folder_is_named_and_stays(entry, tmp_path):
    assert entry["cwd"] == str(Path(tmp_path).resolve())


@pytest.mark.parametrize(("version", "timeout"), [((6, 0, 0), 300), ((5, 5, 0), None)])
def test_the_hub_waits_for_a_service_that_starts_slowly(tmp_path, monkeypatch, version, timeout):
    monkeypatch.setattr(jupyterhub, "version_info", version)
    c = Config()
    hub_config._set_service(c, 8089, tmp_path / "state", SocketPlace(path=tmp_path / "gq.sock", account=0))
    (service,) = c.JupyterHub.services
    assert service.get("timeout") == timeout, "Hub 5 refuses a field that it does not know"
    assert (DELAY_VARIABLE in service["environment"]) == (timeout is None)
