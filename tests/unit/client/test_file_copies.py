"""Copies are whole or absent, and no file that somebody else makes meanwhile is lost."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from jupyter_gq.client.files import target_folder
from jupyter_gq.client.files.file_copies import Existing, FileCopier, FilesExist, choose_files, name_beside
from jupyter_gq.client.files.target_folder import CopyRefused, TargetFolder
from jupyter_gq.client.problems import PlainProblem, ServiceError

CONTENT = b"0123456789"


@dataclass
class Listed:
    """A file in the list of results."""

    path: str
    bytes: int = len(CONTENT)
    reason: str = ""


@dataclass
class ListOfFiles:
    """A list of results."""

    files: list[Listed]
    omitted_files: int = 0


class Watched:
    """A watcher that acts when a copy has come so far."""

    def __init__(self, act=lambda: None, at: int = 5) -> None:
        self._act, self._at = act, at

    async def note(self, path: str, done: int, total: int) -> None:
        if done == self._at:
            result = self._act()
            if result is not None:
                await result


async def read(path: str, start: int) -> bytes:
    """Return parts of five bytes."""
    return CONTENT[start : start + 5]


def copy(folder: Path, *paths: str, existing=Existing.ASK, watcher=None, reads=read, agreed=None):
    """Copy files of these names into the folder; return the copies and the refusals."""

    async def run():
        with TargetFolder(folder) as target:
            listed = [Listed(path) for path in paths]
            copier = FileCopier(target, "job-4f1c", reads, agreed=agreed)
            return await copier.copy(listed, existing, watcher or Watched())

    return asyncio.run(run())


def names(folder: Path) -> list[str]:
    """Return the names below the folder, hidden ones too."""
    return sorted(os.path.relpath(path, folder) for path in folder.rglob("*"))


def test_a_file_that_appears_meanwhile_is_kept(tmp_path):
    appear = Watched(lambda: (tmp_path / "a.txt").write_text("theirs") and None)
    with pytest.raises(CopyRefused, match=r"'a.txt' was changed while it was copied"):
        copy(tmp_path, "a.txt", watcher=appear)
    assert (tmp_path / "a.txt").read_text() == "theirs"
    assert names(tmp_path) == ["a.txt"]


def keep_others(folder: Path, count: int) -> None:
    """Put files that differ in the place of `a.txt`, and of the first names under which it is kept beside that one."""
    (folder / "a.txt").write_text("mine")
    for number in range(1, count + 1):
        mark = "job 4f1c" if number == 1 else f"job 4f1c, {number}"
        (folder / f"a ({mark}).txt").write_text(f"{number:10}")


@pytest.mark.parametrize("count", [99, 100, 101, 250])
def test_a_file_is_kept_beside_however_many_others(tmp_path, count):
    keep_others(tmp_path, count)
    with pytest.raises(FilesExist, match=r"'a.txt' is there already and differs"):
        copy(tmp_path, "a.txt")
    for unchanged in (False, True):
        kept, refused = copy(tmp_path, "a.txt", existing=Existing.KEEP_BOTH)
        assert [(each.target, each.unchanged) for each in kept] == [(f"a (job 4f1c, {count + 1}).txt", unchanged)]
        assert refused == []
    assert copy(tmp_path, "a.txt").copies[0].unchanged, "the same content was kept before, so nothing is asked"
    assert copy(tmp_path, "a.txt", existing=Existing.REPLACE).copies[0].target == "a.txt"


def test_a_free_name_among_thousands_is_found_by_few_looks(tmp_path, monkeypatch):
    keep_others(tmp_path, 3000)
    looks: list[str] = []
    look = TargetFolder.look

    def look_and_count(folder, path):
        looks.append(path)
        return look(folder, path)

    monkeypatch.setattr(TargetFolder, "look", look_and_count)
    (tmp_path / "a (job 4f1c, 150).txt").unlink()
    (kept,), _ = copy(tmp_path, "a.txt", existing=Existing.KEEP_BOTH)
    assert kept.target == "a (job 4f1c, 3001).txt"
    assert len(looks) < 150


def test_no_two_files_of_a_job_are_kept_under_one_name(tmp_path):
    (tmp_path / "a.txt").write_text("mine")
    written = ["a.txt", "a (job 4f1c).txt", "b.txt"]
    for _ in range(2):
        copies, _ = copy(tmp_path, *written, existing=Existing.KEEP_BOTH)
        assert [each.target for each in copies] == ["a (job 4f1c, 2).txt", "a (job 4f1c).txt", "b.txt"]
    assert (tmp_path / "a (job 4f1c, 2).txt").read_bytes() == CONTENT


def test_a_file_that_is_saved_after_the_user_chose_to_replace_it_is_kept(tmp_path):
    (tmp_path / "a.txt").write_text("old")
    save = Watched(lambda: (tmp_path / "a.txt").write_text("newer") and None)
    with pytest.raises(CopyRefused, match="stays as it is"):
        copy(tmp_path, "a.txt", existing=Existing.REPLACE, watcher=save)
    assert (tmp_path / "a.txt").read_text() == "newer"


def test_only_what_the_question_has_named_is_replaced(tmp_path):
    (tmp_path / "named.txt").write_text("old")
    (tmp_path / "equal.txt").write_bytes(CONTENT)
    (tmp_path / "folder").mkdir()
    with pytest.raises(FilesExist) as asked:
        copy(tmp_path, "named.txt", "equal.txt", "new.txt", "folder")
    agreed = {path: present.version for path, present in asked.value.files}
    (tmp_path / "equal.txt").write_text("mine")
    (tmp_path / "new.txt").write_text("mine")
    with pytest.raises(FilesExist) as again:
        copy(tmp_path, "named.txt", "equal.txt", "new.txt", "folder", existing=Existing.REPLACE, agreed=agreed)
    assert [path for path, _ in again.value.files] == ["equal.txt", "new.txt"]
    assert (tmp_path / "named.txt").read_text() == "old", "nothing is written while a question is open"
    copies, _ = copy(tmp_path, "named.txt", "new.txt", existing=Existing.KEEP_BOTH, agreed=agreed)
    assert [each.target for each in copies] == ["named.txt", "new (job 4f1c).txt"]
    agreed |= {path: present.version for path, present in again.value.files}
    copies, (folder,) = copy(
        tmp_path, "named.txt", "equal.txt", "new.txt", "folder", existing=Existing.REPLACE, agreed=agreed
    )
    assert [each.target for each in copies] == ["named.txt", "equal.txt", "new.txt"]
    assert "is a folder here" in str(folder)


def test_a_folder_that_becomes_a_link_meanwhile_leads_nowhere(tmp_path):
    outside, inside = tmp_path / "outside", tmp_path / "inside"
    outside.mkdir()
    inside.mkdir()
    plant = Watched(lambda: (inside / "plots").symlink_to(outside))
    with pytest.raises(CopyRefused, match="'plots' is a link"):
        copy(inside, "plots/a.txt", watcher=plant)
    assert (names(outside), names(inside)) == ([], ["plots"])


@pytest.mark.parametrize("present", [False, True])
def test_a_disk_without_hard_links_is_written_too_and_keeps_what_is_there(tmp_path, monkeypatch, present):
    def refuse(*_, **__):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(target_folder.os, "link", refuse)
    if present:
        appear = Watched(lambda: (tmp_path / "a.txt").write_text("theirs") and None)
        with pytest.raises(CopyRefused):
            copy(tmp_path, "a.txt", watcher=appear)
        assert (tmp_path / "a.txt").read_text() == "theirs"
    else:
        copy(tmp_path, "a.txt")
        assert (tmp_path / "a.txt").read_bytes() == CONTENT
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("becomes", ["gone", "shorter", "longer"])
def test_a_file_that_changed_after_the_job_ended_is_named_and_all_others_are_copied(tmp_path, becomes):
    async def reads(path: str, start: int) -> bytes:
        if path != "b":
            return await read(path, start)
        if becomes == "gone":
            raise ServiceError(404, PlainProblem(code="not_found", message="no such result"))
        return {"shorter": CONTENT[:8], "longer": CONTENT + b"!"}[becomes][start : start + 11]

    copies, refused = copy(tmp_path, "a", "b", "c", reads=reads)
    assert [copied.path for copied in copies] == names(tmp_path) == ["a", "c"]
    assert list(map(str, refused)) == ["'b' was changed or deleted after the job ended, so it is not copied."]


def put_folder(place: Path) -> None:
    (place / "b").mkdir()


def put_pipe(place: Path) -> None:
    os.mkfifo(place / "b")


def put_link(place: Path) -> None:
    (place / "b").symlink_to("elsewhere")


def refuse_name(place: Path) -> None:
    """Do nothing: the name of the file is too long for any file system."""


@pytest.mark.parametrize(
    ("hinder", "path", "why"),
    [
        (put_folder, "b", "'b' is a folder here"),
        (put_pipe, "b", "'b' is a special file here"),
        (put_link, "b", "'b' is a link here"),
        (put_pipe, "b/c", "'b' is a link or a file here"),
        (put_link, "b/c", "'b' is a link or a file here"),
        (refuse_name, "b" * 256, "cannot be written or read: File name too long"),
    ],
)
def test_a_file_whose_path_cannot_be_made_does_not_hold_up_others(tmp_path, hinder, path, why):
    hinder(tmp_path)
    before = names(tmp_path)
    copies, (refused,) = copy(tmp_path, "a", path, "c", existing=Existing.REPLACE)
    assert [copied.path for copied in copies] == ["a", "c"]
    assert why in str(refused)
    assert names(tmp_path) == sorted([*before, "a", "c"])


def test_each_file_behind_a_link_is_named(tmp_path):
    put_link(tmp_path)
    copies, refused = copy(tmp_path, "a", "b/c", "b/d/e")
    assert [copied.path for copied in copies] == ["a"]
    assert [str(each).partition(" is a link")[0] for each in refused] == ["'b/c': 'b'", "'b/d/e': 'b'"]


def test_a_file_that_the_disk_refuses_while_it_is_written_does_not_hold_up_others(tmp_path, monkeypatch):
    create = os.open

    def deny(name, flags, *arguments, dir_fd=None):
        if flags & os.O_CREAT and os.path.samestat(os.fstat(dir_fd), denied):
            raise PermissionError(13, "Permission denied")
        return create(name, flags, *arguments, dir_fd=dir_fd)

    (tmp_path / "b").mkdir()
    denied = (tmp_path / "b").stat()
    monkeypatch.setattr(target_folder.os, "open", deny)
    copies, refused = copy(tmp_path, "a", "b/c", "d")
    assert [copied.path for copied in copies] == ["a", "d"]
    assert list(map(str, refused)) == ["'b/c' cannot be written or read: Permission denied."]


def test_files_of_which_none_can_be_copied_are_refused_together(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(CopyRefused, match=r"'a' is a folder here, .* 1 more file is not copied either\."):
        copy(tmp_path, "a", "b", existing=Existing.REPLACE)


def test_a_file_that_cannot_be_read_counts_as_different(tmp_path, monkeypatch):
    def deny(*_):
        raise CopyRefused("not_writable", "'a' cannot be written or read: Permission denied.")

    (tmp_path / "a").write_bytes(CONTENT)
    monkeypatch.setattr(TargetFolder, "open_file", deny)
    with pytest.raises(FilesExist):
        copy(tmp_path, "a")


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path, monkeypatch):
    def fill(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(target_folder.os, "write", fill)
    with pytest.raises(CopyRefused, match=r"'a/b.txt' cannot be written: No space left on device. Make room") as raised:
        copy(tmp_path, "a/b.txt")
    assert raised.value.code == "disk_full"
    assert names(tmp_path) == []


def test_a_copy_that_is_cancelled_leaves_nothing(tmp_path):
    async def cancel_itself():
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        copy(tmp_path, "a/b.txt", watcher=Watched(cancel_itself))
    assert names(tmp_path) == []


def test_rights_of_a_copy_are_those_of_any_new_file(tmp_path):
    mask = os.umask(0o027)
    try:
        copy(tmp_path, "a.txt")
    finally:
        os.umask(mask)
    assert (tmp_path / "a.txt").stat().st_mode & 0o777 == 0o640


def test_many_files_that_differ_are_named_in_a_short_sentence(tmp_path):
    for number in range(7):
        (tmp_path / f"{number}.txt").write_text("mine")
    with pytest.raises(FilesExist, match=r"'4.txt' and 2 more are there already and differ from"):
        copy(tmp_path, *(f"{number}.txt" for number in range(7)))


def test_a_pipe_in_the_place_of_a_file_holds_nobody_up(tmp_path):
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(FilesExist):
        copy(tmp_path, "a.txt")


def test_a_job_with_a_file_and_a_folder_of_one_name_is_refused(tmp_path):
    with pytest.raises(CopyRefused, match="both a file and a folder 'a'"):
        copy(tmp_path, "a", "a/b")


def test_names_of_copies_beside_others_keep_their_ending_and_fit_the_disk():
    assert name_beside("a/model.pt", "job 12") == "a/model (job 12).pt"
    assert name_beside("README", "job 12") == "README (job 12)"
    long = name_beside("a/" + "ü" * 125 + ".csv", "job 12")
    assert len(long.removeprefix("a/").encode()) <= 255
    assert long.endswith(" (job 12).csv")
    ending = name_beside("a." + "b" * 253, "job 12")
    assert (len(ending), ending[:4], ending[-9:]) == (255, "a.bb", " (job 12)")


@pytest.mark.asyncio
async def test_files_are_chosen_by_name_and_hidden_ones_only_so():
    files = ListOfFiles([Listed("a"), Listed(".b"), Listed("c", reason="It is too large."), Listed("../d")])
    wanted, left = await choose_files(files, [], read, hidden=False)
    assert [file.path for file in wanted] == ["a"]
    assert [line.split(":")[0] for line in left] == ["'.b'", "'c'", "'../d'"]
    assert [file.path for file in (await choose_files(files, [".b", ".b"], read, hidden=True))[0]] == [".b"]
    with pytest.raises(CopyRefused, match="'x': The job has no such file"):
        await choose_files(files, ["x"], read, hidden=True)
    with pytest.raises(CopyRefused, match="not a path below the folder"):
        await choose_files(files, ["../d"], read, hidden=True)


@pytest.mark.asyncio
@pytest.mark.parametrize("size", [0, 1, 9, 10, 11, 1000, 12_345])
async def test_a_file_that_the_list_leaves_out_is_measured_and_found_by_its_name(size):
    async def read_ten(path: str, start: int) -> bytes:
        if path != "model.pt":
            raise ServiceError(404, PlainProblem(code="not_found", message="None."))
        return bytes(size)[start : start + 10]

    files = ListOfFiles([Listed("a")], omitted_files=101)
    wanted, left = await choose_files(files, ["model.pt", "a"], read_ten, hidden=True)
    assert ([(file.path, file.bytes) for file in wanted], left) == ([("model.pt", size), ("a", 10)], [])
    wanted, left = await choose_files(files, [], read_ten, hidden=True)
    assert [file.path for file in wanted] == ["a"]
    assert left == ["101 more files are not listed. Copy them by name; a cluster keeps only the newest 1."]
    with pytest.raises(CopyRefused, match="'x': The job's list does not name it, and nothing of it is kept"):
        await choose_files(files, ["x"], read_ten, hidden=True)
    with pytest.raises(CopyRefused, match="does not name it"):
        await choose_files(files, ["../model.pt"], read_ten, hidden=True)
