"""Pieces are numbered without a gap, over several runs and after ends in the middle of a line."""

import json
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest

from jupyter_gq.runner.delivery.spool import LARGE_SPOOL, Spool

Opened = Callable[..., Spool]


@pytest.fixture
def opened() -> Iterator[Opened]:
    """Yield a function that opens spools; close them at the end."""
    spools: list[Spool] = []

    def open_spool(file: Path, earlier: Iterable[Path] = ()) -> Spool:
        spools.append(Spool(file, earlier))
        return spools[-1]

    yield open_spool
    for spool in spools:
        spool.close()


def a_piece(text: str) -> dict[str, str]:
    return {"op": "append", "text": text}


def test_pieces_are_numbered_and_read_again(tmp_path: Path, opened: Opened) -> None:
    spool = opened(tmp_path / "spool")
    spool.append([a_piece("a"), a_piece("b")], run=1, at=5.0)
    assert spool.read(0) == [
        {"seq": 1, "run": 1, "at": 5.0, **a_piece("a")},
        {"seq": 2, "run": 1, "at": 5.0, **a_piece("b")},
    ]
    spool.append([a_piece("c")], run=1, at=6.0)
    assert [piece["seq"] for piece in spool.read(2)] == [3]
    assert spool.read(3) == []
    assert [piece["seq"] for piece in spool.read(1)] == [2, 3]  # the service lost one: go back


def test_numbering_continues_over_runs_and_missing_pieces_come_first(tmp_path: Path, opened: Opened) -> None:
    first = opened(tmp_path / "1")
    first.append([a_piece("a"), a_piece("b")], run=1, at=0)
    first.close()
    second = opened(tmp_path / "2", [tmp_path / "1"])
    second.append([a_piece("c")], run=2, at=1)
    assert [(piece["seq"], piece["run"]) for piece in second.read(1)] == [(2, 1), (3, 2)]
    assert [piece["seq"] for piece in second.pieces_after(0)] == [1, 2, 3]


def test_number_of_a_torn_line_is_used_again(tmp_path: Path, opened: Opened) -> None:
    file = tmp_path / "spool"
    opened(file).append([a_piece("a")], run=1, at=0)
    with file.open("a") as torn:
        torn.write('{"seq": 2, "run')
    spool = opened(file)
    spool.append([a_piece("b")], run=1, at=0)
    assert [(piece["seq"], piece["text"]) for piece in spool.read(0)] == [(1, "a"), (2, "b")]


def test_numbering_continues_after_the_service_s_if_that_is_higher(tmp_path: Path, opened: Opened) -> None:
    spool = opened(tmp_path / "spool")
    spool.continue_after(7)
    spool.append([a_piece("a")], run=2, at=0)
    assert spool.last == 8


def test_batches_are_bounded_but_never_empty(tmp_path: Path, opened: Opened) -> None:
    spool = opened(tmp_path / "spool")
    spool.append([a_piece("x" * 1000) for _ in range(10)], run=1, at=0)
    assert len(spool.read(0, pieces=3)) == 3
    assert len(spool.read(3, size=1)) == 1
    assert len(spool.read(4, size=2500)) == 3


def test_a_trimmed_spool_is_empty_and_the_numbering_continues(tmp_path: Path, opened: Opened) -> None:
    file = tmp_path / "spool"
    spool = opened(file)
    assert not spool.is_large
    spool.append([a_piece("x" * LARGE_SPOOL)], run=1, at=0)
    assert spool.is_large
    spool.trim()
    assert not spool.is_large
    assert file.stat().st_size < 100
    spool.append([a_piece("b")], run=1, at=0)
    assert [piece["seq"] for piece in spool.read(1)] == [2]
    again = opened(file)
    assert again.last == 2
    assert [piece["seq"] for piece in again.pieces_after(0)] == [2]


def test_emptied_spool_keeps_the_numbering_for_the_next_run(tmp_path: Path, opened: Opened) -> None:
    spool = opened(tmp_path / "1")
    spool.append([a_piece("x" * LARGE_SPOOL)], run=1, at=0)
    spool.trim()
    spool.close()
    assert opened(tmp_path / "2", [tmp_path / "1"]).last == 1


def test_pieces_wait_in_memory_while_the_disk_is_full(tmp_path: Path, opened: Opened) -> None:
    """A device file that is always full stands in for the disk at first."""
    file = tmp_path / "spool"
    file.touch()
    spool = opened(file)
    spool.append([a_piece("a")], run=1, at=0)
    disk, spool._file = spool._file, open("/dev/full", "ab", buffering=0)  # noqa: SIM115
    spool.append([a_piece("b"), a_piece("c")], run=1, at=0)
    assert spool.waiting_size > 0
    assert [piece["seq"] for piece in spool.read(after=0)] == [1], "sent before it is written"
    assert [piece["seq"] for piece in spool.read(after=0, with_waiting=True)] == [1, 2, 3], "cannot be delivered"
    assert [piece["seq"] for piece in spool.pieces_after(1)] == [2, 3]
    spool._file.close()
    spool._file = disk
    spool.append([a_piece("d")], run=1, at=0)
    assert spool.waiting_size == 0
    assert [piece["seq"] for piece in spool.read(after=3)] == [4]
    assert [json.loads(line)["seq"] for line in file.read_text().splitlines()] == [1, 2, 3, 4]


def test_disk_that_refuses_for_another_reason_raises_an_error_and_uses_no_number(
    tmp_path: Path, opened: Opened
) -> None:
    file = tmp_path / "spool"
    file.touch()
    spool = opened(file)
    spool._file.close()
    spool._file = file.open("rb", buffering=0)
    with pytest.raises(OSError, match="not open for writing"):
        spool.append([a_piece("a")], run=1, at=0)
    assert (spool.last, spool.waiting_size) == (0, 0)


def test_deleted_spool_takes_no_piece(tmp_path: Path, opened: Opened) -> None:
    spool = opened(tmp_path / "spool")
    (tmp_path / "spool").unlink()
    with pytest.raises(FileNotFoundError):
        spool.append([{"op": "append"}], run=1, at=0)
    assert spool.last == 0


def test_lines_are_plain_json(tmp_path: Path, opened: Opened) -> None:
    opened(tmp_path / "spool").append([a_piece("ä\n")], run=1, at=0)
    assert json.loads((tmp_path / "spool").read_text())["text"] == "ä\n"
