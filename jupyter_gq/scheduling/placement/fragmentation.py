"""The policy `fragmentation`: a task goes where the request mix loses least of what it could still use.

After "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent" (USENIX ATC '23).

Rules
-----
1. Mix. The *mix* holds each kind of request that is known at present, with its number of tasks.
2. Usable amounts. What a kind could use is counted on each node (`node_states`) and summed over all nodes.
3. Value. The value of the cluster is the sum over the kinds of number x log(usable amount). Taking the last nodes from
   a kind costs much, taking a few of very many costs little. Kinds whose nodes are scarce are spared.
4. Choice. A task goes where that sum falls least: each node's loss of a kind counts by number / usable amount.
5. Ties go to the fullest devices, then the fullest node, then the lowest names.

Everything depends on the present free amounts and on the mix alone, not on the way there. So there is nothing to roll
back, and kept scores are the scores that would be computed. All sums are of whole numbers, exact in any order.

Cost: what is known of a state of a node is kept, and a choice looks at the states that nodes are in, not at the nodes.

See docs/decisions/0012-place-where-other-requests-lose-least.md.
"""

import itertools
from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence

import numpy as np

from jupyter_gq.domain.workload import Request

from .choice import FreeResources, Spot
from .host_resources import View
from .node_states import DeviceKind, Integers, NodeState, Numbers, Slot, States
from .node_transitions import Transitions
from .request_mix import MOST, RequestMix
from .scope import Filter, Scope

#: The sum of all weights. A weighted sum of usable amounts stays below 2**53, and so exact.
_WEIGHT = 1 << 36
#: The most known states; beyond that, states without nodes are forgotten.
_MOST_STATES = 20_000
#: The most scopes; beyond that, all are made anew.
_MOST_SCOPES = 200
#: Number of kinds of request whose transitions are kept, in each scope.
_MOST_REQUESTS = 256


class FragmentationPolicy:
    """The policy that takes the place where the request mix loses least of what it could still use."""

    def __init__(self, mix: RequestMix) -> None:
        self._mix = mix
        self._views: dict[View, _NodesInView] = {}
        self._dirty: set[int] = set()

    def begin(self, resources: FreeResources) -> None:
        """Store the free resources; nodes are read when a place is first chosen."""
        self._resources = resources

    def changed(self, node: int) -> None:
        """Mark a node as changed, so that it is read again before the next choice."""
        self._dirty.add(node)

    def choose(self, scope: Scope, request: Request, view: View) -> Spot | None:
        """Return the place for one task where the request mix loses least; None if none fits."""
        for each in self._views.values():
            each.dirty |= self._dirty
        self._dirty.clear()
        nodes = self._views.get(view)
        if nodes is None or len(nodes.states) > _MOST_STATES or len(nodes.states.columns.asked) > 2 * MOST:
            nodes = self._views[view] = _NodesInView(self._resources, view, self._mix)
        nodes.catch_up()
        return nodes.in_scope(scope).choose(scope, request, nodes.weights())


class _NodesInView:
    """The nodes in one view: the state of each, and the usable amount of each kind over all of them."""

    def __init__(self, resources: FreeResources, view: View, mix: RequestMix) -> None:
        layout = resources.layout
        self.layout = layout
        self._amount, self._room = resources.amount(view), resources.room(view)
        self._mix = mix
        self._version = -1
        kinds = sorted({DeviceKind.of(device) for device in layout.devices})
        number = {kind: index for index, kind in enumerate(kinds)}
        self._kind_of = [number[DeviceKind.of(device)] for device in layout.devices]
        self._devices_of = [
            [rank for device_set in device_sets for rank in layout.devices_of_set[device_set]]
            for device_sets in layout.sets_of_node
        ]
        self.states = States(kinds, max((len(ranks) for ranks in self._devices_of), default=0))
        self.state_of: list[int] = self.states.numbers([self._look(node) for node in range(len(layout.nodes))])
        self.dirty: set[int] = set()
        #: By number of a kind of the mix: its column in `states`.
        self._column: dict[int, int] = {}
        self._counts: Numbers = np.zeros(0)
        self._total: Numbers = np.zeros(0)
        self._scopes: dict[Filter, _NodesInScope] = {}

    def catch_up(self) -> None:
        """Read the nodes marked as changed and, if it has changed, the request mix again."""
        if self._mix.version != self._version:
            self._learn()
        nodes = sorted(self.dirty)
        self.dirty.clear()
        for node, new in zip(nodes, self.states.numbers([self._look(node) for node in nodes]), strict=True):
            old = self.state_of[node]
            if new != old:
                self.state_of[node] = new
                self._total += self.states.usable[new] - self.states.usable[old]
                for each in self._scopes.values():
                    each.move(node, old, new)

    def weights(self) -> Numbers:
        """Return, for each kind of request, its number of tasks divided by its usable amount, scaled to whole numbers.

        The amount of one task is added to each usable amount. The sum of all weights is about `_WEIGHT`; all are 0 if
        the request mix is empty.
        """
        raw = self._counts / (self._total + self.states.columns.size)
        whole = raw.sum()
        return np.rint(raw * (_WEIGHT / whole)) if whole else raw

    def in_scope(self, scope: Scope) -> "_NodesInScope":
        """Return the nodes of a scope by their states; made at the first call, and again if too much is kept."""
        found = self._scopes.get(scope.filter)
        if found is None or len(found.seen) > _MOST_STATES:
            if len(self._scopes) >= _MOST_SCOPES:
                self._scopes.clear()
            found = self._scopes[scope.filter] = _NodesInScope(self, scope)
        return found

    def pick(self, ranks: Iterable[int], slots: Sequence[Slot]) -> list[int]:
        """Return, for each slot, one of these devices of the slot's kind and free amount, in the order of `ranks`."""
        wanted, found = list(slots), []
        for rank in ranks if wanted else ():
            slot = (self._kind_of[rank], self._amount[rank])
            if slot in wanted:
                wanted.remove(slot)
                found.append(rank)
        return found

    def _learn(self) -> None:
        """Read the counts of the request mix again, and add columns for kinds of request that are new."""
        mix = self._mix
        self._version = mix.version
        frequent = mix.frequent()
        new = [number for number in frequent if number not in self._column]
        if new:
            self._column.update(zip(new, itertools.count(len(self._column)), strict=False))
            self.states.ask([mix.kinds[number] for number in new])
            self._total = self.states.usable[self.state_of].sum(axis=0)
        self._counts = np.zeros(len(self._column))
        self._counts[[self._column[number] for number in frequent]] = [mix.counts[number] for number in frequent]

    def _look(self, node: int) -> NodeState:
        amount, kind_of = self._amount, self._kind_of
        slots = sorted((kind_of[rank], amount[rank]) for rank in self._devices_of[node])
        return NodeState(self._room[node], tuple(slots))


class _NodesInScope:
    """The nodes of one scope by their states."""

    def __init__(self, nodes: _NodesInView, scope: Scope) -> None:
        self._nodes = nodes
        self._set_on_node = {nodes.layout.node_of_set[device_set]: device_set for device_set in scope.device_sets}
        self._suitable = tuple(
            number
            for number, kind in enumerate(nodes.states.kinds)
            if kind.selected(scope.filter.pool, scope.filter.models, scope.filter.memory)
        )
        #: The nodes in each state, ascending.
        self._members: dict[int, list[int]] = {}
        #: The number of nodes by state.
        self._count: Integers = np.zeros(len(nodes.states), np.int64)
        #: States in the order in which nodes came to be in them.
        self.seen: list[int] = []
        self._ways: dict[Request, Transitions] = {}
        for node in self._set_on_node:
            self._enter(node, nodes.state_of[node])

    def move(self, node: int, old: int, new: int) -> None:
        """Move a node from one state to another; does nothing if the node is not in the scope."""
        if node in self._set_on_node:
            members = self._members[old]
            del members[bisect_left(members, node)]
            self._count[old] -= 1
            self._enter(node, new)

    def choose(self, scope: Scope, request: Request, weights: Numbers) -> Spot | None:
        """Return the place in the scope where a task of the request costs the weighted mix least; None if none fits.

        Ties that remain go to the node with the lowest number.
        """
        ways = self._ways.pop(request, None)
        if ways is None:
            ways = Transitions(self._nodes.states, request, self._suitable)
            if len(self._ways) >= _MOST_REQUESTS:
                del self._ways[next(iter(self._ways))]  # the one that was not asked for for the longest time
        self._ways[request] = ways
        ways.learn(self.seen)
        best = ways.best(self._count, weights)
        if not best:
            return None
        way = min(best, key=lambda way: self._members[way.state][0])
        node = self._members[way.state][0]
        device_set = self._set_on_node[node]
        return Spot(device_set, self._nodes.pick(scope.ranks[device_set], way.slots))

    def _enter(self, node: int, state: int) -> None:
        """Add a node to the members of a state."""
        if state >= len(self._count):
            self._count = np.concatenate([self._count, np.zeros(state + 64, np.int64)])
        if not self._count[state]:
            self.seen.append(state)
        self._count[state] += 1
        insort(self._members.setdefault(state, []), node)
