"""Two services whose databases are copies of each other never delete each other's contents outside the database."""

import logging
from contextlib import ExitStack, closing

import pytest

from jupyter_gq.backends.kubernetes.bundles import StoredBundles
from jupyter_gq.backends.kubernetes.contents_at_url import ContentsAtUrl
from jupyter_gq.backends.kubernetes.place import Place
from jupyter_gq.controller.loop.cleaning.orphaned_contents import GRACE
from jupyter_gq.domain.errors import ContentsUnavailable
from jupyter_gq.store.outside import CLAIMS, OWNER
from tests.fakes.file_systems import ObjectsInMemory
from tests.patience import scaled

from .world import World

pytestmark = pytest.mark.asyncio
HOUR = 3600
LARGE = b"1" * 50_000
OWNER_OBJECT = f"bucket/{'a' * 16}/owner"


class RefusesOneOwner(ObjectsInMemory):
    """The next write of a claim fails."""

    refuses = False

    def pipe_file(self, path, value):
        if path == OWNER_OBJECT and self.refuses:
            self.refuses = False
            raise PermissionError("403")
        super().pipe_file(path, value)


@pytest.fixture
def fs():
    return RefusesOneOwner()


@pytest.fixture
def services(tmp_path, fs):
    """Two services with databases of their own, whose contents are at one place under one name."""
    with ExitStack() as opened:
        made = []
        for name in ("first", "second"):
            (tmp_path / name).mkdir()
            world = opened.enter_context(closing(World(tmp_path / name)))
            place = Place(fs=fs, root="bucket", shown="s3://bucket")
            world.contents = opened.enter_context(
                closing(ContentsAtUrl(place, "a" * 16, timeout=scaled(20), probe_every=3600))
            )
            world.bundles = StoredBundles(world.store, world.store, world.contents)
            world.restart()
            made.append(world)
        yield made


def copy_claims(source, target):
    """Give the second database what the first one knows, as a copy of the first one has it."""
    target.store.put_setting(OWNER, source.store.setting(OWNER))


async def sweep(world):
    world.clock.forward(HOUR)
    return await world.controller.retention.contents.sweep()


async def sweep_for(hours, *worlds):
    """Sweep as services do that run at the same time; return how many objects each deleted."""
    deleted = [0] * len(worlds)
    for _ in range(hours):
        for number, world in enumerate(worlds):
            deleted[number] += await sweep(world)
    return deleted


def store_part(world):
    (part,) = world.contents.put([LARGE])
    world.store.put_parts("ann", {part.name[:64]: part}, world.clock.now())
    return part


def health(world):
    return world.controller.status.check_health()


async def test_a_service_and_those_after_it_own_their_contents(services, fs):
    first, _ = services
    for _ in range(3):
        await sweep(first)
        assert fs.objects[OWNER_OBJECT].decode() == first.store.setting(OWNER)[CLAIMS][-1]
        first.restart()
    first.contents.put([LARGE])
    assert await sweep_for(int(GRACE / HOUR) + 1, first) == [1]
    assert (health(first).code, health(first).warnings) == ("ok", [])


async def test_an_earlier_copy_deletes_nothing_stores_nothing_and_disturbs_nobody(services, fs, caplog):
    first, copy = services
    await sweep(first)
    copy_claims(first, copy)
    await sweep(first)
    part = store_part(first)
    with caplog.at_level(logging.ERROR):
        assert await sweep_for(30, copy, first) == [0, 0]
    assert first.contents.get([part]) == [LARGE]
    with pytest.raises(ContentsUnavailable, match="cannot be used now"):
        copy.contents.put([LARGE])
    told = health(copy)
    assert told.code == "contents_away"
    assert f"delete the object s3://bucket/{'a' * 16}/owner" in told.failures[0]
    assert "this service neither stores nor deletes any" in told.failures[0]
    assert caplog.text.count("are also those of another one") == 1, "it is said once"
    store_part(first)
    assert health(first).code == "ok"


async def test_a_fresh_copy_is_noticed_before_either_deletes_and_both_go_on(services, fs):
    first, copy = services
    await sweep(first)
    copy_claims(first, copy)
    parts = [store_part(first), store_part(copy)]
    assert await sweep_for(30, copy, first) == [0, 0]
    for world, part in zip(services, parts, strict=True):
        assert world.contents.get([part]) == [LARGE]
        assert health(world).code == "ok", "new contents are stored"
        assert "neither service deletes any" in health(world).warnings[0]
        store_part(world)


async def test_the_service_that_is_left_takes_the_contents_over_when_the_claim_is_deleted(services, fs):
    first, copy = services
    await sweep(first)
    copy_claims(first, copy)
    store_part(copy)
    await sweep_for(10, copy, first)
    del fs.objects[OWNER_OBJECT]  # by the administrator, who has stopped the copy
    assert await sweep_for(int(GRACE / HOUR), first) == [0], "the grace begins now"
    assert health(first).warnings == []
    assert await sweep(first) == 1, "what only the copy knows"
    copy.restart()
    assert await sweep_for(2, copy) == [0]
    assert health(copy).code == "contents_away", "a copy that comes back stores nothing"


async def test_a_claim_that_could_not_be_written_is_no_other_database(services, fs):
    first, _ = services
    await sweep(first)
    fs.refuses = True
    await sweep(first)
    await sweep(first)
    assert (health(first).code, health(first).warnings) == ("ok", [])
    store_part(first)


async def test_a_copy_that_claims_the_contents_at_the_same_moment_deletes_nothing(services, fs):
    first, copy = services
    await sweep(first)
    copy_claims(first, copy)
    part = store_part(first)
    await sweep_for(1, copy, first)
    # The copy has read its own claim just before the first service wrote over it, and writes the next one now.
    fs.objects[OWNER_OBJECT] = copy.store.setting(OWNER)[CLAIMS][-1].encode()
    assert await sweep_for(30, first, copy) == [0, 0]
    assert first.contents.get([part]) == [LARGE]
    assert [health(each).code for each in services] == ["ok", "ok"], "nobody knows whose copy is meant"
    assert "neither service deletes any" in health(first).warnings[0]


async def test_a_copy_is_noticed_while_nothing_is_deleted_because_the_clock_leapt(services, fs):
    first, copy = services
    await sweep(first)
    copy_claims(first, copy)
    first.clock.set(10 * 86400)  # nothing is deleted for a day
    part = store_part(first)
    for _ in range(20):
        await sweep(copy)
        first.clock.forward(HOUR)
        await first.controller.retention.sweep_contents()
    assert first.contents.get([part]) == [LARGE]
    assert "neither service deletes any" in health(first).warnings[0]


async def test_a_claim_that_is_written_late_and_a_url_that_is_set_back_are_no_other_database(services, fs):
    first, _ = services
    await sweep(first)
    earlier = dict(fs.objects)
    await sweep(first)
    fs.objects = dict(earlier)  # a write that was thought to have failed arrives an hour later
    await sweep(first)
    kept, fs.objects = fs.objects, {}  # another URL for an hour
    first.restart()
    await sweep(first)
    fs.objects = kept
    first.restart()
    await sweep(first)
    assert (health(first).code, health(first).warnings) == ("ok", [])
    store_part(first)
