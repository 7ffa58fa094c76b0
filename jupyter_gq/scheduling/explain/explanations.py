"""Why each pending workload waits: found out by the cycle that decided, written into a sentence when it is read.

Rules
-----
One reason each: every pending workload gets exactly one reason, and workloads of a queue with like requests share it.

True blockers: workloads that are named as blockers really are. Without them the pending workload would start.

Nothing later: what is found out here is how things stand now, and sentences are made of nothing else (see `reasons`).
"""

from collections.abc import Iterable, Sequence, Set
from functools import partial
from heapq import merge

from jupyter_gq.domain.amount import NO_GPU, HostResource
from jupyter_gq.domain.reasons import Explanation
from jupyter_gq.domain.workload import TaskPlacement, Workload, devices_of
from jupyter_gq.scheduling.admit.job_order import user_usage
from jupyter_gq.scheduling.admit.reservations import free_amount, owners_on_devices, users_of
from jupyter_gq.scheduling.idle.idle_rule import expiry
from jupyter_gq.scheduling.order.pending_queue import PendingQueue
from jupyter_gq.scheduling.quota.accounts import BlockingLimit, LimitKind
from jupyter_gq.scheduling.quota.reclaim_rights import is_guaranteed, names_host_quota
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cycle_state import CycleInputs
from jupyter_gq.scheduling.state.evictions import Evictions
from jupyter_gq.scheduling.state.findings import Findings
from jupyter_gq.scheduling.state.reservations import Reservations
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.disruption import by_disruption
from jupyter_gq.scheduling.workloads.request_class import ClassKey, request_class
from jupyter_gq.scheduling.workloads.seniority import in_fair_order, seniority

from . import reasons
from .blockers import BlockerSearch
from .pending_list import PendingList, QueueEntries, Why
from .supply import Supply


def explain_pending(
    inputs: CycleInputs,
    allocations: Allocations,
    reservations: Reservations,
    evictions: Evictions,
    findings: Findings,
    *,
    deferred: Set[str],
) -> PendingList:
    """Return one entry for each workload that is pending after the cycle. The allocations change on trial only.

    `deferred`: ids of admitted workloads that stay pending, since they cannot be launched soon.
    """
    index, withheld = inputs.index, inputs.index.withheld
    aside, held = _by_queue(withheld.taking_turns()), _by_queue(withheld.held.values())
    started = allocations.admitted.keys() - deferred if deferred else allocations.admitted.keys()
    explainer = _Explainer(inputs, allocations, reservations, evictions, findings)
    own = explainer.own_reasons()
    own |= dict.fromkeys(index.withheld.unobserved, partial(reasons.explain_unobserved, {}))
    own |= dict.fromkeys(deferred, reasons.explain_deferred)
    queues, usage = [], user_usage(index, allocations, evictions)
    for queue in sorted(index.pending.by_seniority.keys() | aside.keys() | held.keys()):
        why: dict[ClassKey, Why] = {}
        waiting = index.pending.by_queue.get(queue) or PendingQueue()
        for key, ranked in waiting.classes.items():
            first = next((w for w in ranked.members if w.id in allocations.pending and w.id not in own), None)
            if first is not None:
                why[key] = explainer.with_refusals(explainer.reason_of_class(first, key))
        by_seniority = index.pending.by_seniority.get(queue)
        members: Sequence[Workload] = () if by_seniority is None else by_seniority.frozen()
        if queue in aside:
            members = tuple(merge(members, aside[queue], key=seniority))
        if usage is not None:
            members = in_fair_order((w for w in members if w.id not in started), usage.get(queue, {}))
        # Held work comes last: nobody waits behind it.
        members = (*members, *held.get(queue, ()))
        queues.append(QueueEntries(members=members, admitted=started, class_of=waiting.class_of, why=why, own=own))
    return PendingList(queues, len(allocations.pending) + len(deferred) + len(withheld))


def _by_queue(workloads: Iterable[Workload]) -> dict[str, list[Workload]]:
    """Return the workloads by leaf queue, and in each by seniority."""
    found: dict[str, list[Workload]] = {}
    for workload in sorted(workloads, key=seniority):
        found.setdefault(workload.queue, []).append(workload)
    return found


class _Explainer:
    """The search for reasons, one workload or one class of like requests at a time.

    A reason is a function that writes the explanation when it is called.
    """

    def __init__(
        self,
        inputs: CycleInputs,
        allocations: Allocations,
        reservations: Reservations,
        evictions: Evictions,
        findings: Findings,
    ) -> None:
        self._inputs = inputs
        self._allocations = allocations
        self._reservations = reservations
        self._evictions = evictions
        self._findings = findings
        self._blockers = BlockerSearch(inputs.index, allocations, reservations, evictions, findings)
        self._supply = Supply(inputs.index, allocations)
        #: Workloads and replicas that were told to stop, by the devices that they still hold.
        self._stopping_on: dict[str, list[Workload]] = {}
        for workload in evictions.stopping.values():
            for device in devices_of(workload.placement):
                self._stopping_on.setdefault(device, []).append(workload)

    def own_reasons(self) -> dict[str, Why]:
        """Return the reasons of workloads that do not share the reason of their class, by id.

        Such workloads are nominated, held, back off, or wait for a notebook, a min runtime or the devices of their
        reservation.
        """
        findings, nominated = self._findings, self._allocations.nominated
        names = {
            *findings.awaited_notebooks,
            *nominated,
            *findings.protected_victims,
            *self._reservations.by_owner,
        }
        pending = self._allocations.pending
        found = {name: self.with_refusals(self._own_reason(pending[name])) for name in sorted(names & pending.keys())}
        for workload in self._inputs.index.withheld.held.values():
            if workload.hold is not None:
                found[workload.id] = partial(reasons.explain_hold, workload.owner, workload.hold)
        for workload in self._inputs.index.withheld.backing_off.values():
            if workload.backoff is not None:
                found[workload.id] = partial(reasons.explain_backoff, workload.backoff)
        return found

    def with_refusals(self, why: Why) -> Why:
        """Return the reason with what is known of idle notebooks in the way whose suspension was refused."""
        refused = self._findings.refused_notebooks
        return partial(reasons.add_refusals, why, refused) if refused else why

    def _own_reason(self, workload: Workload) -> Why:
        """Return the reason of a workload that waits for a notebook, victims, a min runtime or its reservation.

        If all devices reserved for the workload are free, return the reason of its class.
        """
        if workload.id in self._findings.awaited_notebooks:
            return partial(_return, self._waits_for_idle(workload))
        if workload.id in self._allocations.nominated:
            return partial(reasons.explain_stopping_victims, self._numbers(workload), self._stopping_for(workload))
        if workload.id in self._findings.protected_victims:
            return partial(_return, self._waits_for_min_runtime(workload))
        gathers = self._gathers(workload)
        if gathers.blockers and gathers.numbers["held"] < gang.smallest(workload):
            return partial(_return, gathers)
        # The devices reserved for the workload are all free, so it waits for something else.
        with self._allocations.lifting_reservations(workload):
            return self.reason_of_class(workload, request_class(workload))

    def reason_of_class(self, workload: Workload, key: ClassKey) -> Why:
        """Return the first reason that is true of a workload and all others of its class, which is `key`.

        In this order: no such queue, at a limit, larger than the cluster, devices reserved for others, no known work in
        the way while a backend is unobserved, no room.
        """
        account = self._allocations.account(workload)
        if not account.known:
            return partial(reasons.explain_unknown_queue, workload.queue)
        exceeded = self._allocations.first_exceeded_limit(workload, now=False)
        if exceeded is not None:
            return self._at_limit(workload, exceeded)
        idle = self._supply.idle(workload, key)
        numbers = idle.numbers(workload, account)
        if idle.lack is not None:
            return partial(reasons.explain_shortage, idle.lack, {**numbers, **idle.lack.numbers})
        room = self._supply.room(workload, key)
        if room.place is not None:
            numbers["held"] = room.reserved
            return self._behind_reservations(workload, room.place, numbers)
        blockers = tuple(self._blockers.find(workload, key))
        if not blockers and self._inputs.index.config.unobserved:  # only runs that cannot be seen could make room
            return partial(reasons.explain_unobserved, numbers)
        why = partial(reasons.explain_no_room, workload, account.queue, numbers, blockers, room.shortage)
        lenders = self._without_host_quota(workload, blockers, room.short)
        return partial(reasons.add_missing_quotas, why, lenders) if lenders else why

    def _without_host_quota(
        self, workload: Workload, blockers: Sequence[Workload], short: Sequence[HostResource]
    ) -> dict[HostResource, list[str]]:
        """Return the queues of blockers that have no quota of a short host resource, and so need not give it back.

        The result is empty for work that is not within the guarantees of its queue.
        """
        account = self._allocations.account
        if not short or not is_guaranteed(account(workload), workload):
            return {}
        givers = {each.queue: account(each) for each in blockers if each.preemptible and each.queue != workload.queue}
        found = {
            resource: sorted(name for name, giver in givers.items() if not names_host_quota(giver, resource))
            for resource in short
        }
        return {resource: names for resource, names in found.items() if names}

    def _behind_reservations(
        self, workload: Workload, place: tuple[TaskPlacement, ...], numbers: dict[str, int]
    ) -> Why:
        """Return the reason of a workload that would fit at `place` if nothing were reserved."""
        owners = self._blockers.owners_in_the_way(workload, place)
        on_devices = owners_on_devices(self._inputs.index.holders.lenders, self._reservations, workload, place)
        if owners and {each.id for each in on_devices}.isdisjoint(each.id for each in owners):
            return partial(reasons.explain_reserved_host, owners, numbers, self._inputs.now)
        if not owners:  # a reservation that moved away in this cycle was in the way
            devices, every = devices_of(place), self._reservations.owners()
            owners = [each for each in every if not devices.isdisjoint(devices_of(each.reserved))] or every
        return partial(reasons.explain_reserved_devices, owners, numbers, self._inputs.now)

    def _numbers(self, workload: Workload) -> dict[str, int]:
        """Return the numbers that every explanation of the workload has, by name."""
        idle = self._supply.idle(workload, request_class(workload))
        return idle.numbers(workload, self._allocations.account(workload))

    def _at_limit(self, workload: Workload, exceeded: BlockingLimit) -> Why:
        """Return the reason that the workload would exceed a limit or quota of a queue."""
        account, numbers = exceeded.account, self._numbers(workload)
        if exceeded.kind is LimitKind.HOST:
            return partial(reasons.explain_host_limit, account, account.host_lasting, workload, numbers)
        if exceeded.kind is LimitKind.QUOTA:
            numbers.update(bound=account.queue.quota, bound_used=account.fixed_lasting)
        else:
            numbers.update(bound=account.queue.limit or NO_GPU, bound_used=account.lasting)
        blockers = tuple(self._blockers.find(workload, request_class(workload)))
        return partial(reasons.explain_limit, exceeded.kind, account.queue, numbers, blockers)

    def _stopping_for(self, workload: Workload) -> list[Workload]:
        """Return the work that must stop before a nominated workload can start, sorted by id.

        This is the work on its devices; if there is none, on its nodes; if there is none, in queues on its path.
        """
        place = self._allocations.nominated[workload.id]
        by_id = {w.id: w for task in place for device in task.devices for w in self._stopping_on.get(device, ())}
        if not by_id:  # the devices are free, but not the host resources that the workload needs
            nodes = {task.node for task in place}
            stopping_there = (w for w in self._evictions.stopping.values() if nodes & {t.node for t in w.placement})
            by_id = {w.id: w for w in stopping_there}
        if not by_id:
            # The workload waits for room under a limit.
            account = self._allocations.account
            chain = {id(each) for each in account(workload).chain}
            stopping = self._evictions.stopping.values()
            by_id = {w.id: w for w in stopping if chain & {id(each) for each in account(w).chain}}
        return [by_id[name] for name in sorted(by_id)]

    def _waits_for_idle(self, workload: Workload) -> Explanation:
        rule, now = self._inputs.policy.idle, self._inputs.now
        notebooks = self._findings.awaited_notebooks[workload.id]
        left = max(expiry(notebook, rule, now) for notebook in notebooks) - now
        return reasons.explain_idle_notebooks(self._numbers(workload), notebooks, left)

    def _waits_for_min_runtime(self, workload: Workload) -> Explanation:
        protected = self._findings.protected_victims[workload.id]
        running = [victim for victim in protected.victims if self._inputs.protected_for(victim, workload)]
        return reasons.explain_min_runtime(self._numbers(workload), workload, running, protected)

    def _gathers(self, workload: Workload) -> Explanation:
        """Return the explanation that the devices reserved for the workload are not all free yet."""
        place = self._reservations.by_owner[workload.id].place
        with self._allocations.lifting_reservations(workload):
            free = free_amount(self._allocations, workload, place)
            staying = self._users_in_the_way(workload, place)
        devices = devices_of(place)
        stopping = {w.id: w for device in sorted(devices) for w in self._stopping_on.get(device, ())}
        using = [*staying, *(stopping[name] for name in sorted(stopping))]
        waited = self._inputs.now - workload.waits_since
        return reasons.explain_own_reservation(self._numbers(workload), workload, free=free, using=using, waited=waited)

    def _users_in_the_way(self, workload: Workload, place: tuple[TaskPlacement, ...]) -> list[Workload]:
        """Return users of the devices of `place` that must stop before the workload fits, the least disruptive ones.

        If the workload does not fit without all of the users either, all of them are returned. So are idle notebooks
        whose shares other work awaits, which count as gone already.
        """
        users = users_of(self._inputs, self._allocations, self._evictions, place)
        awaited = {each.id for notebooks in self._findings.awaited_notebooks.values() for each in notebooks}
        left = {user.id: user for user in users if user.id not in awaited}
        for user in reversed(list(by_disruption(left.values()))):
            if self._blockers.fits_without(workload, [each for each in left.values() if each.id != user.id]):
                del left[user.id]
        return [user for user in users if user.id in left or user.id in awaited]


def _return(written: Explanation) -> Explanation:
    return written
