"""What there is for those who wait: how much is idle, where it would fit, and what else there is too little of.

It is found out when everything has been decided, once for like requests of a pool, whatever their queue.
"""

from dataclasses import dataclass, replace

from jupyter_gq.domain.amount import NO_MEMORY
from jupyter_gq.domain.reasons import PendingReason
from jupyter_gq.domain.workload import Request, TaskPlacement, Workload
from jupyter_gq.scheduling.admit.held_devices import passing
from jupyter_gq.scheduling.placement import Filter, View, filter_of
from jupyter_gq.scheduling.placement import gang_placement as assemble
from jupyter_gq.scheduling.placement.gang_placement import leading_request, required_domains
from jupyter_gq.scheduling.placement.shortage import Shortage, describe_request
from jupyter_gq.scheduling.quota.accounts import Account
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.wording import gpus
from jupyter_gq.scheduling.workloads import gang
from jupyter_gq.scheduling.workloads.request_class import ClassKey

#: What there is too little of beside devices, and how to say it.
Tight = tuple[PendingReason, str]


@dataclass(frozen=True, kw_only=True, slots=True)
class Idle:
    """What is idle of all that like requests may use, with what is held for somebody."""

    #: What they would lack even if nobody held anything.
    lack: Shortage | None
    total: int
    #: The most on one device.
    largest: int
    #: The most in one domain of those that they ask for, if they do.
    in_one_domain: int | None

    def numbers(self, workload: Workload, account: Account) -> dict[str, int]:
        """The numbers of every explanation, by name."""
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
    """What there is for like requests if nothing is held for anybody."""

    #: How much of it is idle and held.
    held: int
    #: Where they would fit.
    place: tuple[TaskPlacement, ...] | None
    tight: Tight | None


class Supply:
    """The answers of one cycle."""

    def __init__(self, books: Books) -> None:
        self._books = books
        #: By what may be used: how much is idle, and the most on one device.
        self._totals: dict[Filter, tuple[int, int]] = {}
        #: By pool and class of requests.
        self._idle: dict[tuple[str, ClassKey], Idle] = {}
        self._room: dict[tuple[str, ClassKey], Room] = {}

    def idle(self, workload: Workload, like: ClassKey) -> Idle:
        """What is idle for it; `like` is its class."""
        key = (self._pool(workload), like)
        found = self._idle.get(key)
        if found is None:
            with passing(self._books, None):  # what is held for somebody is idle, too
                found = self._idle[key] = self._find_idle(workload)
        return found

    def room(self, workload: Workload, like: ClassKey) -> Room:
        """Where it would fit; `like` is its class."""
        key = (self._pool(workload), like)
        found = self._room.get(key)
        if found is None:
            found = self._room[key] = self._find_room(workload)
        return found

    def _pool(self, workload: Workload) -> str:
        return self._books.account(workload).queue.pool

    def _find_idle(self, workload: Workload) -> Idle:
        ledger, pool, request = self._books.ledger, self._pool(workload), leading_request(workload)
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
        lack = self._books.index.shortage_when_empty(pool, workload)
        return Idle(lack=lack, total=total, largest=largest, in_one_domain=in_one_domain)

    def _find_room(self, workload: Workload) -> Room:
        books, ledger, pool = self._books, self._books.ledger, self._pool(workload)
        idle, place = ledger.total(pool), None
        with passing(books, None):  # what is held for somebody is idle, too
            if books.holds:
                mark = ledger.mark()
                place = assemble.place(ledger, pool, workload, View.FUTURE)
                ledger.rollback(mark)
            return Room(held=ledger.total(pool) - idle, place=place, tight=self._find_tight(workload))

    def _find_tight(self, workload: Workload) -> Tight | None:
        ledger, pool = self._books.ledger, self._pool(workload)
        for group in gang.groups_of(workload):
            request = group.request
            if ledger.slots(pool, request, View.NOW) >= group.min_members or not ledger.layout.counts_room:
                continue
            plain = replace(request, cpu_milli=0, memory=NO_MEMORY)
            if not request.devices or ledger.slots(pool, plain, View.NOW) >= group.min_members:
                needs = describe_request(replace(request, devices=0)) if plain != request else "room for one more task"
                where = "no node" if not request.devices else f"no node with {gpus(request.milli)} idle"
                return PendingReason.NO_CPU_OR_MEMORY, f"{where} has {needs} free"
        domains = required_domains(ledger, workload)
        if domains and not gang.needs_devices(workload):
            return PendingReason.NO_DOMAIN, f"no {domains[0].levels[-1]} has room for all its tasks"
        return None
