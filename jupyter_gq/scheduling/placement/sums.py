"""Sums of the device ledger: what is free on each device and node, now and later, and negative if too much is taken.

Rules
-----
Two futures: in the *firm* future, work that may borrow is not there, but what is lent is taken. In the other future it
is the other way round. Work has what both leave, so what borrowers use of a lent share counts once. A reservation
against the borrowers as well takes what is lent from both futures.

See docs/decisions/0294-count-what-is-lent-and-what-borrowers-use-once.md.
"""

from collections.abc import Sequence

from .host_resources import UNLIMITED, WHOLE, HostResources, with_tasks
from .layout import Layout

#: A node, devices of it, what a task takes of each and of the node's room, and how many times that is added to what is
#: free, to the future, to what nominated work gets, and to the firm future.
Entry = tuple[int, Sequence[int], int, HostResources, int, int, int, int]


class Sums:
    """The sums by device and by node, without any limit."""

    def __init__(self, layout: Layout) -> None:
        self.free = [WHOLE if device.healthy else 0 for device in layout.devices]
        self.future = list(self.free)
        self.firm = list(self.free)
        #: Parts of the future that nominated work gets: milli-GPU by device, tasks by node.
        self.nominated = [0] * len(layout.devices)
        self.nominated_tasks = [0] * len(layout.nodes)
        self.free_room: list[HostResources] = list(layout.room)
        self.future_room: list[HostResources] = list(layout.room)
        self._layout = layout

    def add(self, entry: Entry, sign: int) -> None:
        """Add one entry (`sign` -1: subtract it) to the sums of its devices and its node."""
        node, ranks, milli, need, free, future, nominated, firm = entry
        milli *= sign
        if free:  # not one loop for all sums: most entries change one or two, and this is called often
            for rank in ranks:
                self.free[rank] += free * milli
        if future:
            for rank in ranks:
                self.future[rank] += future * milli
        if nominated:
            for rank in ranks:
                self.nominated[rank] += nominated * milli
        if firm:
            for rank in ranks:
                self.firm[rank] += firm * milli
        if self._layout.room[node] is not UNLIMITED:
            self.nominated_tasks[node] += sign * nominated
            self.free_room[node] = with_tasks(self.free_room[node], need, sign * free)
            self.future_room[node] = with_tasks(self.future_room[node], need, sign * future)
