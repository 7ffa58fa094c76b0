"""Addresses and errors of the client, and how a delivery is cut."""

import asyncio
import json
import socket
import traceback
from contextlib import suppress

import pytest

from jupyter_gq.client.connection.sse import SseConnection
from jupyter_gq.client.connection.transport import Answer, Transport, join_path, read_error
from jupyter_gq.client.outputs.delivery import MOST_BYTES, MOST_PIECES, _batches
from jupyter_gq.client.problems import PlainProblem, ServiceError, ServiceUnavailable
from jupyter_gq.domain.errors import AdminError

PROBLEM = b'{"code": "unknown_queue", "message": "There is no queue.", "field": "queue"}'


@pytest.mark.parametrize("url", ["http://box/services/gq", "http://box/services/gq/"])
def test_the_address_has_the_prefix_once(url):
    transport = Transport(url, "secret")
    assert transport.address("me") == "http://box/services/gq/api/v1/me"
    assert transport.address("jobs", {"limit": 5, "before": None, "owner": "*"}).endswith("/jobs?limit=5&owner=%2A")


def test_a_segment_never_becomes_two():
    assert join_path("servers", "a/b", "keep") == "servers/a%2Fb/keep"
    assert join_path("jobs", "..") == "jobs/.."
    assert join_path("jobs", "x?y#z") == "jobs/x%3Fy%23z"


def test_the_token_is_not_shown():
    assert "secret" not in repr(Transport("http://box", "secret"))


def test_an_answer_that_is_nested_too_deep_is_no_json():
    with pytest.raises(ValueError, match="nested too deep"):
        Answer(status=200, body=b"[" * 200_000).json()


def test_a_problem_is_passed_on():
    error = read_error(422, PROBLEM, "http://box")
    assert type(error) is ServiceError
    assert error.status == 422
    assert error.problem == PlainProblem(code="unknown_queue", message="There is no queue.", field="queue")


@pytest.mark.parametrize("status", [502, 503, 504])
@pytest.mark.parametrize("body", [PROBLEM, b"", b"<html>Bad gateway</html>", b"[]", b'"text"', b'{"message": 1}'])
def test_these_statuses_mean_try_again(status, body):
    error = read_error(status, body, "http://box")
    assert isinstance(error, ServiceUnavailable)
    assert error.status == status


@pytest.mark.parametrize("body", [b"", b"<html>Not found</html>", b"null", b"{}", b"\xff"])
def test_an_answer_of_somebody_else_names_the_address(body):
    error = read_error(404, body, "http://box/gq/")
    assert error.problem.code == "unexpected_answer"
    assert "http://box/gq/" in error.problem.message


async def redirected(reader, writer):
    with suppress(asyncio.IncompleteReadError):  # the client has closed a connection that it did not need
        await reader.readuntil(b"\r\n\r\n")
    where = b"https://hub.example.org/services/jupyter-gq/api/v1/me?t=1"
    writer.write(b"HTTP/1.1 301 Moved Permanently\r\nContent-Length: 0\r\nLocation: " + where + b"\r\n\r\n")
    await writer.drain()
    writer.close()


@pytest.mark.asyncio
async def test_a_redirect_is_not_followed_and_names_the_setting():
    """As the proxy of Zero to JupyterHub answers by plain HTTP where it has HTTPS."""
    server = await asyncio.start_server(redirected, "127.0.0.1", 0)
    transport = Transport(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/services/jupyter-gq", "secret")
    with pytest.raises(ServiceError) as caught:
        await transport.request("GET", "me")
    said = caught.value.problem.message
    assert "redirects to https://hub.example.org/services/jupyter-gq/api/v1/me:" in said
    assert "hub.notebookUrl" in said
    assert "c.GPUShareMixin.server_service_url" in said
    transport.close()
    server.close()
    await server.wait_closed()


def test_an_address_that_leads_to_a_page_of_the_hub_is_not_that_of_the_service():
    error = read_error(302, b"", "http://127.0.0.1:8000/wrong", "/hub/wrong")
    said = error.problem.message
    assert "The address http://127.0.0.1:8000/wrong is not that of the GPU scheduler service: it leads to /hub/" in said
    assert "of the Hub and /services/jupyter-gq" in said


@pytest.mark.asyncio
async def test_that_nobody_answers_is_told_without_the_number_of_the_error():
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    listener.close()
    transport = Transport(f"http://127.0.0.1:{port}", "secret")
    with pytest.raises(ServiceUnavailable) as caught:
        await transport.request("GET", "me")
    assert f"does not answer at http://127.0.0.1:{port}/: Connection refused. It may be" in caught.value.problem.message
    transport.close()


def test_a_delivery_is_cut_by_count_and_by_size_and_keeps_its_order():
    small = [{"seq": number} for number in range(MOST_PIECES * 2 + 1)]
    large = [{"seq": number, "text": "x" * (MOST_BYTES // 2)} for number in range(3)]
    huge = [{"seq": 0, "text": "x" * (2 * MOST_BYTES)}, {"seq": 1}]
    for events, requests in ((small, 3), (large, 3), (huge, 2), ([], 1)):
        batches = list(_batches(events))
        assert len(batches) == requests
        assert [json.loads(piece) for batch in batches for piece in batch] == events


@pytest.mark.parametrize("token", ["secret\nsecret", "secret\u202e"], ids=ascii)
@pytest.mark.asyncio
async def test_a_token_that_no_header_can_carry_is_refused_without_showing_it(token):
    server = await asyncio.start_server(redirected, "127.0.0.1", 0)
    transport = Transport(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", token)
    stream = SseConnection(transport.service, transport.address("events"), transport.authorization())
    for asked in (transport.request("GET", "me"), stream.next()):
        with pytest.raises(ServiceError) as refused:
            await asked
        assert refused.value.status == 400
        assert "secret" not in "".join(traceback.format_exception(refused.value))
    transport.close()
    await stream.close()
    server.close()


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999", "http://127.0.0.1:abc", "ftp://127.0.0.1"])
@pytest.mark.asyncio
async def test_an_address_to_which_nothing_can_be_sent_is_an_error_of_the_client(url):
    transport = Transport(url, "secret")
    with pytest.raises(ServiceError):
        await transport.request("GET", "me")
    transport.close()


def test_an_address_that_is_no_url_is_refused():
    with pytest.raises(AdminError, match="not a URL"):
        Transport("http://[::1", "secret")
