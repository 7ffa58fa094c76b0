"""Settings with thousands of training queues: the work to read them grows as their number does, and no faster."""

import pytest

from jupyter_gq.controller.settings.queues import training_queues
from jupyter_gq.controller.settings.traits import SettingsError


class CountedEntries(dict):
    """Settings of queues that count how often one of them is looked up."""

    lookups = 0

    def __getitem__(self, name):
        self.lookups += 1
        return super().__getitem__(name)


def flat(number):
    return CountedEntries({f"q{index}": {"quota": 1} for index in range(number)})


def nested(number):
    """A chain of queues, of which the deepest is written first."""
    parents = {f"q{index}": {"quota": 1, "parent": f"q{index + 1}"} for index in range(number - 1)}
    return CountedEntries({**parents, f"q{number - 1}": {"quota": 1}})


def nested_with_defaults(number):
    """A chain of queues of which each sets a default of CPU and memory, and the root sets limits."""
    entries = nested(number)
    for entry in entries.values():
        entry |= {"default_cpus": 1, "default_memory": 1}
    entries[f"q{number - 1}"] |= {"limit_cpus": 8, "limit_memory": 8}
    return entries


@pytest.mark.parametrize("make", [flat, nested, nested_with_defaults])
def test_twice_as_many_queues_are_about_twice_the_work(make):
    few, many = make(100), make(200)
    training_queues(few, "default", None)
    training_queues(many, "default", None)
    assert many.lookups < 2.5 * few.lookups


def test_parents_come_before_their_children_however_the_file_orders_them():
    names = [each.queue.name for each in training_queues(nested(5), "default", None)]
    assert names == ["q4", "q3", "q2", "q1", "q0"]


def test_a_circle_is_found_from_a_queue_below_it():
    entries = {"a": {"quota": 0, "parent": "b"}, "b": {"quota": 0, "parent": "c"}, "c": {"quota": 0, "parent": "b"}}
    with pytest.raises(SettingsError, match="above one another: a -> b -> c -> b"):
        training_queues(entries, "default", None)


def test_more_levels_than_the_scheduler_follows_are_refused():
    assert len(training_queues(nested(500), "default", None)) == 500
    with pytest.raises(SettingsError, match=r"has 500 queues above it.* at most 500 levels"):
        training_queues(nested(501), "default", None)
