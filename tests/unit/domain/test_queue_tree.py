"""Walks in a tree of two departments: research with two teams, one of which has a group, and sales without teams."""

from jupyter_gq.domain.queue_tree import common_end, find_leaves, part_paths, path_of, sum_up
from tests.builders import a_queue

TREE = {
    queue.name: queue
    for queue in (
        a_queue("research", 8),
        a_queue("vision", 4, parent="research"),
        a_queue("nlp", 4, parent="research"),
        a_queue("speech", 2, parent="nlp"),
        a_queue("sales", 1),
    )
}


def names(queues):
    return [queue.name for queue in queues]


def path(name):
    return path_of(name, TREE)


def test_a_path_goes_up_to_the_root():
    assert names(path("speech")) == ["speech", "nlp", "research"]
    assert names(path("sales")) == ["sales"]


def test_an_unknown_queue_has_no_path():
    assert path("gone") == []


def test_a_path_ends_below_an_unknown_queue():
    del (known := dict(TREE))["research"]
    assert names(path_of("speech", known)) == ["speech", "nlp"]


def test_paths_part_at_the_first_queue_that_both_have():
    own, theirs = part_paths(path("speech"), path("vision"))
    assert (names(own), names(theirs)) == (["speech", "nlp"], ["vision"])
    assert names(common_end(path("speech"), path("vision"))) == ["research"]


def test_paths_of_one_queue_have_all_in_common():
    assert part_paths(path("speech"), path("speech")) == ([], [])
    assert names(common_end(path("speech"), path("speech"))) == ["speech", "nlp", "research"]


def test_a_path_through_the_other_queue_keeps_what_is_below_that():
    own, theirs = part_paths(path("speech"), path("nlp"))
    assert (names(own), names(theirs)) == (["speech"], [])


def test_paths_to_different_roots_have_nothing_in_common():
    own, theirs = part_paths(path("speech"), path("sales"))
    assert (names(own), names(theirs)) == (["speech", "nlp", "research"], ["sales"])
    assert common_end(path("speech"), path("sales")) == []


def test_a_sum_has_the_amounts_of_all_queues_below():
    sums = sum_up({"speech": 1, "nlp": 2, "vision": 4, "gone": 8}, TREE)
    assert sums == {"speech": 1, "nlp": 3, "vision": 4, "research": 7}


def test_leaves_have_no_queue_below_them():
    assert names(find_leaves(TREE.values())) == ["vision", "speech", "sales"]
