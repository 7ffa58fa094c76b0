"""The stored login: who may read it, to whom its token goes, and what happens to a file that is not as it should be."""

import json
import os
import stat

import pytest

from jupyter_gq.app import main
from jupyter_gq.commands.connecting.connection import find_login
from jupyter_gq.commands.connecting.login_file import Login, delete_login, find_login_file, read_login, write_login
from jupyter_gq.commands.refusal import CommandRefused

HUB = "https://hub.example.org/services/jupyter-gq"


def ascii_start(text):
    """Return the beginning of a text as the name of a case."""
    return ascii(text[:20])


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path / "jupyter"))
    for name in ("JUPYTER_GQ_URL", "JUPYTER_GQ_TOKEN", "JUPYTERHUB_API_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def test_only_the_user_may_read_the_file_and_the_token_is_not_shown():
    path = write_login(Login(url=HUB, token="secret"))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == [path.name]
    assert read_login() == Login(url=HUB, token="secret")
    assert "secret" not in repr(read_login())
    assert delete_login() == path
    assert read_login() is None
    assert delete_login() is None


def test_a_file_that_others_may_read_is_refused():
    path = write_login(Login(url=HUB, token="secret"))
    path.chmod(0o640)
    with pytest.raises(CommandRefused, match="Other accounts may use") as refusal:
        read_login()
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    "content",
    [
        *("", "[]", "{}", '{"url": "x"}', "\udcff", "[" * 100_000, "1" * 5000),
        *('{"url": 5, "token": "x"}', '{"url": "x", "token": null}', " " * 2_000_000 + "{}"),
    ],
    ids=ascii_start,
)
def test_a_damaged_file_is_refused_with_the_remedy(content):
    path = write_login(Login(url=HUB, token="secret"))
    path.write_bytes(content.encode("utf-8", "surrogateescape"))
    with pytest.raises(CommandRefused, match="is damaged"):
        read_login()


def test_a_pipe_in_the_place_of_the_file_is_refused_instead_of_waited_for():
    path = write_login(Login(url=HUB, token="secret"))
    path.unlink()
    os.mkfifo(path, 0o600)
    with pytest.raises(CommandRefused, match="is no regular file"):
        read_login()


def test_a_stored_token_goes_to_its_own_address_only():
    write_login(Login(url=HUB, token="secret"))
    assert find_login(None).token == "secret"
    assert find_login(HUB + "/").token == "secret"
    with pytest.raises(CommandRefused, match=r"no token for https://other\.example\.org"):
        find_login("https://other.example.org/services/jupyter-gq")


def test_the_environment_takes_precedence_over_the_stored_login(monkeypatch):
    write_login(Login(url=HUB, token="secret"))
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "of-the-server")
    assert find_login(None) == Login(url=HUB, token="of-the-server")
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "of-the-user")
    monkeypatch.setenv("JUPYTER_GQ_URL", "https://other.example.org")
    assert find_login(None) == Login(url="https://other.example.org/services/jupyter-gq", token="of-the-user")


def test_the_token_of_a_server_is_sent_to_the_service_of_its_hub_only(monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "of-the-server")
    monkeypatch.setenv("JUPYTER_GQ_URL", "https://own.example.org/services/jupyter-gq")
    assert find_login("https://own.example.org").token == "of-the-server"
    with pytest.raises(CommandRefused, match="no token for"):
        find_login(HUB)
    write_login(Login(url=HUB, token="secret"))
    assert find_login(HUB) == Login(url=HUB, token="secret")
    monkeypatch.delenv("JUPYTER_GQ_URL")
    assert find_login(HUB).token == "of-the-server", "a user has set it, for this address"


def test_without_a_terminal_an_address_is_needed(monkeypatch, capsys, tmp_path):
    with (tmp_path / "empty").open("w+") as nothing:
        monkeypatch.setattr("sys.stdin", nothing)
        assert main(["login"]) == 2
        assert "No Hub is named." in capsys.readouterr().err
        assert main(["login", HUB]) == 2
    assert "There was no token" in capsys.readouterr().err
    assert not find_login_file().exists()


def test_a_file_that_cannot_be_written_is_refused(tmp_path):
    (tmp_path / "jupyter").write_text("no folder")
    with pytest.raises(CommandRefused, match="cannot be"):
        write_login(Login(url=HUB, token="secret"))


def test_the_file_holds_address_and_token():
    path = write_login(Login(url=HUB, token="secret"))
    assert json.loads(path.read_text()) == {"url": HUB, "token": "secret"}


@pytest.mark.parametrize(
    "damage", ["secret\nsecret", "secret\u202e", "sec ret", "secret\x07", "secret" * 17_000], ids=ascii_start
)
@pytest.mark.parametrize("place", ["JUPYTER_GQ_TOKEN", "JUPYTERHUB_API_TOKEN", "stored"])
def test_a_text_that_is_no_token_is_refused_without_showing_it(damage, place, monkeypatch, capsys):
    if place == "stored":
        write_login(Login(url=HUB, token=damage))
    else:
        monkeypatch.setenv(place, damage)
    assert main(["jobs", "--url", HUB]) == 2
    told = capsys.readouterr().err
    assert told.startswith("jupyter-gq jobs: The token ")
    assert "secret" not in told
    assert "Hub's token page" in told


def test_white_space_around_a_token_is_left_out(monkeypatch):
    write_login(Login(url=HUB, token=" secret\n"))
    assert find_login(None).token == "secret"
    monkeypatch.setenv("JUPYTERHUB_API_TOKEN", "other\r\n")
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", " \n")
    assert find_login(None).token == "other"


def test_a_stored_token_is_found_for_each_address_of_its_hub():
    write_login(Login(url=HUB, token="secret"))
    assert find_login("https://hub.example.org/user/ann/lab?a=b") == Login(url=HUB, token="secret")
