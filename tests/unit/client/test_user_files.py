"""Files that user code can write never hold up, surprise or fill the memory of who reads them."""

import os
import socket
from pathlib import Path

import pytest

from jupyter_gq.client.files.user_files import LARGE_FILE, read_end, read_file, read_json
from jupyter_gq.domain.errors import UnusableFile


def a_link(place):
    place.symlink_to("/etc/passwd")


def a_socket(place):
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(place))
    server.close()


def a_sparse_file(place):
    with place.open("wb") as file:
        file.truncate(200 * 10**9)


@pytest.mark.parametrize("plant", [a_link, a_socket, a_sparse_file, os.mkfifo, os.mkdir])
def test_what_is_planted_in_the_place_of_a_file_is_refused(tmp_path, plant):
    place = tmp_path / "result.json"
    plant(place)
    for read in (read_file, read_json):
        with pytest.raises(UnusableFile, match=r"^The file result\.json cannot be used: "):
            read(place, limit=LARGE_FILE)


def test_a_file_that_is_not_there_is_none(tmp_path):
    place = tmp_path / "result.json"
    assert read_file(place, limit=10) is read_json(place, limit=10) is read_end(place, size=10) is None


def test_the_limit_itself_may_be_read_and_one_byte_more_may_not(tmp_path):
    place = tmp_path / "result.json"
    place.write_bytes(b"x" * 1024)
    assert read_file(place, limit=1024) == b"x" * 1024
    with pytest.raises(UnusableFile, match="larger than 1023 bytes"):
        read_file(place, limit=1023)


def test_a_special_file_without_a_size_is_read_up_to_the_limit():
    with pytest.raises(UnusableFile, match="it is larger than 5 bytes"):
        read_file(Path("/proc/self/status"), limit=5)


def test_the_end_of_a_sparse_file_is_read_alone(tmp_path):
    place = tmp_path / "log"
    a_sparse_file(place)
    assert read_end(place, size=5) == b"\0" * 5
    place.write_bytes(b"the end")
    assert (read_end(place, size=3), read_end(place, size=99)) == (b"end", b"the end")


def test_a_file_of_another_user_is_refused(tmp_path):
    place = tmp_path / "result.json"
    place.write_text("{}")
    assert read_json(place, limit=10, uid=os.getuid()) == {}
    with pytest.raises(UnusableFile, match="belongs to another user"):
        read_json(place, limit=10, uid=os.getuid() + 1)


@pytest.mark.parametrize("content", ["", "[]", "3", "{", "[" * 60_000, '{"a": 1e999}', '{"a": NaN}', "\0"])
def test_what_is_no_json_object_is_refused(tmp_path, content):
    place = tmp_path / "result.json"
    place.write_text(content)
    with pytest.raises(UnusableFile, match="JSON"):
        read_json(place, limit=LARGE_FILE)


def test_text_that_is_no_unicode_is_replaced(tmp_path):
    place = tmp_path / "result.json"
    place.write_bytes(b'{"sentence": "caf\xe9 \\udc80"}')
    document = read_json(place, limit=100)
    assert document is not None
    assert document["sentence"].encode() == "caf\ufffd ?".encode()


@pytest.mark.parametrize("name", ["a\0b", "x" * 5000])
def test_a_name_that_no_file_can_have_is_refused(tmp_path, name):
    with pytest.raises(UnusableFile):
        read_file(tmp_path / name, limit=10)
