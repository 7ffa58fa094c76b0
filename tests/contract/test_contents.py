"""Contents outside the database: all or nothing, of one installation each, and clear answers when the place fails."""

import hashlib
import logging
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from jupyter_gq.backends.contents import read_contents
from jupyter_gq.backends.kubernetes.bundles import StoredBundles, open_bundles
from jupyter_gq.backends.kubernetes.contents_at_url import ContentsAtUrl
from jupyter_gq.backends.kubernetes.place import Place, open_place
from jupyter_gq.domain.errors import ContentsUnavailable, NotFound
from jupyter_gq.store import backups
from jupyter_gq.store.outside import CLAIMS, OUTSIDE_BUNDLE, OWNER, RESTORED, RESTORED_HELD, OutsideContent
from jupyter_gq.store.sql import SqlStore
from tests.fakes.file_systems import (
    AnswersNothing,
    AnswersWronglyAtFirst,
    LosesHalfOfAWrite,
    ObjectsInMemory,
    RefusesWhileClosed,
)
from tests.patience import scaled, until

#: A URL such as s3://bucket/tests, whose store is tested too; its credentials are in the environment.
REAL_STORE = os.environ.get("JUPYTER_GQ_TEST_CONTENTS_URL", "")
FIRST, SECOND = b"1" * 100_000, b"2" * 200_000


def place_of(fs):
    return Place(fs=fs, root="bucket/folder", shown="s3://bucket/folder")


def at(place, installation="a" * 16, **times):
    return ContentsAtUrl(place, installation, **{"timeout": scaled(20), "probe_every": 0.01, "look_again": 0, **times})


@pytest.fixture(params=["file", "memory", *(["real"] if REAL_STORE else [])])
def place(request, tmp_path):
    urls = {
        "file": f"file://{tmp_path}",
        "memory": f"memory://{tmp_path.name}",
        "real": f"{REAL_STORE}/{tmp_path.name}",
    }
    return open_place(urls[request.param])


@pytest.fixture
def contents(place):
    contents = at(place)
    contents.start()
    assert contents.trouble == ""
    yield contents
    contents.close()
    contents.delete(contents.names())


def test_what_is_put_is_got_in_order_under_names_that_tell_the_hash_only(contents):
    first, second = contents.put([FIRST, SECOND])
    assert contents.get([second, first, second]) == [SECOND, FIRST, SECOND]
    assert (first.size, second.size) == (100_000, 200_000)
    assert first.name.startswith(hashlib.sha256(FIRST).hexdigest())
    assert contents.names() == {first.name, second.name}
    assert contents.put([]) == []


def test_the_same_content_twice_is_two_objects_of_which_each_can_go(contents):
    (first,), (again,) = contents.put([FIRST]), contents.put([FIRST])
    contents.delete([first.name])
    assert contents.get([again]) == [FIRST]
    assert contents.names() == {again.name}


def test_concurrent_uploads_of_one_content_are_all_whole(contents):
    with ThreadPoolExecutor(8) as threads:
        stored = [each for found in threads.map(lambda _: contents.put([FIRST, SECOND]), range(8)) for each in found]
    assert len({each.name for each in stored}) == 16
    assert contents.get(stored) == [FIRST, SECOND] * 8


def test_what_is_gone_is_not_found_and_can_be_deleted_again(contents, place):
    (stored,) = contents.put([FIRST])
    for _ in range(2):
        contents.delete([stored.name])
        with pytest.raises(NotFound, match=r"is gone from the place where .* large files\. Send the cell"):
            contents.get([stored])
    assert contents.trouble == "", "one missing object says nothing of the place"


def test_a_damaged_content_is_never_given_out(contents, place):
    (stored,) = contents.put([FIRST])
    place.fs.pipe_file(f"{place.root}/{'a' * 16}/{stored.name}", FIRST[:-1] + b"x")
    with pytest.raises(NotFound, match=r"is damaged in the place where .* large files\. Send the cell"):
        contents.get([stored])


@pytest.mark.parametrize("answer", [None, FIRST[:-1]], ids=["not found", "cut short"])
def test_an_object_that_a_store_does_not_give_at_once_is_read_again_before_its_job_fails(answer):
    fs = AnswersWronglyAtFirst(answer)
    with closing(at(place_of(fs))) as contents:
        (stored,) = contents.put([FIRST])
        assert contents.get([stored]) == [FIRST]
        assert contents.lost == frozenset()


def test_two_installations_at_one_url_never_see_each_other(contents, place):
    (stored,) = contents.put([FIRST])
    other = at(place, "b" * 16)
    other.start()
    assert other.names() == frozenset()
    with pytest.raises(NotFound):
        other.get([stored])
    place.fs.pipe_file(f"{place.root}/{'a' * 16}/notes.txt", b"of the administrator")
    assert contents.names() == {stored.name}
    place.fs.rm_file(f"{place.root}/{'a' * 16}/notes.txt")


def test_a_half_written_content_has_no_name_and_is_listed_for_deletion(caplog):
    fs = LosesHalfOfAWrite()
    contents = at(place_of(fs), probe_every=60)
    fs.broken = True
    with closing(contents), pytest.raises(ContentsUnavailable):
        contents.put([FIRST])
    assert "cannot be used now (ConnectionResetError: the connection was reset)" in caplog.text
    (half,) = contents.names()
    with pytest.raises(NotFound, match="damaged"):
        contents.get([OutsideContent(name=half, size=len(FIRST))])


def test_a_place_that_refuses_is_said_without_its_secrets_and_used_again_when_it_can_be(caplog):
    fs = RefusesWhileClosed()
    with closing(at(place_of(fs))) as contents, caplog.at_level(logging.INFO):
        (stored,) = contents.put([FIRST])
        fs.closed = True
        for act in (lambda: contents.put([SECOND]), lambda: contents.get([stored]), lambda: contents.delete(["x"])):
            with pytest.raises(ContentsUnavailable, match=r"^The place where the service keeps .*Try again") as refusal:
                act()
            assert not any(word in str(refusal.value) for word in ("s3://", "403")), "users read what to do"
        assert "s3://bucket/folder, where" in contents.trouble, "administrators read which place it is, and why"
        assert "cannot be used now (PermissionError: 403 for the address" in contents.trouble
        fs.closed = False
        until(lambda: contents.trouble == "")
        assert contents.get(contents.put([SECOND])) == [SECOND]
    assert "can be used again" in caplog.text
    assert caplog.text.count("cannot be used now") == 1, "one failure is one line"
    assert "hidden-word" not in caplog.text


def test_a_place_that_does_not_answer_holds_up_one_call_only(caplog):
    fs = AnswersNothing()
    with closing(at(place_of(fs), timeout=0.05, probe_every=3600)) as contents:
        with pytest.raises(ContentsUnavailable):
            contents.put([FIRST])
        assert "no answer within" in caplog.text
        stored = OutsideContent(name=f"{'0' * 64}-{'0' * 16}", size=1)
        for act in (lambda: contents.put([FIRST]), lambda: contents.get([stored])):
            with pytest.raises(ContentsUnavailable):
                act()
        assert fs.calls == 1, "nobody else waits"
        fs.answer.set()
        contents._timeout = scaled(20)
        contents.start()
        assert contents.trouble == ""
        contents.get(contents.put([FIRST]))


class KeepsOneBack(ObjectsInMemory):
    """One object cannot be read, as one that a rule of the bucket has archived."""

    archived = ""

    def cat_file(self, path):
        if path.endswith(self.archived):
            raise OSError("the operation is not valid for the object's storage class")
        return super().cat_file(path)


def test_an_object_that_cannot_be_read_refuses_nothing_else(caplog):
    fs = KeepsOneBack()
    with closing(at(place_of(fs))) as contents:
        first, second = contents.put([FIRST, SECOND])
        fs.archived = first.name
        for _ in range(3):
            with pytest.raises(ContentsUnavailable, match=r"could not read an object now\. Try again"):
                contents.get([first])
            assert contents.trouble == ""
            assert contents.get([second, *contents.put([FIRST])]) == [SECOND, FIRST]
    assert "could not read an object at s3://bucket/folder: OSError: the operation is not valid" in caplog.text


def test_a_place_of_which_only_downloads_fail_is_found_out():
    fs = RefusesWhileClosed()
    with closing(at(place_of(fs))) as contents:
        (stored,) = contents.put([FIRST])
        fs.closed = True
        with pytest.raises(ContentsUnavailable, match="could not read"):
            contents.get([stored])
        until(lambda: "cannot be used now" in contents.trouble)
        fs.closed = False
        until(lambda: contents.trouble == "")


class SlowToList(ObjectsInMemory):
    """Lists and deletions wait until `answer` is set; reads and writes do not."""

    def __init__(self):
        super().__init__()
        self.answer = threading.Event()

    def ls(self, path, *, detail):
        self.answer.wait()
        return super().ls(path, detail=detail)

    def rm_file(self, path):
        self.answer.wait()
        super().rm_file(path)


def test_a_slow_list_or_deletion_refuses_no_upload_and_no_download(caplog):
    fs = SlowToList()
    with closing(at(place_of(fs), long_timeout=0.05, probe_every=3600)) as contents:
        (stored,) = contents.put([FIRST])
        for act in (contents.names, lambda: contents.delete([stored.name])):
            with pytest.raises(ContentsUnavailable):
                act()
            assert "no answer within" in caplog.text
            caplog.clear()
            assert contents.trouble == ""
            assert contents.get([stored, *contents.put([SECOND])]) == [FIRST, SECOND]
        fs.answer.set()


class SlowWithLargeObjects(ObjectsInMemory):
    """Large objects wait until `answer` is set; small ones do not."""

    def __init__(self):
        super().__init__()
        self.answer = threading.Event()

    def cat_file(self, path):
        content = super().cat_file(path)
        return content if len(content) < 10**6 or self.answer.wait() else b""

    def pipe_file(self, path, value):
        super().pipe_file(path, value)
        if len(value) > 10**6:
            self.answer.wait()


def test_a_large_object_that_takes_too_long_refuses_nothing_else():
    fs = SlowWithLargeObjects()
    large = b"x" * 2 * 1024 * 1024
    with closing(at(place_of(fs), timeout=scaled(1))) as contents:
        fs.answer.set()
        (stored,) = contents.put([large])
        fs.answer.clear()
        for act in (lambda: contents.put([large]), lambda: contents.get([stored])):
            with pytest.raises(ContentsUnavailable, match=r"could not .* object now\. Try again"):
                act()
            assert contents.trouble == ""
            assert contents.get(contents.put([FIRST])) == [FIRST]
        fs.answer.set()


def test_calls_without_an_answer_take_a_bounded_number_of_threads():
    fs = AnswersNothing()
    with closing(at(place_of(fs), timeout=0.05, probe_every=3600)) as contents:

        def try_again():
            contents._trouble = ""
            with pytest.raises(ContentsUnavailable):
                contents.put([FIRST] * 16)
            return fs.calls

        until(lambda: try_again() >= 80)
        assert [try_again() for _ in range(3)] == [80] * 3
        fs.answer.set()


def test_what_is_wrong_at_the_start_is_logged_and_ends_with_the_fault(caplog):
    fs = RefusesWhileClosed()
    fs.closed = True
    with closing(at(place_of(fs))) as contents:
        contents.start()
        assert "s3://bucket/folder, where the service keeps large files of jobs, cannot be used now" in caplog.text
        fs.closed = False
        until(lambda: contents.trouble == "")
        assert fs.objects == {}, "the probe leaves nothing"


def test_nothing_is_made_above_the_folder_so_that_a_mistake_is_found(tmp_path):
    with closing(at(open_place(f"file://{tmp_path}/not-mounted"))) as contents:
        contents.start()
        assert contents.trouble.startswith(f"file://{tmp_path}/not-mounted, where the service keeps large files")
        assert not list(tmp_path.iterdir())


class GivesBackOtherBytes(ObjectsInMemory):
    """A store behind something that changes contents on the way."""

    def cat_file(self, path):
        return super().cat_file(path)[:-1]


class GivesBackNothing(ObjectsInMemory):
    """A store that shows a new object late."""

    def cat_file(self, path):
        raise FileNotFoundError(path)


@pytest.mark.parametrize(
    ("fs", "told"),
    [(GivesBackOtherBytes, "what was read is not what was written"), (GivesBackNothing, "FileNotFoundError")],
)
def test_a_store_that_does_not_give_back_what_it_got_is_told_and_the_service_starts(fs, told):
    with closing(at(place_of(fs()), probe_every=3600)) as contents:
        contents.start()
        assert told in contents.trouble
        assert contents.lost == frozenset()


class DeletesNothing(RefusesWhileClosed):
    """Writes and reads are allowed, and deletions are not."""

    def rm_file(self, path):
        self.refused = getattr(self, "refused", 0) + 1
        raise PermissionError("no right to delete")


def test_probes_leave_one_object_at_most_where_nothing_can_be_deleted():
    fs = DeletesNothing()
    with closing(at(place_of(fs))) as contents:
        contents.start()
        until(lambda: fs.refused > 3)
    assert len(fs.objects) == 1
    assert "no right to delete" in contents.trouble


def test_contents_in_the_database_are_read_whatever_is_configured():
    assert read_contents(None, [b"1", b"2"]) == [b"1", b"2"]
    contents = at(place_of(ObjectsInMemory()))
    (stored,) = contents.put([FIRST])
    assert read_contents(contents, [b"1", stored, b"2"]) == [b"1", FIRST, b"2"]
    with pytest.raises(ContentsUnavailable, match=r"KubernetesBackend\.bundle_url is not set any more"):
        read_contents(None, [stored])


def test_a_database_keeps_its_folder_and_reads_what_is_in_the_database(tmp_path):
    url, large = f"file://{tmp_path}/objects", {"x": "y" * 100_000}
    (tmp_path / "objects").mkdir()
    with closing(SqlStore(f"sqlite:///{tmp_path / 'service.sqlite'}")) as store:
        with closing(open_bundles(store, "")) as bundles:
            bundles.stage(large, 10**6)
            bundles.write("job-1", "ann", large, 10**6)
        with closing(open_bundles(store, url)) as bundles:
            bundles.stage(large, 10**6)
            bundles.write("job-2", "ann", large, 10**6)
        with closing(open_bundles(store, url)) as bundles:
            assert [bundles.bundle(job) for job in ("job-1", "job-2")] == [large, large], "the old one is read too"
            (folder,) = (tmp_path / "objects").iterdir()
            assert {each.name for each in folder.iterdir()} == store.outside_names()
        with closing(open_bundles(store, "")) as bundles, pytest.raises(ContentsUnavailable):
            bundles.bundle("job-2")


def test_very_many_staged_bundles_are_kept_in_the_database(tmp_path):
    with closing(SqlStore(f"sqlite:///{tmp_path / 'service.sqlite'}")) as store:
        bundles = open_bundles(store, f"memory://{tmp_path.name}")
        documents = [{"number": number, "x": "y" * 40_000} for number in range(102)]
        for document in documents:
            bundles.stage(document, 10**6)
        for number in (0, 101):
            bundles.write(f"job-{number}", "ann", documents[number], 10**6)
            assert bundles.bundle(f"job-{number}") == documents[number]
        assert [store.file(job, "bundle.json") is None for job in ("job-0", "job-101")] == [False, True]
        bundles.close()


def test_a_restore_leaves_a_note_so_that_another_backup_can_be_restored(url, tmp_path):
    with closing(SqlStore(url)) as store:
        store.put_setting(RESTORED, {RESTORED_HELD: 9.9})
    backups.back_up(url, tmp_path / "backup.sqlite")
    backups.restore(tmp_path / "backup.sqlite", url, kept=tmp_path / "kept.sqlite")
    with closing(SqlStore(url)) as restored:
        assert restored.setting(RESTORED) == {RESTORED_HELD: 0.0}
        assert restored.setting(OWNER) is None, "this database has claimed nothing"


def test_a_restored_database_keeps_the_claim_of_the_one_that_it_replaces(url, tmp_path):
    with closing(SqlStore(url)) as store:
        store.put_setting(OWNER, {CLAIMS: ["old"]})
        backups.back_up(url, tmp_path / "backup.sqlite")
        store.put_setting(OWNER, {CLAIMS: ["newer", "newest"]})
    backups.restore(tmp_path / "backup.sqlite", url, kept=tmp_path / "kept.sqlite")
    with closing(SqlStore(url)) as restored:
        assert restored.setting(OWNER) == {CLAIMS: ["old", "newer", "newest"]}


def test_a_bundle_that_is_not_used_or_whose_job_is_refused_is_deleted_at_once(tmp_path):
    fs = ObjectsInMemory()
    with closing(SqlStore(f"sqlite:///{tmp_path / 'service.sqlite'}")) as store, closing(at(place_of(fs))) as contents:
        bundles = StoredBundles(store, store, contents)
        document = {"x": "y" * 100_000}
        first, second = bundles.stage(document, 10**6), bundles.stage(document, 10**6)
        bundles.write("job-1", "ann", document, 10**6)
        used = store.file("job-1", OUTSIDE_BUNDLE).decode()
        for name in (first, second):
            bundles.unstage(name)
        until(lambda: len(fs.objects) == 1)
        assert bundles.bundle("job-1") == document
        bundles.unstage(used)
        assert bundles.bundle("job-1") == document, "what is used is not staged any more"
        assert not bundles.is_outside("job-2", "ann", None, 0)
        assert bundles.is_outside("job-1", "ann", None, 0)
        bundles.withdraw("job-1", "ann")
        until(lambda: fs.objects == {})
        assert bundles.bundle("job-1") is None
