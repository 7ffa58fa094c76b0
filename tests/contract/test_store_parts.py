"""Parts of files: each owner has its own, and they go when no workload has them."""

import pytest

from jupyter_gq.domain.amount import Instant
from jupyter_gq.store.outside import OUTSIDE_BUNDLE, OutsideContent
from jupyter_gq.store.protocol import PageSize
from jupyter_gq.store.sql import SqlStore


@pytest.fixture
def store(url):
    opened = SqlStore(url)
    yield opened
    opened.close()


def test_parts_are_kept_for_each_owner_until_no_workload_uses_them(store):
    first, second = "a" * 64, "b" * 64
    store.put_parts("ann", {first: b"1", second: b"22"}, Instant(5.0))
    assert store.want_parts("ann", [first, "c" * 64], Instant(6.0)) == {first}
    assert store.want_parts("bob", [first], Instant(6.0)) == frozenset()
    assert (store.parts_size("ann"), store.parts_size("bob")) == (3, 0)
    assert store.use_parts("digits", "bob", [(first, 1)]) == {first}
    assert store.use_parts("digits", "ann", [(second, 2), (first, 2)]) == {first}, "it has one byte"
    assert store.parts("digits", 0, PageSize(entries=10)) == ()
    assert store.use_parts("digits", "ann", [(second, 2), (first, 1), (second, 2)]) == frozenset()
    assert store.parts("digits", 0, PageSize(entries=10, size=4)) == (b"22", b"1")
    assert store.parts("digits", 2, PageSize(entries=10)) == (b"22",)
    assert store.delete_unused_parts(Instant(100.0)) == 0
    store.delete_files("digits")
    assert store.delete_unused_parts(Instant(5.5)) == 1, "the other one was wanted later"
    assert store.delete_unused_parts(Instant(100.0)) == 1


def test_unused_parts_are_deleted_in_portions_between_which_others_write(store):
    digests = [letter * 64 for letter in "abcde"]
    store.put_parts("ann", dict(zip(digests, (b"1", b"22", b"333", b"4", b"5"), strict=True)), Instant(5.0))
    store.put_parts("bob", {digests[0]: b"1"}, Instant(5.0))
    assert store.use_parts("digits", "ann", [(digests[0], 1)]) == frozenset()
    deleted = [store.delete_unused_parts(Instant(100.0), PageSize(entries=2)) for _ in range(4)]
    assert deleted == [2, 2, 1, 0]
    assert store.parts("digits", 0, PageSize(entries=10)) == (b"1",), "a job has it"


def test_a_portion_of_unused_parts_is_limited_by_their_bytes(store):
    store.put_parts("ann", {letter * 64: b"1234" for letter in "abc"}, Instant(5.0))
    deleted = [store.delete_unused_parts(Instant(100.0), PageSize(entries=9, size=size)) for size in (8, 1, 1)]
    assert deleted == [2, 1, 0], "a portion has at least one part"


def test_parts_that_come_back_are_kept_apart_from_those_that_went_along(store):
    along, first, second = "a" * 64, "b" * 64, "c" * 64
    store.put_parts("ann", {along: b"1", first: b"22", second: b"333"}, Instant(5.0))
    assert store.use_parts("digits", "ann", [(along, 1)]) == frozenset()
    assert store.use_result_parts("digits", "bob", [(first, 2)]) == {first}
    assert store.use_result_parts("digits", "ann", [(first, 2), (along, 1), (first, 2)]) == frozenset()
    assert store.use_result_parts("digits", "ann", [(second, 3), ("d" * 64, 3)]) == {"d" * 64}, "nothing was recorded"
    assert store.use_result_parts("digits", "ann", [(second, 4)]) == {second}, "it has three bytes"
    assert store.parts("digits", 0, PageSize(entries=10)) == (b"1",)
    assert (store.part("ann", first), store.part("bob", first), store.part("ann", "d" * 64)) == (b"22", None, None)
    assert store.delete_unused_parts(Instant(100.0)) == 1, "the second one is not used"
    assert store.use_result_parts("digits", "ann", [(along, 1)]) == frozenset()
    assert store.delete_unused_parts(Instant(100.0)) == 1, "the first one was replaced"
    assert store.parts("digits", 0, PageSize(entries=10)) == (b"1",)


def test_a_large_content_may_be_outside_and_counts_as_if_it_were_here(store):
    far = OutsideContent(name=f"{'9' * 64}-{'0' * 16}", size=40_000)
    first, second, third = "a" * 64, "b" * 64, "c" * 64
    # A content that reads like the name of an object is a content.
    store.put_parts("ann", {first: far, second: far.name.encode(), third: b"x" * 50_000}, Instant(5.0))
    assert store.parts_size("ann") == 40_000 + len(far.name) + 50_000
    assert store.use_parts("digits", "ann", [(first, len(far.name))]) == {first}, "the size is that of the content"
    assert store.use_parts("digits", "ann", [(first, 40_000), (second, len(far.name)), (third, 50_000)]) == frozenset()
    assert store.parts("digits", 0, PageSize(entries=10)) == (far, far.name.encode(), b"x" * 50_000)
    assert store.parts("digits", 0, PageSize(entries=10, size=40_010)) == (far,)
    assert store.part("ann", first) == far
    store.put_file("digits", OUTSIDE_BUNDLE, b"of-a-bundle")
    store.put_file("digits", "bundle.json", b"{}")
    assert store.outside_names() == {far.name, "of-a-bundle"}
    store.delete_files("digits")
    assert store.delete_unused_parts(Instant(100.0)) == 3
    assert store.outside_names() == frozenset()
