"""For whom somebody stops, said anew where the cycle went on: the room may have gone to another one in the end.

Who gets it is told to the owner of the victim, and is served first when the room is free: so it must be true.
"""

from collections.abc import Mapping
from dataclasses import replace

from jupyter_gq.domain.reasons import EvictReason
from jupyter_gq.domain.workload import Workload
from jupyter_gq.scheduling.decision import Evict
from jupyter_gq.scheduling.state.cycle_state import Books
from jupyter_gq.scheduling.state.units import GivenUp
from jupyter_gq.scheduling.workloads.replicas import whole_workload
from jupyter_gq.scheduling.workloads.seniority import seniority

from . import notices


def name_beneficiaries(books: Books) -> None:
    """Each eviction of this cycle is for one whose room was kept, on the devices that become free."""
    first: dict[str, Workload] = {}
    takers = (books.waiting[name] for name in books.promised if name in books.waiting)
    for taker in sorted(takers, key=seniority):
        for task in books.promised[taker.id]:
            for device in task.devices:
                first.setdefault(device, taker)
    units = [*map(books.unit, books.promised), *books.admitted.values()]
    served = {whole_workload(unit).id for unit in units}
    for place, instruction in enumerate(books.instructions):
        if not isinstance(instruction, Evict) or instruction.by is None or instruction.by in served:
            continue
        victim = books.workloads[instruction.workload]
        oldest = _oldest(first, victim)
        sentence = None if oldest is None else _sentence(books, instruction.reason, victim, oldest)
        if oldest is not None and sentence is not None:
            changed = replace(instruction, by=oldest.id, sentence=sentence)
            books.instructions[place] = books.evicted[victim.id] = changed
    for given_up in list(books.units.given_up.values()):
        if given_up.by is not None and given_up.by not in served:
            _name_for_part(books, given_up, _oldest(first, given_up.part))


def _oldest(first: Mapping[str, Workload], victim: Workload) -> Workload | None:
    """Of those who get its devices the one who has waited longest."""
    gets = [first[device] for task in victim.placement for device in task.devices if device in first]
    return min(gets, key=seniority, default=None)


def _name_for_part(books: Books, given_up: GivenUp, taker: Workload | None) -> None:
    part, reason = given_up.part, given_up.reason
    if taker is None or reason is EvictReason.CONSOLIDATED or _sentence(books, reason, part, taker) is None:
        return
    changed = replace(given_up, by=taker.id, sentence=lambda part: _sentence(books, reason, part, taker) or "")
    books.units.given_up[part.id] = changed


def _sentence(books: Books, reason: EvictReason, victim: Workload, taker: Workload) -> str | None:
    """The same reason for the other one; None where it would not be true of him."""
    if reason is EvictReason.CONSOLIDATED:
        return notices.moved(victim, taker, sorted({task.node for task in books.moving[victim.id]}))
    if reason is EvictReason.RECLAIMED and taker.queue != victim.queue:
        return notices.reclaimed(victim, taker)
    if reason is EvictReason.PREEMPTED and taker.queue == victim.queue and taker.priority > victim.priority:
        return notices.preempted(victim, taker)
    return None
