"""The supply for pending work: how much is idle, where it would fit, and which other resource is short.

Use it only after everything has been decided. Each answer is found out once for like requests of a pool, whatever
their queue.
"""

from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import NO_MEMORY, HostResource
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.workload import Request, TaskPlacement, Workload
from jupyter_gq.scheduling.placement import Filter, View, filter_of
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.placement.gang_placement import leading_request, required_domains
from jupyter_gq.scheduling.placement.shortage import Shortage, describe_request
from jupyter_gq.scheduling.quota.accounts import Account
from jupyter_gq.scheduling.state.allocations import Allocations
from jupyter_gq.scheduling.state.cluster_index import ClusterIndex
from jupyter_gq.scheduling.wording import describe_gpus
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassKey

#: The reason for a shortage of something other than devices, and a phrase that says it.
OtherShortage = tuple[PendingReason, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class IdleDevices:
    """The idle devices that like requests may use, reserved or not. Amounts are milli-GPU."""

    #: What the requests would lack even if no workload held anything; None: nothing.
    lack: Shortage | None
    total: int
    #: The most on one device.
    largest: int
    #: The most in one domain, if the requests ask for one; otherwise None.
    in_one_domain: int | None

    def numbers(self, workload: Workload, account: Account) -> dict[str, int]:
        """Return the numbers that every explanation of the workload has, by name, in milli-GPU."""
        numbers = {
            "requested": gang.smallest(workload),
            "used": account.used,
            "quota": account.queue.quota,
            "fair_share": account.fair_share,
            "idle": self.total,
            "largest_idle": self.largest,
        }
        if self.in_one_domain is not None:
            numbers["in_one_domain"] = self.in_one_domain
        return numbers


@dataclass(frozen=True, kw_only=True, slots=True)
class Room:
    """The room that like requests would find if nothing were reserved."""

    #: Milli-GPU that are idle and reserved.
    reserved: int
    #: Where the requests would fit; None if they would not, or if nothing is reserved.
    place: tuple[TaskPlacement, ...] | None
    #: Why the requests do not fit although enough devices are idle; None if devices are short.
    shortage: OtherShortage | None
    #: The host resources of which too little is idle on nodes with enough devices.
    short: tuple[HostResource, ...]


class Supply:
    """The answers of one cycle. The allocations change on trial only."""

    def __init__(self, index: ClusterIndex, allocations: Allocations) -> None:
        self._index = index
        self._allocations = allocations
        #: The idle milli-GPU of all devices that a request may use, and the most on one of them.
        self._totals: dict[Filter, tuple[int, int]] = {}
        #: Answers by pool and class of requests.
        self._idle: dict[tuple[str, ClassKey], IdleDevices] = {}
        self._room: dict[tuple[str, ClassKey], Room] = {}

    def idle(self, workload: Workload, key: ClassKey) -> IdleDevices:
        """Return the idle devices that a workload of the class `key` may use, reserved ones included."""
        like = (self._pool(workload), key)
        found = self._idle.get(like)
        if found is None:
            with self._allocations.lifting_reservations(None):
                found = self._idle[like] = self._find_idle(workload)
        return found

    def room(self, workload: Workload, key: ClassKey) -> Room:
        """Return the room that a workload of the class `key` would find if nothing were reserved."""
        like = (self._pool(workload), key)
        found = self._room.get(like)
        if found is None:
            found = self._room[like] = self._find_room(workload)
        return found

    def _pool(self, workload: Workload) -> str:
        return self._allocations.account(workload).queue.pool

    def _find_idle(self, workload: Workload) -> IdleDevices:
        """Return the idle devices that pass the filters of the workload, and what it would lack in an empty cluster."""
        ledger, pool, request = self._allocations.ledger, self._pool(workload), leading_request(workload)
        selected = filter_of(pool, request if request.devices else Request(devices=1))
        if selected not in self._totals:
            index = ledger.scope(selected).index(View.NOW)
            self._totals[selected] = (index.total, index.largest())
        total, largest = self._totals[selected]
        domains = required_domains(ledger, workload)
        in_one_domain = None
        if domains is not None:
            indexes = (ledger.scope(selected._replace(domains=(domain,))).index(View.NOW) for domain in domains)
            in_one_domain = max((index.total for index in indexes), default=0)
        lack = self._index.shortage_when_empty(pool, workload)
        return IdleDevices(lack=lack, total=total, largest=largest, in_one_domain=in_one_domain)

    def _find_room(self, workload: Workload) -> Room:
        """Return where the workload would fit if nothing were reserved, and what it lacks beside devices.

        The place is None also if nothing is reserved.
        """
        ledger, pool = self._allocations.ledger, self._pool(workload)
        idle, place = ledger.total(pool), None
        with self._allocations.lifting_reservations(None):
            if self._allocations.any_reservations:
                mark = ledger.mark()
                place = assemble.place(ledger, pool, workload, View.FUTURE)
                ledger.rollback(mark)
            shortage = self._find_other_shortage(workload)
            is_of_host = shortage is not None and shortage[0] is PendingReason.NO_CPU_OR_MEMORY
            short = self._find_short(workload) if is_of_host else ()
            return Room(reserved=ledger.total(pool) - idle, place=place, shortage=shortage, short=short)

    def _find_short(self, workload: Workload) -> tuple[HostResource, ...]:
        """Return the host resources that are short when counted with the GPUs alone.

        One task group for which a resource is short is enough. The caller knows that enough GPUs are idle.
        """
        ledger, pool = self._allocations.ledger, self._pool(workload)
        found = set()
        for group in gang.groups_of(workload):
            only_one = (replace(group.request, memory=NO_MEMORY), replace(group.request, cpu_milli=0))
            for resource, request in zip(HostResource, only_one, strict=True):
                if ledger.slots(pool, request, View.NOW) < group.min_members and (request.cpu_milli or request.memory):
                    found.add(resource)
        return tuple(sorted(found))

    def _find_other_shortage(self, workload: Workload) -> OtherShortage | None:
        """Return why the workload does not fit although enough devices are idle.

        Returns None if devices are short, or if only their distribution is the problem.
        """
        ledger, pool = self._allocations.ledger, self._pool(workload)
        for group in gang.groups_of(workload):
            request = group.request
            if ledger.slots(pool, request, View.NOW) >= group.min_members or not ledger.layout.counts_host_resources:
                continue
            plain = replace(request, cpu_milli=0, memory=NO_MEMORY)
            if not request.devices or ledger.slots(pool, plain, View.NOW) >= group.min_members:
                needs = describe_request(replace(request, devices=0)) if plain != request else "room for one more task"
                where = "no node" if not request.devices else f"no node with {describe_gpus(request.milli)} idle"
                return PendingReason.NO_CPU_OR_MEMORY, f"{where} has {needs} free"
        domains = required_domains(ledger, workload)
        if domains and not gang.needs_devices(workload):
            return PendingReason.NO_DOMAIN, f"no {domains[0].levels[-1]} has room for all its tasks"
        return None
