"""What is answered at the port of a service that is still starting."""

import json
import socket
import threading
from http.client import HTTPConnection, HTTPResponse

import pytest

from jupyter_gq.client.connection import early_answer
from jupyter_gq.client.connection.early_answer import EarlyAnswer
from jupyter_gq.client.connection.service_port import HOST, hold_port, is_in_use
from tests.patience import scaled, until

PAGE = "/services/jupyter-gq/"


@pytest.fixture
def port():
    """A port that the Hub holds."""
    with socket.socket() as free:
        free.bind((HOST, 0))
        number = free.getsockname()[1]
    with hold_port(number):
        yield number


@pytest.fixture
def answer(port):
    """The early answer at the port, which listens."""
    answer = EarlyAnswer(port, PAGE, 0.0)
    until(lambda: is_in_use(port))
    yield answer
    answer.end()


def ask(port: int, path: str, method: str = "GET", body: bytes | None = None) -> tuple[HTTPResponse, bytes]:
    connection = HTTPConnection(HOST, port, timeout=scaled(20))
    connection.request(method, path, body)
    response = connection.getresponse()
    content = response.read()
    connection.close()
    return response, content


@pytest.mark.parametrize("path", [PAGE, PAGE.rstrip("/"), f"{PAGE}?a=1"])
def test_the_page_is_answered_so_that_the_hub_goes_on(answer, port, path):
    response, content = ask(port, path)
    assert response.status < 500, "Hub 5 takes any other status for no answer"
    assert content == b"The scheduler service is starting. Try again in a moment.\n"


@pytest.mark.parametrize("path", ["api/v1/ready", "api/v1/health", "api/v1/jobs", "../x", "overview"])
def test_everything_else_is_refused_with_a_problem(answer, port, path):
    response, content = ask(port, PAGE + path, "POST", b"x" * 1000)
    assert (response.status, response.headers["Content-Type"]) == (503, "application/json; charset=utf-8")
    assert json.loads(content) == {
        "code": "not_ready",
        "message": "The scheduler service is starting. Try again in a moment.",
        "field": None,
    }


def test_a_client_that_sends_nothing_holds_up_nobody(answer, port):
    with socket.create_connection((HOST, port)), socket.create_connection((HOST, port)):
        assert ask(port, PAGE)[0].status == 200


def test_after_the_end_the_port_is_free_and_held(answer, port):
    answer.end()
    answer.end()
    assert not is_in_use(port)
    with socket.socket() as foreign:
        foreign.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with pytest.raises(OSError, match="in use"):
            foreign.bind((HOST, port))


def test_a_service_that_is_ready_in_time_is_not_answered_for(port):
    answer = EarlyAnswer(port, PAGE, 60.0)
    answer.end()
    until(lambda: all(thread.name != "early answer" for thread in threading.enumerate()))
    assert not is_in_use(port)


def test_a_program_that_listens_already_keeps_the_port(port):
    with hold_port(port) as other:
        other.listen()
        answer = EarlyAnswer(port, PAGE, 0.0)
        until(lambda: all(thread.name != "early answer" for thread in threading.enumerate()))
        answer.end()
        assert is_in_use(port)


def test_only_the_hub_asks_for_an_early_answer(port, monkeypatch):
    monkeypatch.setenv("JUPYTERHUB_SERVICE_URL", f"http://{HOST}:{port}")
    early_answer.begin_early_answer()
    assert early_answer._answers == []
    monkeypatch.setenv(early_answer.DELAY_VARIABLE, "0")
    early_answer.begin_early_answer()
    until(lambda: is_in_use(port))
    early_answer.end_early_answer()
    assert not is_in_use(port)
