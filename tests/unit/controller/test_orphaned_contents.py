"""Contents outside the database go when nothing names them, and never while something may."""

import logging
from contextlib import closing

import pytest

from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.backends.kubernetes.contents_at_url import ContentsAtUrl
from jupyter_gq.backends.kubernetes.place import Place
from jupyter_gq.controller.loop.cleaning import orphaned_contents
from jupyter_gq.controller.loop.cleaning.orphaned_contents import GRACE, RESTORED_GRACE
from jupyter_gq.domain.amount import Instant
from jupyter_gq.store.outside import RESTORED, RESTORED_HELD
from tests.fakes.file_systems import ObjectsInMemory, RefusesWhileClosed
from tests.patience import eventually, scaled

pytestmark = pytest.mark.asyncio

HOUR = 3600
LARGE = {"x": "y" * 100_000}


@pytest.fixture
def fs():
    return RefusesWhileClosed()


@pytest.fixture
def contents(world, fs):
    place = Place(fs=fs, root="bucket", shown="s3://bucket")
    with closing(ContentsAtUrl(place, "a" * 16, timeout=scaled(20), probe_every=0.01)) as contents:
        world.bundles = StoredBundles(world.store, world.store, contents)
        world.restart()
        yield contents


async def sweep_every_hour(world, seconds):
    """Sweep as the running service does; return how many objects were deleted."""
    deleted = 0
    for _ in range(int(seconds // HOUR)):
        world.clock.forward(HOUR)
        deleted += await world.controller.retention.contents.sweep()
    return deleted


async def test_what_nothing_names_goes_after_the_grace_and_what_is_named_stays(world, contents):
    (part, lost) = contents.put([b"1" * 50_000, b"2" * 50_000])
    world.store.put_parts("ann", {"a" * 64: part}, world.clock.now())
    world.bundles.stage(LARGE, 10**6)
    world.bundles.write("job-1", "ann", LARGE, 10**6)
    assert await world.controller.retention.contents.sweep() == 0
    assert await sweep_every_hour(world, GRACE - HOUR) == 0
    assert await sweep_every_hour(world, HOUR) == 1
    assert lost.name not in contents.names()
    assert world.bundles.bundle("job-1") == LARGE
    assert contents.get([part]) == [b"1" * 50_000]


async def test_contents_of_a_deleted_job_and_unused_parts_go(world, contents):
    (part,) = contents.put([b"1" * 50_000])
    world.store.put_parts("ann", {"a" * 64: part}, world.clock.now())
    world.bundles.stage(LARGE, 10**6)
    world.bundles.write("job-1", "ann", LARGE, 10**6)
    await world.controller.retention.contents.sweep()
    world.bundles.delete("job-1", "ann")
    assert world.store.delete_unused_parts(Instant(world.clock.now() + 1)) == 1
    assert await sweep_every_hour(world, GRACE + HOUR) == 2
    assert contents.names() == frozenset()


async def test_an_upload_that_is_recorded_late_is_kept(world, contents):
    (part,) = contents.put([b"1" * 50_000])
    await world.controller.retention.contents.sweep()
    assert await sweep_every_hour(world, GRACE - HOUR) == 0
    world.store.put_parts("ann", {"a" * 64: part}, world.clock.now())
    assert await sweep_every_hour(world, 2 * GRACE) == 0
    assert contents.get([part]) == [b"1" * 50_000]


async def test_an_upload_whose_machine_sleeps_before_it_is_recorded_is_kept(world, contents):
    (part,) = contents.put([b"1" * 50_000])
    await world.controller.retention.contents.sweep()
    world.clock.sleep(2 * GRACE)
    assert await world.controller.retention.contents.sweep() == 0
    assert contents.get([part]) == [b"1" * 50_000]


class RecordsWhileItIsListed(ObjectsInMemory):
    """An upload is recorded after the list of names was read, and before the list of objects."""

    record = None

    def ls(self, path, *, detail):
        if self.record is not None:
            self.record()
        return super().ls(path, detail=detail)


async def test_what_is_recorded_during_a_sweep_is_kept(world):
    fs = RecordsWhileItIsListed()
    with closing(ContentsAtUrl(Place(fs=fs, root="x", shown="s3://x"), "a" * 16, timeout=scaled(20))) as contents:
        world.bundles = StoredBundles(world.store, world.store, contents)
        world.restart()
        (part,) = contents.put([b"1" * 50_000])
        await world.controller.retention.contents.sweep()
        await sweep_every_hour(world, GRACE - HOUR)
        fs.record = lambda: world.store.put_parts("ann", {"a" * 64: part}, world.clock.now())
        assert await sweep_every_hour(world, HOUR) == 0
        assert contents.names() == {part.name}


async def test_a_sweep_that_fails_forgets_nothing_and_a_restart_begins_the_grace_anew(world, contents, fs):
    contents.put([b"1" * 50_000])
    await world.controller.retention.contents.sweep()
    await sweep_every_hour(world, GRACE - HOUR)
    fs.closed = True
    assert await sweep_every_hour(world, HOUR) == 0, "no error: the place has said why"
    await eventually(lambda: contents.trouble != "")
    fs.closed = False
    await eventually(lambda: contents.trouble == "")
    assert await world.controller.retention.contents.sweep() == 1
    contents.put([b"1" * 50_000])
    await world.controller.retention.contents.sweep()
    assert await sweep_every_hour(world, GRACE - HOUR) == 0
    world.restart()
    await world.controller.retention.contents.sweep()
    assert await sweep_every_hour(world, GRACE - HOUR) == 0
    assert await sweep_every_hour(world, HOUR) == 1


async def test_one_sweep_deletes_a_bounded_number(world, contents, monkeypatch):
    monkeypatch.setattr(orphaned_contents, "_MOST_DELETED", 2)
    contents.put([b"1" * 50_000] * 3)
    await world.controller.retention.contents.sweep()
    world.clock.forward(GRACE)
    assert [await world.controller.retention.contents.sweep() for _ in range(3)] == [2, 1, 0]


class KeepsOne(ObjectsInMemory):
    """One object can neither be read nor deleted, as under a lock of the bucket."""

    kept = ""

    def rm_file(self, path):
        if path == self.kept:
            raise PermissionError("403 for this object")
        super().rm_file(path)


async def test_an_object_that_cannot_be_deleted_keeps_no_other_one_and_no_upload(world, monkeypatch):
    monkeypatch.setattr(orphaned_contents, "_PORTION", 2)
    fs = KeepsOne()
    place = Place(fs=fs, root="x", shown="s3://x")
    with closing(ContentsAtUrl(place, "a" * 16, timeout=scaled(20), probe_every=3600)) as contents:
        world.bundles = StoredBundles(world.store, world.store, contents)
        world.restart()
        names = sorted(each.name for each in contents.put([b"1" * 50_000] * 5))
        fs.kept = f"x/{'a' * 16}/{names[0]}"
        await sweep_every_hour(world, GRACE + HOUR)
        assert contents.names() & set(names) == {names[0]}
        contents.put([b"2" * 50_000])
        fs.kept = ""
        await world.controller.retention.contents.sweep()
        assert names[0] not in contents.names(), "what was left is tried again at once"


async def test_a_sweep_that_lasts_too_long_ends_and_the_next_one_goes_on(world, contents, fs, monkeypatch):
    monkeypatch.setattr(orphaned_contents, "_PORTION", 1)
    contents.put([b"1" * 50_000] * 3)
    await world.controller.retention.contents.sweep()
    world.clock.forward(GRACE)
    delete, log = fs.rm_file, []

    def delete_slowly(path):
        log.append(path)
        world.clock.forward(600)
        delete(path)

    monkeypatch.setattr(fs, "rm_file", delete_slowly)
    assert [await world.controller.retention.contents.sweep() for _ in range(2)] == [2, 1]
    assert len(log) == 3


async def test_a_missing_object_is_said_once(world, contents, fs, caplog):
    (part,) = contents.put([b"1" * 50_000])
    world.store.put_parts("ann", {"a" * 64: part}, world.clock.now())
    fs.objects.clear()
    with caplog.at_level(logging.ERROR):
        await sweep_every_hour(world, 3 * HOUR)
    said = f"1 contents that the database names are not at KubernetesBackend.bundle_url, such as {part.name}"
    assert caplog.text.count(said) == 1


async def test_after_a_restore_nothing_is_deleted_until_services_have_worked_for_a_week(world, contents):
    contents.put([b"1" * 50_000])
    world.store.put_setting(RESTORED, {RESTORED_HELD: 0.0})
    world.restart()
    assert await sweep_every_hour(world, 3 * 24 * HOUR) == 0
    world.restart()
    assert await sweep_every_hour(world, RESTORED_GRACE - 3 * 24 * HOUR - HOUR) == 0
    assert await sweep_every_hour(world, HOUR) == 1
    contents.put([b"1" * 50_000])
    assert await sweep_every_hour(world, GRACE + HOUR) == 1, "only once after a restore"


async def test_contents_without_a_place_are_told_until_it_is_set_again(world, contents, caplog):
    (part,) = contents.put([b"1" * 50_000])
    world.store.put_parts("ann", {"a" * 64: part}, world.clock.now())
    world.bundles = StoredBundles(world.store, world.store)
    world.restart()
    for _ in range(2):
        assert await world.controller.retention.contents.sweep() == 0
    said = "1 contents of jobs are at a URL, but KubernetesBackend.bundle_url is not set any more. Set it again"
    assert caplog.text.count(said) == 1
    assert said in world.controller.status.check_health().warnings[0]
    world.store.delete_unused_parts(Instant(world.clock.now() + 1))
    await world.controller.retention.contents.sweep()
    assert world.controller.status.check_health().warnings == []


async def test_without_a_place_nothing_is_swept(world):
    assert await world.controller.retention.contents.sweep() == 0


async def test_after_a_leap_of_the_clock_nothing_is_deleted_for_a_day(world, contents):
    contents.put([b"1" * 50_000])
    await world.controller.retention.sweep_contents()
    world.clock.set(40 * 24 * HOUR)
    for _ in range(23):
        world.clock.forward(HOUR)
        await world.controller.retention.sweep_contents()
    assert len(contents.names()) == 1
    for _ in range(2 + int(GRACE // HOUR)):
        world.clock.forward(HOUR)
        await world.controller.retention.sweep_contents()
    assert contents.names() == frozenset()
