"""Requests that no HTTP library would send, byte for byte: never a status of 5xx, never an error in the log."""

import contextlib
import gzip
import json
import logging
import socket
from urllib.parse import urlsplit

import pytest

from jupyter_gq.api.access import Access
from jupyter_gq.api.routes import ROUTES
from tests.patience import scaled

from .conftest import PREFIX
from .world import make_bundle

API = f"{PREFIX}api/v1/"
#: A cell that cannot be written down in UTF-8, and characters that some databases do not keep.
HALF, NUL = "\\ud800", "\\u0000"


@pytest.fixture
def service(fuzzed, caplog):
    """The service with its job; in the end it answers as before, and has logged no error."""
    fuzzed.renew()
    with caplog.at_level(logging.ERROR):
        yield fuzzed
        assert send(fuzzed, request("GET", "ready", None))[0] == 200
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []


def request(method, path, token="ann", body=b"", *, headers=(), length=None):
    """The bytes of a request whose headers are all given."""
    lines = [f"{method} {path if path.startswith(('/', 'http', '*')) else API + path} HTTP/1.1", "Host: x"]
    if token is not None:
        lines.append(f"Authorization: token {token}")
    if body or length is not None:
        lines.append(f"Content-Length: {len(body) if length is None else length}")
    head = "\r\n".join([*lines, "Connection: close", *headers, "", ""])
    return head.encode("utf-8", "surrogateescape") + body


def send(service, content, *, cut=False):
    """The status and the body of the answer to these bytes; 0 if the connection was closed without one.

    `cut` says that no more will follow, where the service waits for more.
    """
    address = urlsplit(service.url)
    received = b""
    with (
        socket.create_connection((address.hostname, address.port), timeout=scaled(60)) as connection,
        contextlib.suppress(ConnectionError),  # refused before all was sent
    ):
        connection.sendall(content)
        if cut:
            with contextlib.suppress(OSError):  # closed already
                connection.shutdown(socket.SHUT_WR)
        while piece := connection.recv(65_536):
            received += piece
    service.answers["raw", 0] += 1
    head, _, body = received.partition(b"\r\n\r\n")
    return (int(head.split()[1]), body) if received else (0, b"")


def refused(answer):
    """The answer is a refusal of the request, or the connection was closed without one."""
    return answer[0] == 0 or 400 <= answer[0] < 500


HEADS = {
    "two lengths": ["Content-Length: 5", "Content-Length: 6"],
    "two lengths in one": ["Content-Length: 5, 6"],
    "length with a sign": ["Content-Length: +5"],
    "length in hex": ["Content-Length: 0x5"],
    "length in Arabic digits": ["Content-Length: \u0665"],
    "negative length": ["Content-Length: -1"],
    "length of 5,000 digits": ["Content-Length: " + "9" * 5000],
    "length beyond 64 bits": [f"Content-Length: {2**64}"],
    "no length": ["Content-Length:"],
    "length and chunks": ["Content-Length: 5", "Transfer-Encoding: chunked"],
    "twice chunked": ["Transfer-Encoding: chunked, chunked"],
    "unknown transfer": ["Transfer-Encoding: lzma"],
    "header of 64 KiB": ["X-Long: " + "x" * 65_536],
    "token of 64 KiB": ["Authorization: token " + "x" * 60_000],
    "ten thousand headers": [f"X-{number}: 1" for number in range(10_000)],
    "header without a colon": ["nonsense"],
    "header without a name": [": value"],
    "folded header": ["X-A: 1", "\t2"],
    "NUL in a header": ["X-A: a\0b"],
    "carriage return in a header": ["X-A: a\rb"],
    "bytes in a header": ["X-A: \udcff\udcfe"],
    "two hosts": ["Host: y"],
    "upgrade": ["Upgrade: websocket"],
}


@pytest.mark.parametrize("headers", HEADS.values(), ids=HEADS)
@pytest.mark.parametrize("token", ["ann", None])
def test_a_head_that_no_library_sends_is_no_error_of_the_service(service, headers, token):
    for method, path in (("POST", "jobs/preview"), ("GET", "jobs"), ("GET", "health")):
        assert send(service, request(method, path, token, headers=headers) + b"abcde")[0] < 500


LINES = {
    "no version": f"GET {API}health",
    "unknown version": f"GET {API}health HTTP/9.9",
    "no method": f"{API}health HTTP/1.1",
    "unknown method": f"BREW {API}health HTTP/1.1",
    "small letters": f"get {API}health HTTP/1.1",
    "all": "OPTIONS * HTTP/1.1",
    "tunnel": "CONNECT example.org:443 HTTP/1.1",
    "another host": f"GET http://example.org{API}health HTTP/1.1",
    "no host in a URL": "GET http:// HTTP/1.1",
    "unclosed address": f"GET http://[{API}health HTTP/1.1",
    "path of 64 KiB": f"GET {API}{'x' * 65_536} HTTP/1.1",
    "spaces": f"GET  {API}health  HTTP/1.1",
    "a NUL": f"GET {API}health\0 HTTP/1.1",
    "bytes": f"GET {API}\udcff\udcfe HTTP/1.1",
    "TLS": "\x16\x03\x01\x02\x00\x01\x00\x01\udcfc\x03\x03",
    "nothing": "",
}


@pytest.mark.parametrize("line", LINES.values(), ids=LINES)
def test_a_first_line_that_is_none_is_no_error_of_the_service(service, line):
    content = f"{line}\r\nHost: x\r\nConnection: close\r\n\r\n".encode("utf-8", "surrogateescape")
    assert send(service, content)[0] < 500


PARTS = ["%00", "a%00", "%ff", "%ed%a0%80", "%2e%2e%2f", "%2500", "%", "%zz", "a%0d%0aX:1", "%e2%80%ae", "x" * 5000]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part[:12])
@pytest.mark.parametrize("token", ["ann", "root", "job", "runner", "agent", None])
def test_a_part_of_a_path_that_is_no_name_is_refused(service, part, token):
    token = service.tokens.get(token, token)
    for method, path in (
        ("GET", "jobs/{}"),
        ("GET", "jobs/{}/outputs?after=0"),
        ("GET", "jobs/{}/bundle"),
        ("POST", "jobs/{}/token"),
        ("GET", "tickets/{}"),
        ("DELETE", "drains/{}"),
        ("POST", "agents/{}/report"),
        ("POST", "servers/{}/keep"),
    ):
        status, _ = send(service, request(method, path.format(part), token))
        assert 400 <= status < 500, (method, path)


NUMBERS = [
    "9" * 5000,
    "9" * 20,
    str(2**63),
    "-1",
    "-0",
    "%2B1",
    "+1",
    "1e3",
    "0x10",
    "1_0",
    "%D9%A3",
    "%00",
    "1%00",
    "",
    "1.0",
]


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number[:12])
def test_a_number_that_is_none_is_refused_in_the_query_and_in_a_header(service, number):
    for path in ("jobs?limit=", "events?after=", "audit?before=", "audit?since=", "audit?until=", "notebooks?limit="):
        assert send(service, request("GET", path + number, "root"))[0] == 422, path
    if number and "%" not in number:
        for headers in ([f"Last-Event-ID: {number}"], ["Last-Event-ID: 1", f"Last-Event-ID: {number}"]):
            assert send(service, request("HEAD", "events", headers=headers))[0] == 422


INTEGERS = [
    (route.path, parameter)
    for route in ROUTES
    for parameter in route.query
    if parameter.type == "integer" and parameter.name != "wait" and route.access is not Access.JOB_TOKEN
]


@pytest.mark.parametrize("number", [0, 1, 2**31 - 1, 2**31, 2**32, 2**53 + 1, 2**63 - 1])
@pytest.mark.parametrize(("path", "parameter"), INTEGERS, ids=lambda value: getattr(value, "name", value))
def test_every_number_within_its_bounds_is_one_that_the_database_takes(service, path, parameter, number):
    allowed = parameter.minimum <= number <= parameter.maximum
    path = path.format_map(service.parts)
    method = "HEAD" if path == "events" else "GET"
    status, _ = send(service, request(method, f"{path}?{parameter.name}={number}", "root"))
    # The contents of results are for the owner only, also if the number could be used; the job has one task only.
    accepted = 403 if path.endswith("/results/content") else 404 if parameter.name == "task" and number else 200
    assert status == (accepted if allowed else 422)


TEXTS = ["%00", "a%00b", "%ed%a0%80", "%ff", "%F0%9F%94%A5", "%e2%80%ae", "x" * 256, "%27%3B--", "%25", "*"]


@pytest.mark.parametrize("text", TEXTS, ids=lambda text: text[:12])
def test_a_text_in_the_query_is_looked_for_or_refused(service, text):
    status = 200 if text in {"%F0%9F%94%A5", "%27%3B--", "%25", "*"} else 422
    for path in ("jobs?owner=", "jobs?before=", "notebooks?owner=", "audit?actor=", "audit?object=", "audit?owner="):
        expected = 404 if status == 200 and path == "jobs?before=" else status
        assert send(service, request("GET", path + text, "root"))[0] == expected, path
        assert send(service, request("GET", f"{path}{text}&{path.partition('?')[2]}{text}", "root"))[0] < 500
    assert send(service, request("GET", f"jobs?{text}=1", "root"))[0] in {400, 422}


def a_submission(**changes):
    return json.dumps({"queue": "vision", "gpus": "0.5", "bundle": make_bundle(), **changes})


BODIES = {
    "nothing": b"",
    "a mark of the byte order": b"\xef\xbb\xbf{}",
    "UTF-16": '{"queue": "vision"}'.encode("utf-16"),
    "invalid UTF-8": b'{"queue": "\xff", "gpus": 1}',
    "a half in UTF-8": b'{"queue": "\xed\xa0\x80", "gpus": 1}',
    "an escaped half": b'{"queue": "\\ud800", "gpus": 1}',
    "an escaped half as a key": b'{"\\udfff": 1}',
    "an escaped NUL": b'{"queue": "vi\\u0000sion", "gpus": 1}',
    "a NUL": b'{"queue": "vi\0sion", "gpus": 1}',
    "an escaped NUL as a key": b'{"queue": "vision", "gpus": 1, "\\u0000": 1}',
    "1e999": b'{"queue": "vision", "gpus": 1, "expected_seconds": 1e999}',
    "-1e999": b'{"queue": "vision", "gpus": -1e999}',
    "1e-999": b'{"queue": "vision", "gpus": 1, "expected_seconds": 1e-999}',
    "a long exponent": b'{"queue": "vision", "gpus": 1e' + b"9" * 5000 + b"}",
    "a long negative exponent": b'{"queue": "vision", "gpus": 1e-' + b"9" * 5000 + b"}",
    "an exponent in text": b'{"queue": "vision", "gpus": "1e999999999"}',
    "NaN": b'{"queue": "vision", "gpus": NaN}',
    "NaN in text": b'{"queue": "vision", "gpus": "NaN", "memory": "Infinity"}',
    "5,000 digits": b'{"queue": "vision", "gpus": ' + b"1" * 5000 + b"}",
    "5,000 decimals": b'{"queue": "vision", "gpus": 0.' + b"1" * 5000 + b"}",
    "beyond 64 bits": b'{"queue": "vision", "gpus": 18446744073709551616}',
    "beyond 64 bits, unknown field": b'{"queue": "vision", "gpus": 1, "more": -9223372036854775809}',
    "nested lists": b"[" * 101 + b"]" * 101,
    "nested objects": b'{"queue":' * 100_000,
    "a list": b"[]",
    "a text": b'"queue"',
    "two documents": b'{"queue": "vision", "gpus": 1} {}',
    "an open text": b'{"queue": "vision',
    "booleans": b'{"queue": true, "gpus": false, "tasks": true}',
    "nulls": b'{"queue": null, "gpus": null}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_a_body_that_is_none_is_refused_by_every_route_that_reads_one(service, body):
    job, token = service.parts["job"], service.tokens["job"]
    for method, path, who in (
        ("POST", "jobs/preview", "ann"),
        ("POST", "jobs", "ann"),
        ("POST", "tickets", "ann"),
        ("PUT", f"tickets/{service.parts['ticket']}/process", "ann"),
        ("POST", "servers/lab/activity", "ann"),
        ("POST", "drains", "root"),
        ("POST", f"jobs/{job}/outputs", token),
        ("POST", f"jobs/{job}/heartbeat", token),
        ("POST", "agents/node-a/report", "agent"),
    ):
        status, answer = send(service, request(method, path, who, body, length=len(body)))
        assert status in {400, 422}, (path, answer)
        assert set(json.loads(answer)) == {"code", "message", "field"}


@pytest.mark.parametrize(
    ("number", "status"),
    [("-0", 422), ("-0.0", 422), ("0e9", 422), ("1e-300", 200), ("1E2", 200), ("1e8", 200), ("1e300", 422)],
)
def test_a_number_at_the_edge_counts_as_its_value(service, number, status):
    body = f'{{"queue": "vision", "gpus": 1, "expected_seconds": {number}}}'.encode()
    assert send(service, request("POST", "jobs/preview", "ann", body))[0] == status


def test_the_last_of_two_equal_keys_counts(service):
    body = b'{"queue": "vision", "gpus": 1, "gpus": "nonsense"}'
    assert json.loads(send(service, request("POST", "jobs/preview", "ann", body))[1])["field"] == "gpus"
    assert (
        send(service, request("POST", "jobs/preview", "ann", b'{"queue": "x", "queue": "vision", "gpus": 1}'))[0] == 200
    )


CHUNKS = {
    "no number": b"zz\r\nabc\r\n",
    "negative": b"-1\r\nabc\r\n",
    "beyond 64 bits": b"f" * 20 + b"\r\nabc\r\n",
    "5,000 digits": b"f" * 5000 + b"\r\nabc\r\n",
    "long extension": b"3;" + b"x" * 100_000 + b"\r\nabc\r\n0\r\n\r\n",
    "too short": b"5\r\nabc\r\n0\r\n\r\n",
    "too long": b"1\r\nabc\r\n0\r\n\r\n",
    "no end": b"3\r\nabc\r\n",
    "trailer": b"2\r\n{}\r\n0\r\nAuthorization: token root\r\n\r\n",
}


@pytest.mark.parametrize("chunks", CHUNKS.values(), ids=CHUNKS)
def test_chunks_that_are_none_close_only_their_connection(service, chunks):
    for token in ("ann", None):
        content = request("POST", "jobs", token, headers=["Transfer-Encoding: chunked"]) + chunks
        assert refused(send(service, content, cut=True))


PACKED = {
    "no gzip": b"abc",
    "cut": gzip.compress(b"[]" * 1000)[:-12],
    "more behind": gzip.compress(b"{}") + b"abc",
    "wrong sum": gzip.compress(b"{}")[:-8] + b"\0" * 8,
    "32 MiB of spaces": gzip.compress(b" " * 2**25),
    "a bomb in a bomb": gzip.compress(gzip.compress(b" " * 2**25)),
    "many values": gzip.compress(b"[" + b"0," * 3_000_000 + b"0]"),
}


@pytest.mark.parametrize("body", PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("token", ["ann", None])
def test_a_packed_body_that_is_none_closes_only_its_connection(service, body, token):
    for path in ("jobs", "jobs/preview", "tickets"):
        headers = ["Content-Encoding: gzip"]
        assert refused(send(service, request("POST", path, token, body, headers=headers)))


@pytest.mark.parametrize("text", [NUL, f"a{NUL}b", "\\u202e", "\\ufdd0", "\\uffff", "\\ud83d\\udd25", "\\u2028"])
def test_text_that_a_cell_writes_is_kept_as_it_is_on_each_database(service, text):
    job, token = service.parts["job"], service.tokens["job"]
    last = json.loads(send(service, request("GET", f"jobs/{job}/outputs", "ann"))[1])["last_seq"]
    output = f'{{"output_type": "stream", "name": "stdout", "text": "{text}", "metadata": {{"{text}": 1}}}}'
    piece = f'{{"seq": {last + 1}, "run": 1, "at": 1.0, "op": "append", "cell": "abc", "role": "target"'
    body = f'{{"events": [{piece}, "output": {output}}}]}}'.encode()
    assert send(service, request("POST", f"jobs/{job}/outputs", token, body))[0] == 200
    page = json.loads(send(service, request("GET", f"jobs/{job}/outputs?after={last}", "ann"))[1])
    assert page["events"][0]["output"] == json.loads(output)
    assert send(service, request("GET", f"jobs/{job}/notebook", "ann"))[0] == 200


@pytest.mark.parametrize("text", [HALF, f"x{HALF}", "\\udc00\\ud800"])
def test_half_of_a_character_is_refused_and_nothing_is_kept(service, text):
    job, token = service.parts["job"], service.tokens["job"]
    before = send(service, request("GET", f"jobs/{job}/outputs", "ann"))[1]
    piece = f'{{"seq": 99, "run": 1, "at": 1.0, "op": "append", "cell": "abc", "output": {{"text": "{text}"}}}}'
    body = f'{{"events": [{piece}]}}'.encode()
    status, answer = send(service, request("POST", f"jobs/{job}/outputs", token, body))
    assert (status, json.loads(answer)["code"]) == (400, "bad_json")
    assert send(service, request("GET", f"jobs/{job}/outputs", "ann"))[1] == before


@pytest.mark.parametrize("text", ["a\0b", "\ufffe", "\U0001f525", "\u202e", "\u2028", "\ufdd0"])
def test_a_job_whose_texts_some_databases_do_not_keep_is_refused_or_kept(service, text):
    notebook = make_bundle()
    notebook["notebook"]["cells"][0]["source"] = notebook["notebook"]["metadata"][text] = text
    status, answer = send(service, request("POST", "jobs", "ann", a_submission(bundle=notebook).encode()))
    assert status == 201, answer
    for field, value in (("name", text), ("gpu_model", text), ("queue", text), ("cpus", text), ("memory", text)):
        assert send(service, request("POST", "jobs", "ann", a_submission(**{field: value}).encode()))[0] in {201, 422}
    for path in ("notebook_path", "cwd", "server"):
        changed = make_bundle()
        changed["manifest"][path] = text
        assert send(service, request("POST", "jobs", "ann", a_submission(bundle=changed).encode()))[0] in {201, 422}
    assert send(service, request("GET", "jobs?owner=*", "root"))[0] == 200
    assert send(service, request("GET", "state", "root"))[0] == 200
    assert send(service, request("GET", "audit", "root"))[0] == 200


@pytest.mark.parametrize("log", [b"a\0b", b"\xff\xfe", b"\xed\xa0\x80", b"\x1b[31m", b""], ids=repr)
def test_a_log_of_any_bytes_is_kept(service, log):
    job, token = service.parts["job"], service.tokens["job"]
    assert send(service, request("PUT", f"jobs/{job}/log", token, log, length=len(log)))[0] == 204
    assert send(service, request("GET", f"jobs/{job}/log", "ann"))[0] == 200


@pytest.mark.parametrize(
    "key", ["\udcff", "a\0b", "x" * 60_000, "\u00e9", " ", "k'; --"], ids=lambda key: ascii(key)[:12]
)
def test_an_idempotency_key_of_any_bytes_is_refused_or_used(service, key):
    body = a_submission().encode()
    status, _ = send(service, request("POST", "jobs", "ann", body, headers=[f"Idempotency-Key: {key}"]))
    assert status in {200, 201, 400, 422}


@pytest.mark.parametrize(
    "token", ["\udcff", "a\0b", "\u00e9", "x" * 5000, "'; --", "%00", "a b", ""], ids=lambda token: ascii(token)[:12]
)
def test_a_token_of_any_bytes_opens_nothing(service, token):
    job = service.parts["job"]
    for method, path in (("GET", "jobs"), ("GET", f"jobs/{job}/bundle"), ("POST", f"jobs/{job}/token")):
        status, _ = send(service, request(method, path, token))
        assert status in {400, 401}, path
