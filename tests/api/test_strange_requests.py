"""Requests with impossible numbers, names and sizes: a refusal in words, never a status of 500."""

import asyncio
import gzip
import json
import logging
from urllib.parse import urlsplit

import pytest
import pytest_asyncio

from jupyter_gq.controller.caller import Caller
from tests.patience import eventually, scaled

from .conftest import PREFIX
from .fakes import NeverAnswers
from .world import World, submission

pytestmark = pytest.mark.asyncio

ANN = Caller(user="ann", groups=frozenset({"vision"}))


@pytest_asyncio.fixture
async def world(tmp_path, bundle):
    made = World(tmp_path)
    made.job = made.controller.jobs.submit(ANN, submission(bundle), None)[0].id
    await made.steps()
    yield made
    made.close()


@pytest_asyncio.fixture
async def served(serve, world):
    return await serve(world.controller)


async def raw(served, head: str) -> int:
    """The status of a request whose headers no client library would send."""
    address = urlsplit(served.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    writer.write(f"{head}\r\nHost: x\r\nAuthorization: token ann\r\nConnection: close\r\n\r\n".encode())
    answer = await asyncio.wait_for(reader.read(), scaled(20))
    writer.close()
    await writer.wait_closed()
    return int(answer.split()[1]) if answer else 0


@pytest.mark.parametrize("part", ["%00", "a%00b", "..%2f..", "%0a", "x" * 101, "%e2%80%ae", "-"])
@pytest.mark.parametrize("token", ["ann", "root", "wrong"])
async def test_an_impossible_name_in_a_path_is_not_found_whoever_asks(served, part, token):
    for method, path in (("GET", ""), ("GET", "/outputs"), ("GET", "/log"), ("POST", "/heartbeat"), ("DELETE", "")):
        status, problem = await served.problem(method, f"api/v1/jobs/{part}{path}", token=token, body=None)
        assert (status, problem["code"]) == (404, "not_found"), path
    status, _ = await served.problem("GET", f"api/v1/tickets/{part}", token=token)
    assert status == 404


@pytest.mark.parametrize("path", ["jobs/%ff", "jobs/%ff/outputs", "tickets/a%ed%a0%80"])
async def test_a_path_that_is_no_text_is_not_found(served, path):
    status, problem = await served.problem("GET", f"api/v1/{path}")
    assert (status, problem["code"]) == (404, "not_found")
    assert "%" in problem["message"]


@pytest.mark.parametrize("method", ["TRACE", "BREW", "PATCH", "OPTIONS"])
async def test_a_method_that_a_path_does_not_have_is_refused_with_those_that_it_has(served, method):
    response = await served.ask(method, "api/v1/jobs")
    assert (response.code, response.headers["Allow"]) == (405, "GET, POST")
    _, problem = await served.problem(method, "api/v1/jobs")
    assert problem["message"] == f"{method} is not possible here; use GET, POST."
    assert (await served.problem(method, "api/v1/nowhere"))[0] == 404


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("gpu_model", "", '1 or more characters are needed, not ""'),
        ("gpu_model", "A\0", "control characters are not possible in it"),
        ("gpus", "1\0", "control characters are not possible in it"),
        ("memory", "1\u0085GiB", "control characters are not possible in it"),
        ("memory", "1 KiB", "it is less than 1 MiB; use 1 MiB or more"),
    ],
)
async def test_a_field_that_could_not_be_meant_is_refused_by_name(served, field, value, words):
    status, problem = await served.problem(
        "POST", "api/v1/jobs/preview", body={"queue": "vision", "gpus": "0", field: value}
    )
    assert (status, problem["field"]) == (422, field)
    assert words in problem["message"]
    assert problem["message"].isprintable()


@pytest.mark.parametrize("digits", ["9" * 5000, "9" * 20, str(2**63), "-1", "1e3", "0x10", "\u0663"])
async def test_an_impossible_number_in_the_query_or_a_header_is_refused(served, digits):
    from urllib.parse import quote

    for path in ("jobs?limit=", "events?after="):
        status, problem = await served.problem("GET", f"api/v1/{path}{quote(digits)}")
        assert (status, problem["code"]) == (422, "invalid_request")
    if digits.isascii():
        assert await raw(served, f"GET {PREFIX}api/v1/events HTTP/1.1\r\nLast-Event-ID: {digits}") == 422


@pytest.mark.parametrize("length", ["9" * 5000, "9" * 30, "-5", "abc"])
async def test_an_impossible_content_length_is_refused(served, length):
    status = await raw(served, f"POST {PREFIX}api/v1/jobs/preview HTTP/1.1\r\nContent-Length: {length}")
    assert status in {0, 400, 413}, "the server refuses it, or the HTTP library closes the connection"


@pytest.mark.parametrize(
    ("number", "status"), [("1e999", 400), ("-1e999", 400), ("NaN", 400), ("1" * 5000, 400), (str(2**64), 400)]
)
async def test_a_number_that_no_database_holds_is_refused(served, number, status):
    body = f'{{"queue": "vision", "gpus": 1, "expected_seconds": {number}}}'.encode()
    assert (await served.problem("POST", "api/v1/jobs/preview", body=body))[0] == status


@pytest.mark.parametrize(
    "piece",
    [
        {"seq": 1, "op": "append", "cell": {"a": 1}, "output": {}},
        {"seq": 1, "op": ["append"], "cell": "c1"},
        {"seq": 1, "op": {}, "cell": "c1"},
        {"seq": 1, "op": "set", "cell": "a\0b", "outputs": []},
        {"seq": 1, "op": "set", "cell": "c1", "outputs": "all"},
        {"seq": 1, "op": "replace", "cell": "c1", "index": -1, "output": {}},
        {"seq": 2**31, "op": "append", "cell": "c1"},
        {"seq": True, "op": "append", "cell": "c1"},
        {"seq": 1, "op": "append", "cell": "c" * 300},
    ],
)
async def test_a_piece_of_output_with_a_wrong_field_is_refused_by_name(served, world, piece):
    token = world.job_token(world.job)
    status, problem = await served.problem("POST", f"api/v1/jobs/{world.job}/outputs", token, {"events": [piece]})
    assert (status, problem["code"]) == (422, "invalid_request")
    assert any(name in problem["message"] for name in ("cell", "op", "outputs", "index", "seq"))


@pytest.mark.parametrize("server", ["lab\u202e", "lab\u0085x", "a\x1b[31m", "a\u200f", "\ufdd0"])
async def test_a_server_whose_name_cannot_be_shown_is_refused(served, server):
    status, problem = await served.problem("POST", "api/v1/tickets", body={"server": server, "gpus": "0"})
    assert (status, problem["field"]) == (422, "server")
    assert problem["message"].startswith("server: control characters are not possible in it")
    assert server not in problem["message"]


async def test_a_piece_of_a_newer_runner_is_taken(served, world):
    piece = {"seq": 1, "op": "of-tomorrow", "more": [1]}
    response = await served.ask(
        "POST", f"api/v1/jobs/{world.job}/outputs", world.job_token(world.job), {"events": [piece]}
    )
    assert (response.code, json.loads(response.body)) == (200, {"last_seq": 1})


@pytest.mark.parametrize(
    "body", [b"[" * 200_000, b'{"queue":' * 500 + b"1" + b"}" * 500, b'{"bundle": [' + b"[]," * 2_000_000 + b"[]]}"]
)
async def test_a_small_body_that_unpacks_into_a_huge_document_is_refused(served, body):
    packed = gzip.compress(body)
    assert len(packed) < 20_000
    status, problem = await served.problem("POST", "api/v1/jobs", body=packed, Content_Encoding="gzip")
    assert (status, problem["code"]) == (400, "bad_json")
    assert "levels deep" in problem["message"] or "values" in problem["message"]


async def test_a_body_that_is_not_the_gzip_that_it_says_closes_only_itself(served):
    status = await raw(
        served, f"POST {PREFIX}api/v1/jobs/preview HTTP/1.1\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc"
    )
    assert status in {0, 400}
    assert (await served.ask("GET", "api/v1/health", token=None)).code == 200


def changed(bundle, **cell):
    """The bundle with other fields of its only cell."""
    return {**bundle, "notebook": {**bundle["notebook"], "cells": [{**bundle["notebook"]["cells"][0], **cell}]}}


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"source": 5}, "cell 1 of the notebook has a source that is neither text nor a list of lines"),
        ({"source": ["a", 1]}, "cell 1 of the notebook has a source"),
        ({"source": None}, "cell 1 of the notebook has a source"),
        ({"cell_type": "markdown"}, "lacks the code cell 'abc'"),
        ({"cell_type": 3}, "cell 1 of the notebook is no object with a cell_type"),
        ({"id": "other"}, "lacks the code cell 'abc'"),
        ({"id": ["abc"]}, "cell 1 of the notebook has an id that is no text"),
        ({"metadata": "x"}, "cell 1 of the notebook has metadata that are no object"),
        ({"metadata": None}, "cell 1 of the notebook has metadata that are no object"),
        ({"metadata": {"tags": 5}}, "cell 1 of the notebook has tags that are no list of texts"),
        ({"metadata": {"tags": [5]}}, "cell 1 of the notebook has tags that are no list of texts"),
    ],
)
async def test_a_cell_that_could_only_fail_in_the_job_is_refused_before_it_waits(served, bundle, changes, words):
    body = {"queue": "vision", "gpus": 0, "bundle": changed(bundle, **changes)}
    status, problem = await served.problem("POST", "api/v1/jobs", token="ann", body=body)
    assert status == 422
    assert words in problem["message"]
    assert "an object" not in problem["message"].replace("no object", "")


@pytest.mark.parametrize(
    ("notebook", "words"),
    [
        ({"cells": {}}, "no list of cells"),
        ({"cells": ["print(1)"]}, "cell 1 of the notebook is no object"),
        ({"nbformat": 3, "worksheets": []}, "another format than nbformat 4"),
        ({"cells": [], "metadata": 1}, "the notebook has metadata that are no object"),
    ],
)
async def test_a_notebook_of_another_format_is_refused(served, bundle, notebook, words):
    body = {"queue": "vision", "gpus": 0, "bundle": {**bundle, "notebook": notebook}}
    status, problem = await served.problem("POST", "api/v1/jobs", token="ann", body=body)
    assert status == 422
    assert words in problem["message"]


@pytest.mark.parametrize("cwd", ["", "work", "../x"])
async def test_a_relative_working_folder_is_refused(served, bundle, cwd):
    bundle = {**bundle, "manifest": {**bundle["manifest"], "cwd": cwd}}
    body = {"queue": "vision", "gpus": 0, "bundle": bundle}
    status, problem = await served.problem("POST", "api/v1/jobs", token="ann", body=body)
    assert status == 422
    assert "an absolute path was expected" in problem["message"]


async def test_the_lines_of_a_cell_are_joined_to_one_text(bundle):
    request = submission(changed(bundle, source=["a = 1\n", "print(a)"]))
    assert request.bundle.notebook["cells"][0]["source"] == "a = 1\nprint(a)"


async def test_metadata_that_a_notebook_lacks_are_added(bundle):
    """Nbclient reads them without asking whether they are there."""
    (cell,) = bundle["notebook"]["cells"]
    bare = {name: value for name, value in cell.items() if name != "metadata"}
    notebook = submission({**bundle, "notebook": {"cells": [bare]}}).bundle.notebook
    assert (notebook["metadata"], notebook["cells"][0]["metadata"]) == ({}, {})


async def test_a_requester_who_is_gone_before_the_answer_is_no_error_of_the_service(serve, caplog):
    """Such as a proxy that is started again: the log would have an error for each request that waited."""
    waiting = NeverAnswers()
    served = await serve(waiting)
    address = urlsplit(served.url)
    _reader, writer = await asyncio.open_connection(address.hostname, address.port)
    head = "POST /services/jupyter-gq/api/v1/drains HTTP/1.1\r\nHost: x\r\nAuthorization: token root"
    body = json.dumps({"name": "gpu-1"})
    with caplog.at_level(logging.INFO):
        writer.write(f"{head}\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode())
        await asyncio.wait_for(waiting.begun.wait(), scaled(20))
        writer.close()
        await asyncio.wait_for(waiting.cancelled.wait(), scaled(20))
        await eventually(lambda: "api/v1/drains 499" in caplog.text)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]
