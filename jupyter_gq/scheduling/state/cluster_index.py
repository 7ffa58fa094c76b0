"""What is so between cycles: who holds, who waits, what is free. It is kept up to date one workload at a time.

Rules
-----
1. `put` and `remove` are the only ways in and out, and undo each other exactly: facts that grew step by step are the
   same as facts made of the whole snapshot.
2. A cycle works on the facts and takes back what it did (`Books.forget`); what became of its decision is put
   afterwards, by whoever carried it out.
3. Nothing here depends on the time but who backs off, and a cycle says what time it is (`set_time`). A workload that
   backs off counts nowhere: the other workloads are decided about as if it were not there.
"""

from collections import Counter
from collections.abc import Iterable

from jupyter_gq.domain.amount import Instant
from jupyter_gq.domain.snapshot import Snapshot
from jupyter_gq.domain.states import FINAL, State
from jupyter_gq.domain.workload import Kind, Workload
from jupyter_gq.scheduling.order.pending_queue import Line
from jupyter_gq.scheduling.order.sorted_workloads import Ranked
from jupyter_gq.scheduling.placement import DeviceLedger, MemoryParts, Mix, choice_of, empty_ledger
from jupyter_gq.scheduling.placement.shortage import Lack, lack_of
from jupyter_gq.scheduling.policy import Placement, Policy
from jupyter_gq.scheduling.quota.accounts import Accounts
from jupyter_gq.scheduling.quota.charges import Charges
from jupyter_gq.scheduling.quota.min_runtime import MinRuntimes
from jupyter_gq.scheduling.quota.past_usage import past_of
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.disruption import Disruption, disruption
from jupyter_gq.scheduling.workloads.replicas import Part, held_parts, leaving_parts, wanted_parts
from jupyter_gq.scheduling.workloads.request_class import ClassKey
from jupyter_gq.scheduling.workloads.seniority import Seniority, seniority

#: States whose work can be stopped by an eviction.
EVICTABLE = frozenset({State.ADMITTED, State.STARTING, State.RUNNING})


def wait(workload: Workload) -> tuple[float, str]:
    """Sort key: who has waited longest."""
    return (workload.waits_since, workload.id)


class Facts:
    """Everything that is known before a cycle begins, in the form in which cycles ask for it."""

    def __init__(self, snapshot: Snapshot, policy: Policy) -> None:
        self.policy = policy
        self.nodes = snapshot.nodes
        #: Names of those that are being emptied.
        self.emptying = tuple(node.name for node in snapshot.nodes if node.emptying)
        self.topologies = snapshot.topologies
        self.usage = snapshot.usage
        self.accounts = Accounts(snapshot.queues, snapshot.nodes, past_of(snapshot, policy.usage))
        self.charges = Charges(self.accounts)
        self.min_runtimes = MinRuntimes(self.accounts, policy.min_runtime)
        #: What is asked for, for policies that go by it.
        self.mix = Mix()
        self._mixes = Placement.FRAGMENTATION in (policy.placement, policy.fraction_placement)
        choice = choice_of(policy.placement, self.mix)
        of_fractions = policy.fraction_placement or policy.placement
        self.ledger = DeviceLedger(
            snapshot.nodes,
            self.accounts.pools(),
            choice=choice,
            fractions=choice if of_fractions is policy.placement else choice_of(of_fractions, self.mix),
            topologies=snapshot.topologies,
        )
        self._parts = MemoryParts(snapshot.nodes)
        self._empty: DeviceLedger | None = None
        self.workloads: dict[str, Workload] = {}
        #: Pending workloads with a back-off, whether it is over or not.
        self._with_backoff: dict[str, Workload] = {}
        #: Those of them whose back-off is not over yet; nothing below knows them.
        self.backing_off: dict[str, Workload] = {}
        #: Pending ones.
        self.waiting: dict[str, Workload] = {}
        #: The same, by leaf queue.
        self.lines: dict[str, Line] = {}
        #: What each user holds of each leaf queue and will go on holding; only if that matters to the policy.
        self.shares: dict[str, dict[str, int]] = {}
        #: The same, by leaf queue, in their order.
        self.queued: dict[str, Ranked[Seniority]] = {}
        #: Told to stop, and still holding.
        self.leaving: dict[str, Workload] = {}
        #: Those for whom room is kept from cycle to cycle.
        self.reserved: dict[str, Workload] = {}
        #: The pending ones that need devices, by pool, those first who have waited longest.
        self.by_wait: dict[str, Ranked[tuple[float, str]]] = {}
        #: Who holds devices and can be stopped, preemptible or not: by pool and leaf queue, in the order of disruption.
        self.holders: dict[bool, dict[str, dict[str, Ranked[Disruption]]]] = {True: {}, False: {}}
        #: The same, by node.
        self.on_node: dict[str, dict[str, Workload]] = {}
        #: Of elastic workloads that hold devices: what they have above their smallest gang, that gang under the id of
        #: the workload, and what they could still have; by workload.
        self.parts: dict[str, dict[str, Part]] = {}
        self.cores: dict[str, Workload] = {}
        self.wanted: dict[str, dict[str, Part]] = {}
        #: Gangs that lost some of their tasks.
        self.stale: dict[str, Workload] = {}
        #: How many workloads have each priority.
        self.priorities: Counter[int] = Counter()
        self._priorities_in: dict[str, Counter[int]] = {}
        self._lacks: dict[object, Lack | None] = {}
        self._classes: dict[ClassKey, ClassKey] = {}
        #: Those whose bytes are lent.
        self.suspended: dict[str, Workload] = {}
        #: Running notebooks: the only ones that can be idle.
        self.notebooks: dict[str, Workload] = {}
        self._pool_of = {device.id: device.pool for node in snapshot.nodes for device in node.devices}
        for workload in snapshot.workloads:
            self.put(workload)

    def put(self, workload: Workload) -> None:
        """It is new, or has changed."""
        self.remove(workload.id)
        if workload.state in FINAL:
            return
        workload = self._parts.of_workload(workload, self.accounts.of(workload.queue).queue.pool)
        self.workloads[workload.id] = workload
        if workload.state is State.PENDING and workload.backoff is not None:
            self._with_backoff[workload.id] = self.backing_off[workload.id] = workload
        else:
            self._enter(workload)

    def remove(self, name: str) -> None:
        """It is final, or gone; nothing when it is not known."""
        workload = self.workloads.pop(name, None)
        if workload is None:
            return
        self._with_backoff.pop(name, None)
        if self.backing_off.pop(name, None) is None:
            self._withdraw(workload)

    def set_time(self, now: Instant) -> None:
        """Let those workloads take part whose back-off is over at `now`, and no workload that still backs off."""
        for name, workload in self._with_backoff.items():
            if workload.is_backing_off(now) == (name in self.backing_off):
                continue
            if name in self.backing_off:
                self._enter(self.backing_off.pop(name))
            else:
                self._withdraw(workload)
                self.backing_off[name] = workload

    def _enter(self, workload: Workload) -> None:
        """Count a workload of `workloads` in every other index."""
        self._count_priority(workload, 1)
        if workload.reserved:
            self.reserved[workload.id] = workload
        if self._mixes:
            self._ask(workload, 1)
        if workload.state is State.PENDING:
            self.waiting[workload.id] = workload
            self.line_up(workload)
            if workload.queue not in self.queued:
                self.queued[workload.queue] = Ranked(seniority)
            self.queued[workload.queue].add(workload)
            if self._reserves(workload):
                self.by_wait.setdefault(self._pool(workload), Ranked(wait)).add(workload)
            self.accounts.demand(self.accounts.of(workload.queue), workload.milli)
        elif workload.holds:
            self._count(workload, 1)
            self._list(workload)

    def _withdraw(self, workload: Workload) -> None:
        """Undo `_enter`."""
        name = workload.id
        self._count_priority(workload, -1)
        self.reserved.pop(name, None)
        if self._mixes:
            self._ask(workload, -1)
        if workload.state is State.PENDING:
            del self.waiting[name]
            self.step_out(workload)
            self.queued[workload.queue].remove(workload)
            if not self.queued[workload.queue]:
                del self.queued[workload.queue]
            if self._reserves(workload):
                self.by_wait[self._pool(workload)].remove(workload)
            self.accounts.demand(self.accounts.of(workload.queue), -workload.milli)
        elif workload.holds:
            self._count(workload, -1)
            self._unlist(workload)

    def _reserves(self, workload: Workload) -> bool:
        return self.policy.reserve_after is not None and gang.needs_devices(workload)

    def _pool(self, workload: Workload) -> str:
        return self.accounts.of(workload.queue).queue.pool

    def line_up(self, workload: Workload) -> None:
        """It waits in the line of its queue, and takes its turn."""
        if workload.queue not in self.lines:
            self.lines[workload.queue] = Line(self._classes)
        self.lines[workload.queue].add(workload)

    def step_out(self, workload: Workload) -> None:
        """It does not wait any more; it is the same as when it lined up."""
        line = self.lines[workload.queue]
        line.remove(workload)
        if not line.classes:
            del self.lines[workload.queue]

    def pool_of(self, device: str) -> str:
        """The pool of that device; "" for one that does not exist."""
        return self._pool_of.get(device, "")

    def pools_of(self, workload: Workload) -> frozenset[str]:
        """The pools of the devices that it holds; that of its queue, if it holds only room that nodes count."""
        pool_of = self._pool_of
        found = frozenset(pool_of[d] for task in workload.placement for d in task.devices if d in pool_of)
        if not found and workload.placement and self.ledger.layout.counts_room:
            return frozenset((self.accounts.of(workload.queue).queue.pool,))
        return found

    @property
    def empty(self) -> DeviceLedger:
        """The nodes as if nobody held anything: what could ever fit while devices are as healthy as now."""
        if self._empty is None:
            self._empty = empty_ledger(self.nodes, self.topologies)
        return self._empty

    def _ask(self, workload: Workload, sign: int) -> None:
        pool = self.accounts.of(workload.queue).queue.pool
        for group in gang.groups_of(workload):
            self.mix.add(pool, group.request, sign * group.tasks)

    def lack_when_empty(self, pool: str, workload: Workload) -> Lack | None:
        """What it lacks even when nobody holds anything; found out once for all who ask for the same."""
        key = (pool, workload.request, workload.min_members, workload.groups, workload.topology)
        if key not in self._lacks:
            self._lacks[key] = lack_of(self.empty, pool, workload)
        return self._lacks[key]

    def priorities_in(self, queue: str) -> Iterable[int]:
        """The priorities of all who wait or hold something in a leaf queue."""
        return self._priorities_in.get(queue, ())

    def _count_priority(self, workload: Workload, sign: int) -> None:
        for counter in (self.priorities, self._priorities_in.setdefault(workload.queue, Counter())):
            counter[workload.priority] += sign
            if not counter[workload.priority]:
                del counter[workload.priority]

    def _count(self, workload: Workload, sign: int) -> None:
        account = self.accounts.of(workload.queue)
        stopping = workload.state is State.STOPPING
        milli = gang.held(workload)
        if self.policy.per_user and not stopping:
            shares = self.shares.setdefault(workload.queue, {})
            shares[workload.owner] = shares.get(workload.owner, 0) + sign * milli
        self.charges.hold(workload, sign, later=not stopping)
        if workload.state is State.SUSPENDED:
            self.ledger.keep_room(workload, free=-sign, future=-sign)
        else:
            self.ledger.hold(workload, stopping=stopping, sign=sign)
        comes_back = not stopping or (workload.stop is not None and workload.stop.requeue)
        if comes_back:
            self.accounts.demand(account, sign * max(milli, workload.milli))
        for part in leaving_parts(workload):
            self.charges.hold(part, sign, later=False)
            self.ledger.hold(part, stopping=True, sign=sign)

    def _list(self, workload: Workload) -> None:
        if workload.state is State.SUSPENDED:
            self.suspended[workload.id] = workload
        if workload.state is State.STOPPING:
            self.leaving[workload.id] = workload
        for part in leaving_parts(workload):
            self.leaving[part.id] = part
        if workload.state not in EVICTABLE:
            return
        if workload.stale_since is not None:
            self.stale[workload.id] = workload
        if workload.kind is Kind.NOTEBOOK:
            self.notebooks[workload.id] = workload
        core, parts = held_parts(workload)
        for unit in (core, *parts):
            self._list_unit(unit)
        if workload.elastic:
            self._list_parts(core, parts, wanted_parts(workload))

    def _list_unit(self, unit: Workload) -> None:
        for pool in self.pools_of(unit):
            leaves = self.holders[unit.preemptible].setdefault(pool, {})
            if unit.queue not in leaves:
                leaves[unit.queue] = Ranked(disruption)
            leaves[unit.queue].add(unit)
        for task in unit.placement:
            self.on_node.setdefault(task.node, {})[unit.id] = unit

    def _unlist(self, workload: Workload) -> None:
        self.leaving.pop(workload.id, None)
        for part in leaving_parts(workload):
            self.leaving.pop(part.id, None)
        self.notebooks.pop(workload.id, None)
        self.suspended.pop(workload.id, None)
        self.stale.pop(workload.id, None)
        if workload.state not in EVICTABLE:
            return
        core, parts = held_parts(workload)
        for unit in (core, *parts):
            for pool in self.pools_of(unit):
                leaves = self.holders[unit.preemptible][pool]
                leaves[unit.queue].remove(unit)
                if not leaves[unit.queue]:
                    del leaves[unit.queue]
            for task in unit.placement:
                self.on_node[task.node].pop(unit.id, None)
        self.cores.pop(workload.id, None)
        self.parts.pop(workload.id, None)
        for part in self.wanted.pop(workload.id, {}).values():
            self.step_out(part)

    def _list_parts(self, core: Workload, parts: list[Part], wanted: list[Part]) -> None:
        if parts:
            self.cores[core.id] = core
            self.parts[core.id] = {part.id: part for part in parts}
        if wanted:
            self.wanted[core.id] = {part.id: part for part in wanted}
        for part in wanted:
            self.line_up(part)
