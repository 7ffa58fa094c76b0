"""The parser of event streams: bytes cut anywhere give the same messages."""

import pytest

from jupyter_gq.client.connection.sse import SseMessage, SseParser

STREAM = (
    b"retry: 2000\n: connected\n\n"
    b'event: job\nid: 7\ndata: {"name": "caf\xc3\xa9 \xf0\x9f\x94\xa5"}\n\n'
    b": ping\n\n"
    b"event: queues\r\ndata: {}\r\n\r\n"
    b"id: 8\n\n"
    b"data: one\ndata: two\n\n"
)
PING = SseMessage(kind=None, id=None, data="")
MESSAGES = [
    PING,
    SseMessage(kind="job", id=7, data='{"name": "caf\u00e9 \U0001f525"}'),
    PING,
    SseMessage(kind="queues", id=None, data="{}"),
    SseMessage(kind="message", id=None, data="one\ntwo"),
]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_messages_do_not_depend_on_where_the_bytes_were_cut(size):
    parser = SseParser()
    found = []
    for start in range(0, len(STREAM), size):
        found += parser.feed(STREAM[start : start + size])
    assert found == MESSAGES


def test_a_message_that_is_not_finished_is_not_told():
    assert list(SseParser().feed(b"event: job\nid: 7\ndata: {}\n")) == []


@pytest.mark.parametrize("given", [b"x", b"-1", b"", b"1.5"])
def test_an_id_that_is_no_number_is_no_id(given):
    (message,) = SseParser().feed(b"id: " + given + b"\ndata: {}\n\n")
    assert message.id is None
