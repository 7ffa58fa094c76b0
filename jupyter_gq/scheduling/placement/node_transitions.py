"""Transitions between node states by a task of one kind of request, and what the request mix loses by each."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from jupyter_gq.domain.workload import Request

from .host_resources import WHOLE, host_request_of
from .node_states import Columns, Integers, Numbers, Slot, States, doubled


class Transition(NamedTuple):
    """A way to place a task on a node in that state."""

    state: int
    #: The slots that are taken from: as many as the request has devices.
    slots: list[Slot]


class Transitions:
    """The transitions of one request for the states that were seen; states without nodes are forgotten in time."""

    def __init__(self, states: States, request: Request, suitable: Sequence[int]) -> None:
        """Begin without transitions; `suitable` are the numbers of the kinds of device that the request may use."""
        self._states, self._devices, self._milli = states, request.devices, int(request.milli_per_device)
        self._need = host_request_of(request)
        self._suitable = np.zeros(len(states.kinds) + 1, np.bool_)
        self._suitable[list(suitable)] = True
        #: States that were looked at, and how many have been seen.
        self._known: set[int] = set()
        self._at = 0
        self._size = 0
        #: By way: the state, the devices taken, what decides between equals, and what each kind of request loses.
        self._before: Integers = np.zeros(16, np.int64)
        self._taken: Integers = np.zeros((16, request.devices), np.int64)
        self._tie: Integers = np.zeros(16, np.int64)
        self._loss: Numbers = np.zeros((16, states.usable.shape[1]))

    def learn(self, seen: Sequence[int]) -> None:
        """Add the transitions from the states that `seen` has gained since the last call to the table of losses.

        `seen` is the whole list, which only grows. First the table gets columns for new kinds of request.
        """
        columns = self._states.columns
        known = self._loss.shape[1]
        if known < len(columns.asked):
            new = Columns(columns.asked[known:], self._states.kinds)
            self._loss = np.hstack([self._loss, np.zeros((len(self._loss), len(new.asked)))])
            self._lose(0, new)
        if self._at < len(seen):
            states = [state for state in dict.fromkeys(seen[self._at :]) if state not in self._known]
            self._at = len(seen)
            self._known.update(states)
            self._add(np.array(states, np.int64))

    def best(self, count: Integers, weights: Numbers) -> list[Transition]:
        """Return the transitions with the least weighted loss; of these, the fullest devices, then the fullest node.

        Several are returned if nothing decides between them, none if no node has a transition. `count` is the number of
        nodes by state. If most transitions are of states without nodes, those are forgotten.
        """
        alive = np.flatnonzero(count[self._before[: self._size]])
        if not len(alive):
            return []
        if len(alive) < self._size // 2:
            self._keep(alive)
            alive = np.arange(self._size)
        loss = (self._loss[: self._size] @ weights)[alive]
        best = alive[loss == loss.min()]
        tie = self._tie[best]
        return [self._way(row) for row in best[tie == tie.min()].tolist()]

    def _way(self, row: int) -> Transition:
        state = int(self._before[row])
        slots = self._states.of[state].slots
        return Transition(state, [slots[device] for device in self._taken[row].tolist()])

    def _add(self, states: Integers) -> None:
        """Add every possible transition from these states to the table of losses."""
        table = self._states
        states = states[(table.rooms[states] >= self._need).all(axis=1)]
        before, taken = self._from(states)
        first, self._size = self._size, self._size + len(before)
        if not len(before):
            return
        while self._size > len(self._before):
            self._before, self._taken = doubled(self._before), doubled(self._taken)
            self._tie, self._loss = doubled(self._tie), doubled(self._loss)
        new = slice(first, self._size)
        self._before[new], self._taken[new] = before, taken
        # Between equals: the fullest devices, then the fullest node.
        amounts = table.slot_amounts[before]
        self._tie[new] = np.take_along_axis(amounts, taken, axis=1).sum(axis=1) << 20 | amounts.sum(axis=1)
        self._lose(first, table.columns)

    def _from(self, states: Integers) -> tuple[Integers, Integers]:
        """Return two arrays with one entry for each transition from these states: its state, and the devices taken.

        For a fraction of one device, there is one transition for each amount and kind of device; otherwise the fullest
        devices that fit are taken.
        """
        if not self._devices:
            return states, np.zeros((len(states), 0), np.int64)
        kinds, amounts = self._states.slot_kinds[states], self._states.slot_amounts[states]
        fits = (amounts >= self._milli) & self._suitable[kinds]
        if self._devices == 1 and self._milli < WHOLE:  # each device that is unlike the one before it
            fits[:, 1:] &= (amounts[:, 1:] != amounts[:, :-1]) | (kinds[:, 1:] != kinds[:, :-1])
            rows, devices = np.nonzero(fits)
            return states[rows], devices[:, None]
        enough = np.flatnonzero(fits.sum(axis=1) >= self._devices)
        order = np.argsort(np.where(fits, amounts, 2 * WHOLE)[enough], axis=1, kind="stable")
        return states[enough], order[:, : self._devices]

    def _lose(self, first: int, columns: Columns) -> None:
        rows = slice(first, self._size)
        before, there = self._before[rows], slice(self._loss.shape[1] - len(columns.asked), None)
        after = self._states.usable_after(before, self._taken[rows], self._milli, self._need, columns)
        self._loss[rows, there] = self._states.usable[before, there] - after

    def _keep(self, alive: Integers) -> None:
        """Forget all transitions but those of these rows."""
        self._size = size = len(alive)
        for array in (self._before, self._taken, self._tie, self._loss):
            array[:size] = array[alive]
        self._known = set(self._before[:size].tolist())
