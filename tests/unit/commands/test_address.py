"""The address of the service, from what a user gives: completed where that is possible, otherwise refused."""

import pytest

from jupyter_gq.app import main
from jupyter_gq.commands.connecting.address import find_service
from jupyter_gq.commands.refusal import CommandRefused

HUB = "https://hub.example.org/services/jupyter-gq"


@pytest.mark.parametrize(
    ("given", "service"),
    [
        ("https://hub.example.org", HUB),
        ("hub.example.org/", HUB),
        ("https://hub.example.org/hub/home", HUB),
        ("https://hub.example.org/hub", HUB),
        ("https://example.org/jupyter/hub/token", "https://example.org/jupyter/services/jupyter-gq"),
        ("https://hub.example.org/services/gpus/", "https://hub.example.org/services/gpus"),
        ("http+unix://7@%2Frun%2Fgq.sock/services/x/", "http+unix://7@%2Frun%2Fgq.sock/services/x"),
        ("https://hub.example.org/user/ann/lab", HUB),
        ("https://hub.example.org?a=b", HUB),
        ("https://hub.example.org/user/ann/lab?a=b#c", HUB),
        ("http://[::1]:8000/", "http://[::1]:8000/services/jupyter-gq"),
        ("HTTP://hub.example.org:8000", "http://hub.example.org:8000/services/jupyter-gq"),
        ("https://hub.example.org/user/ann/lab/tree/hub/x.ipynb", HUB),
        ("https://hub.example.org/base/user/ann/", "https://hub.example.org/base/services/jupyter-gq"),
    ],
)
def test_the_service_is_found_from_each_address_that_a_user_has(given, service):
    assert find_service(given) == service


NO_ADDRESSES = {
    "ftp://hub.example.org": "begins with https://",
    "": "is like https://",
    "https://": "is like https://",
    "http://": "is like https://",
    "http://:8000": "is like https://",
    "http://[::1": "brackets",
    "hub.example.org:abc": "port",
    "http://hub.example.org:abc": "port",
    "http://hub.example.org:99999": "port",
    "http://hub.example.org:0": "port",
    "http://hub.example.org:": "port",
    "http://hub example.org": "no spaces",
    "http://hub\u202e.example.org": "no spaces",
    "http://\udcff": "no spaces",
    "http+unix://[": "port",
    "http+unix:///services/x": "socket",
}


@pytest.mark.parametrize(("given", "why"), NO_ADDRESSES.items(), ids=ascii)
def test_what_is_no_address_is_refused(given, why):
    with pytest.raises(CommandRefused, match=why):
        find_service(given)


@pytest.mark.parametrize(
    "given",
    ["http://ann:pw4@hub.example.org", "ann:pw4@hub.example.org", "http://ann:pw4/@hub.example.org", "http://@pw4:1x"],
)
def test_a_password_in_an_address_is_not_shown(given):
    with pytest.raises(CommandRefused) as refusal:
        find_service(given)
    assert "pw4" not in str(refusal.value)


def test_a_long_address_is_refused_and_shown_shortened():
    with pytest.raises(CommandRefused) as refusal:
        find_service("http://hub.example.org/services/" + "x" * 5000)
    assert len(str(refusal.value)) < 300


@pytest.mark.parametrize("how", ["option", "variable"])
def test_a_command_refuses_a_wrong_address_with_exit_code_2(how, monkeypatch, capsys, tmp_path):
    monkeypatch.setenv("JUPYTER_CONFIG_DIR", str(tmp_path))
    monkeypatch.setenv("JUPYTER_GQ_TOKEN", "secret")
    monkeypatch.setenv("JUPYTER_GQ_URL", "http://hub.example.org:abc")
    assert main(["jobs", *(["--url", "http://[::1"] if how == "option" else [])]) == 2
    assert "is not the address of a service" in capsys.readouterr().err
