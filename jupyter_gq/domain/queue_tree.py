"""Walks in the queue tree: the path from a queue to its root, the sums along the paths, and the leaves.

A path begins with the lowest queue and ends with its root. No queue may be above itself: see `validate`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

from .queue import Queue

Step = TypeVar("Step")
Amount = TypeVar("Amount", int, float)


def path_of(name: str, queues: Mapping[str, Queue]) -> list[Queue]:
    """Return the queue of that name and all queues above it, from the lowest up; [] if `queues` has no such name."""
    path: list[Queue] = []
    above: str | None = name
    while above is not None and above in queues:
        path.append(queues[above])
        above = queues[above].parent
    return path


def common_end(one: Sequence[Step], other: Sequence[Step]) -> Sequence[Step]:
    """Return the steps that two paths have in common, up to the root; none for paths to different roots."""
    count = 0
    for ours, theirs in zip(reversed(one), reversed(other), strict=False):
        if ours != theirs:
            break
        count += 1
    return one[len(one) - count :]


def part_paths(one: Sequence[Step], other: Sequence[Step]) -> tuple[Sequence[Step], Sequence[Step]]:
    """Return two paths without the steps that they have in common."""
    common = len(common_end(one, other))
    return one[: len(one) - common], other[: len(other) - common]


def sum_up(amounts: Mapping[str, Amount], queues: Mapping[str, Queue]) -> dict[str, Amount]:
    """Return, for each queue on a path of `amounts`, the sum of its own amount and of those of all queues below it.

    Amounts of unknown queues are left out.
    """
    sums: dict[str, Amount] = {}
    for name, amount in amounts.items():
        for queue in path_of(name, queues):
            sums[queue.name] = sums.get(queue.name, 0) + amount
    return sums


def find_leaves(queues: Iterable[Queue]) -> list[Queue]:
    """Return the queues without queues below them, in the given order. Only leaves take work."""
    found = list(queues)
    parents = {queue.parent for queue in found}
    return [queue for queue in found if queue.name not in parents]
