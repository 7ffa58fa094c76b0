"""The service reads the spool of an ended run, and no line of it stops those after it."""

import getpass
import json
from pathlib import Path

import pytest

from jupyter_gq.backends.local import spools
from jupyter_gq.backends.local.accounts import UnixAccounts
from jupyter_gq.backends.local.spools import PORTION, read_spool
from jupyter_gq.client.outputs.fold import Output
from jupyter_gq.runner.delivery.spool import Spool

ABOUT = {"cell": "c", "role": "target"}


def a_display(data: object) -> Output:
    return {"output_type": "display_data", "data": {"application/json": data}, "metadata": {}}


def nested(levels: int) -> object:
    document: object = 1
    for _ in range(levels):
        document = [document]
    return document


def read_all(path: Path) -> list[dict]:
    account = UnixAccounts(system_users=False).look_up(getpass.getuser())
    found: list[dict] = []
    start: int | None = 0
    while start is not None:
        left = read_spool(path, account, start)
        found += left.pieces
        start = left.following
    return found


@pytest.mark.parametrize("data", [2**64, nested(120), [None] * 1_400_000], ids=["number", "levels", "values"])
def test_a_notice_stands_in_the_place_of_a_piece_beyond_the_bounds(tmp_path: Path, data: object) -> None:
    """An earlier release of the runner, or user code, has written the piece."""
    spool = Spool(tmp_path / "spool.jsonl")
    outputs = [a_display(data), a_display("after")]
    spool.append([{"op": "append", **ABOUT, "output": output} for output in outputs], run=1, at=5.0)
    spool.append([{"op": "set", **ABOUT, "outputs": outputs}], run=1, at=5.0)
    spool.close()
    refused, after, whole = read_all(tmp_path / "spool.jsonl")
    assert [piece["seq"] for piece in (refused, after, whole)] == [1, 2, 3]
    assert "refused it" in refused["output"]["data"]["text/plain"]
    assert after["output"] == outputs[1]
    assert len(whole["outputs"]) == 1


def test_the_longest_piece_of_a_runner_is_read(tmp_path: Path) -> None:
    """Characters that take four bytes in UTF-8 would take twelve as escapes."""
    spool = Spool(tmp_path / "spool.jsonl")
    long = a_display("\U0001f525" * (24 * 2**20 // 4))
    spool.append([{"op": "set", **ABOUT, "outputs": [long]}, {"op": "clear", **ABOUT}], run=1, at=0.0)
    spool.close()
    assert (tmp_path / "spool.jsonl").stat().st_size > PORTION
    assert [piece["op"] for piece in read_all(tmp_path / "spool.jsonl")] == ["set", "clear"]


def test_lines_that_are_no_pieces_are_skipped(tmp_path: Path) -> None:
    lines = [b"no JSON", b"[]", b"\xff", b"{" * 1000, json.dumps({"seq": 1, "op": "clear"}).encode()]
    (tmp_path / "spool.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    assert read_all(tmp_path / "spool.jsonl") == [{"seq": 1, "op": "clear"}]


def test_a_notice_replaces_a_line_longer_than_any_piece_and_the_lines_after_it_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """User code can write such a line, and so can an earlier release of the runner."""
    monkeypatch.setattr(spools, "PORTION", 1000)
    monkeypatch.setattr(spools, "LONGEST_PIECE", 4000)
    spool = Spool(tmp_path / "spool.jsonl")
    spool.append([{"op": "append", **ABOUT, "output": a_display("x" * 9500)}], run=1, at=5.0)
    spool.append([{"op": "clear", **ABOUT}], run=1, at=5.0)
    spool.close()
    refused, after = read_all(tmp_path / "spool.jsonl")
    assert (refused["seq"], after["seq"], after["op"]) == (1, 2, "clear")
    assert "refused it" in refused["output"]["data"]["text/plain"]


def test_a_long_line_without_an_end_is_read_only_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spools, "PORTION", 1000)
    monkeypatch.setattr(spools, "LONGEST_PIECE", 4000)
    (tmp_path / "spool.jsonl").write_bytes(b"x" * 9000)
    assert read_all(tmp_path / "spool.jsonl") == []
